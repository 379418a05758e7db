"""Finds the masks that dropout used, from outside.

A mask is a function of seed, layer, step, sample and unit alone. So a network of the same widths
and seed shows the mask of a layer: its weights are chosen so that this layer gives ones, the next
one, which is the last, passes its input on, and the output is the mask itself, scale included.
"""

from __future__ import annotations

from typing import Callable

import numpy as np
import reference
from helpers import Problem
from reference import Shape


def probe(shape: Shape, boundary: int) -> Problem:
    """The network that shows the mask between layers `boundary` and `boundary + 1`."""
    sizes = Shape("rnn_relu", shape.T, shape.N, 1, shape.S, boundary + 2, shape.D)
    weights = reference.unpack(sizes, np.zeros(sizes.param_count))
    for d in range(shape.D):
        weights[boundary, d, "bW"] = np.ones(shape.S)
        through = np.zeros((shape.S, shape.D * shape.S))
        through[:, d * shape.S : (d + 1) * shape.S] = np.eye(shape.S)
        weights[boundary + 1, d, "W"] = through
    return Problem(
        sizes,
        x=np.zeros((shape.T, shape.N, 1)),
        params=reference.pack(sizes, weights),
        h0=np.zeros((sizes.L * sizes.D, shape.N, shape.S)),
        c0=None,
        dy=None,
        dhN=None,
        dcN=None,
    )


def find(shape: Shape, run: Callable[[Problem], np.ndarray]) -> list[np.ndarray]:
    """The masks of all boundaries; `run` gives a problem's y in training with the seed in
    question.
    """
    return [run(probe(shape, boundary)) for boundary in range(shape.L - 1)]
