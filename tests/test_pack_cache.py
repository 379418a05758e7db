"""Packed weights that predictions leave for the next ones."""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
from helpers import make, operator_attributes, operator_inputs, run_code

import fused_rnn


def held():
    mx.nd.waitall()
    return fused_rnn.memory()["packed_weights"]


@pytest.fixture(autouse=True)
def from_nothing():
    mx.nd.waitall()
    fused_rnn.release_memory()
    assert held() == 0
    yield
    fused_rnn.release_memory()


def predictions(problem, times, **attributes):
    arrays = operator_inputs(problem, "float32")
    attributes = operator_attributes(problem, **attributes)
    found = []
    for _ in range(times):
        outputs = mx.nd.FusedRNN(*arrays, **attributes)
        found.append([out.asnumpy() for out in outputs])
    return found


@pytest.mark.parametrize("mode", ["rnn_relu", "rnn_tanh", "lstm", "gru"])
@pytest.mark.parametrize(("L", "D"), [(1, 1), (2, 2)])
def test_bits_are_those_of_weights_packed_by_the_call(mode, L, D):
    problem = make(mode, T=2, N=3, I=11, H=37, L=L, D=D, dtype="float32")
    first, *others = predictions(problem, 4)
    assert held() >= 4 * problem.params.size
    for other in others:
        for a, b in zip(first, other):
            np.testing.assert_array_equal(a, b)


def test_weights_are_packed_when_they_come_again():
    problem = make("gru", T=2, N=3, I=11, H=37, dtype="float32")
    predictions(problem, 1)
    assert held() == 0
    predictions(problem, 1)
    once = held()
    assert once > 0
    predictions(problem, 2)  # other arrays, states and shapes, the same weights
    predictions(problem.replace(x=problem.x[:1], dy=problem.dy[:1]), 2)
    assert held() == once


def test_other_weights_have_packs_of_their_own():
    held_before = 0
    for seed in range(3):
        predictions(make("gru", T=2, N=3, I=11, H=37, dtype="float32", seed=seed), 3)
        assert held() > held_before
        held_before = held()
    fused_rnn.release_memory()
    assert held() == 0


def test_long_calls_and_training_keep_none():
    predictions(make("gru", T=60, N=20, I=3, H=5, dtype="float32"), 3)
    problem = make("gru", T=2, N=3, I=11, H=37, dtype="float32")
    arrays = operator_inputs(problem, "float32")
    arrays[1].attach_grad()
    for _ in range(3):
        with mx.autograd.record():
            y = mx.nd.FusedRNN(*arrays, **operator_attributes(problem))[0]
        y.backward()
    assert held() == 0


LIMITED = """
import mxnet as mx
import fused_rnn
from helpers import make, operator_attributes, operator_inputs
most = 0
for seed in (0, 1, 2, 0, 1, 2):
    problem = make("gru", T=2, N=3, I=64, H=128, dtype="float32", seed=seed)
    for _ in range(3):
        mx.nd.FusedRNN(*operator_inputs(problem, "float32"), **operator_attributes(problem))
    mx.nd.waitall()
    most = max(most, fused_rnn.memory()["packed_weights"])
print("most", most)
"""


@pytest.mark.parametrize(("limit", "packs"), [("0", 0), ("0.4", 1), ("0.7", 2), ("", 3)])
def test_limit(limit, packs):
    """One set of weights takes 0.29 MB."""
    found = run_code(LIMITED, FUSED_RNN_PACK_CACHE_MB=limit)
    most = int(found.split("most")[1])
    assert round(most / (3 * 128 * (64 + 128 + 2) * 4)) == packs


@pytest.mark.parametrize("limit", ["many", "-1", "nan", "1 GB"])
def test_a_limit_that_is_none(limit):
    code = LIMITED.replace("mx.nd.waitall()", "mx.nd.waitall()").split("print")[0]
    code = f"try:\n    exec({code!r})\nexcept mx.MXNetError as error:\n    print(error)\n"
    found = run_code("import mxnet as mx\n" + code, FUSED_RNN_PACK_CACHE_MB=limit)
    assert f"FUSED_RNN_PACK_CACHE_MB: expected a number from 0 to 1e9, got '{limit}'" in found
