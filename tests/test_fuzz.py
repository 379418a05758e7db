"""Random configurations over the whole attribute space; FUSED_RNN_FUZZ=N runs N of them instead of
a few.

Every configuration has a number of its own that makes it again: `pytest
"test_fuzz.py::test_core[17]"`.
"""

from __future__ import annotations

import os

import masks
import mxnet as mx
import numpy as np
import pytest
from helpers import (
    check_gradients,
    check_outputs,
    core_backward,
    core_forward,
    make,
    operator_attributes,
    operator_gradients,
    operator_inputs,
)
from reference import CELLS, LSTMS, Gradients

from fused_rnn import _core

COUNT = int(os.environ.get("FUSED_RNN_FUZZ", "150"))
NAMES = ("dx", "dparams", "dh0", "dc0")
REQUESTS = ("write", "write", "add", "null")
DTYPES = ("float64", "float64", "float32", "float16", "bfloat16")


def size(rng, largest: int) -> int:
    """Mostly small, at times beside a power of two."""
    if rng.random() < 0.3:
        return min(largest, max(1, 2 ** rng.integers(1, 7) + rng.integers(-1, 2)))
    return int(rng.integers(1, min(largest, 7) + 1))


def configuration(number: int):
    """(problem, dtype, dropout, rng) of a number."""
    rng = np.random.default_rng([2024, number])
    mode = CELLS[rng.integers(len(CELLS))]
    dtype = DTYPES[rng.integers(len(DTYPES))]
    lstm = mode in LSTMS
    T, N, I, H = (size(rng, largest) for largest in (20, 40, 40, 40))
    if dtype in ("float16", "bfloat16"):
        T = min(T, 5)  # errors of storage add up
    L, D = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    P = int(rng.integers(1, H + 1)) if lstm and rng.random() < 0.4 else 0
    options = {}
    if rng.random() < 0.5:
        options["lengths"] = [int(length) for length in rng.integers(0, T + 1, N)]
    if lstm and rng.random() < 0.3:
        low = -float(rng.random())
        options["clip"] = (low, low + 2 * float(rng.random()))
        options["clip_nan"] = bool(rng.random() < 0.5)
    dropout = float(rng.choice([0.0, 0.0, 0.25, 0.5]))
    problem = make(mode, T, N, I, H, L, D, P, seed=number, dtype=dtype, **options)
    if "lengths" in options and rng.random() < 0.5:
        padding = np.arange(T)[:, None] >= np.array(options["lengths"])
        problem.x[padding] = np.nan
        problem.dy[padding] = np.nan
    return problem, dtype, dropout, rng


def with_masks(problem, found):
    return problem.replace(options={**problem.options, "masks": found})


@pytest.fixture
def threads(request):
    """1 to 4 threads, by the test's number."""
    _core.set_num_threads(1 + request.node.callspec.params["number"] % 4)
    yield
    _core.set_num_threads(0)


@pytest.mark.parametrize("number", range(COUNT))
def test_core(number, threads):
    problem, dtype, dropout, rng = configuration(number)
    if dtype == "bfloat16":
        dtype = "float32"  # NumPy has no bfloat16; the values are exact in float32 as well
    shape = problem.shape
    found = None
    if dropout and shape.L > 1:
        found = masks.find(
            shape,
            lambda net: core_forward(net, training=True, dropout=dropout, dropout_seed=number)[0],
        )
    expected = with_masks(problem, found)
    if found is None:
        check_outputs(core_forward(problem, dtype), expected.outputs(), shape, dtype)
    y, hN, cN, reserve = core_forward(
        problem, dtype, training=True, dropout=dropout, dropout_seed=number
    )
    check_outputs((y, hN, cN), expected.outputs(), shape, dtype)

    gradients = expected.gradients()
    given, requests, targets = {}, {}, []
    for name, gradient in zip(NAMES, gradients):
        request = REQUESTS[rng.integers(len(REQUESTS))]
        requests[f"{name}_req"] = request
        if gradient is None or request == "null":
            requests[f"{name}_req"] = "null"
            targets.append(None)
        elif request == "add":
            given[name] = np.ones(gradient.shape, dtype)
            targets.append(gradient + 1)
        else:
            targets.append(gradient)
    actual = core_backward(problem, y, reserve, dtype, dropout=dropout, **given, **requests)
    check_gradients(actual, Gradients(*targets), shape, dtype)


@pytest.mark.parametrize("number", range(COUNT, COUNT + COUNT // 2))
def test_operator(number, threads):
    problem, dtype, dropout, _ = configuration(number)
    found = None
    if dropout and problem.shape.L > 1:

        def run(net):
            mx.random.seed(number)
            with mx.autograd.record():
                outputs = mx.nd.FusedRNN(
                    *operator_inputs(net), **operator_attributes(net, p=dropout)
                )
            return outputs[0].asnumpy()

        found = masks.find(problem.shape, run)
    expected = with_masks(problem, found)
    mx.random.seed(number)
    outputs, gradients = operator_gradients(problem, dtype, p=dropout)
    check_outputs(outputs, expected.outputs(), problem.shape, dtype)
    check_gradients(gradients, expected.gradients(), problem.shape, dtype)
