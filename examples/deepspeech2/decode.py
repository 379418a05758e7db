"""From the scores of the network to text."""

from __future__ import annotations

import argparse
import functools
from typing import Callable

import numpy as np

from examples.deepspeech2.data import ALPHABET, BLANK
from examples.inputs import whole

WIDEST = 1000  # beginnings in a search; each costs time at every step


def log_probabilities(scores: np.ndarray) -> np.ndarray:
    """The logarithm of the softmax over the last axis, in double precision."""
    shifted = scores.astype("float64") - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def add_argument(parser: argparse.ArgumentParser, default: int) -> None:
    """The option that says which decoder."""
    parser.add_argument(
        "--beam",
        type=whole(0, WIDEST),
        default=default,
        help=f"beginnings kept; 0: greedy ({default})",
    )


def decoder(beam: int) -> Callable[[np.ndarray], str]:
    """What --beam stands for."""
    return functools.partial(beam_search, width=beam) if beam else greedy


def greedy(scores: np.ndarray) -> str:
    """The text of the most probable path through [T, characters + 1]."""
    best = scores.argmax(axis=1)
    changes = np.append(True, best[1:] != best[:-1])
    return "".join(ALPHABET[k] for k in best[changes & (best != BLANK)])


def beam_search(scores: np.ndarray, width: int = 16) -> str:
    """The most probable text: the sum over all paths that spell it (Hannun et al. 2014), searched
    among the `width` best beginnings at each step.
    """
    if width < 1:
        raise ValueError(f"width: expected at least 1, found {width}")
    # The logarithms of the probabilities that the paths so far spell a text and end in a blank,
    # or in its last character.
    beams = {"": (0.0, -np.inf)}
    for step in log_probabilities(scores):
        grown: dict[str, tuple[float, float]] = {}

        def add(text: str, blank: float, character: float, grown: dict = grown) -> None:
            old = grown.get(text, (-np.inf, -np.inf))
            grown[text] = (np.logaddexp(old[0], blank), np.logaddexp(old[1], character))

        likely = [k for k in np.argsort(step)[-width:] if k != BLANK]
        for text, (blank, character) in beams.items():
            either = np.logaddexp(blank, character)
            repeated = character + step[ALPHABET.index(text[-1])] if text else -np.inf
            add(text, either + step[BLANK], repeated)
            for k in likely:
                # The same character again is a new one only after a blank.
                before = blank if text.endswith(ALPHABET[k]) else either
                add(text + ALPHABET[k], -np.inf, before + step[k])
        best = sorted(grown, key=lambda text: -np.logaddexp(*grown[text]))[:width]
        beams = {text: grown[text] for text in best}
    return max(beams, key=lambda text: np.logaddexp(*beams[text]))
