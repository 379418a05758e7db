"""set_recompute: no reserve between the passes, and the same bits as without it."""

from __future__ import annotations

import gc

import mxnet as mx
import pytest
from helpers import (
    make,
    operator_attributes,
    operator_gradients,
    operator_inputs,
    run_code,
    run_tests,
)
from reference import CELLS
from test_hybridize import HYBRID, layer, step

import fused_rnn
from fused_rnn import gluon

LENGTHS = {"lengths": [5, 0, 2, 4]}
CASES = [(mode, features) for mode in CELLS for features in ({}, LENGTHS)]
CASES += [("lstm", {"clip": (-0.3, 0.2)}), ("lstm", {"P": 7})]


@pytest.fixture(autouse=True)
def default_setting():
    yield
    fused_rnn.set_recompute(False)


def live_reserve() -> int:
    mx.nd.waitall()
    gc.collect()
    mx.nd.waitall()
    return fused_rnn.memory()["reserve"]


def check_same_bits(run) -> None:
    """run() gives the same arrays with the setting as without it, and leaves the random stream at
    the same place.
    """
    found = []
    for on in (False, True):
        fused_rnn.set_recompute(on)
        mx.random.seed(5)
        arrays = [*run(), mx.nd.random.uniform(shape=8).asnumpy()]
        found.append([array.tobytes() for array in arrays])
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("mode", "features"), CASES, ids=str)
def test_operator(mode, features, dtype):
    problem = make(mode, N=4, H=20, L=2, D=2, dtype=dtype, **features)

    def run(p):
        outputs, gradients = operator_gradients(problem, dtype, p=p)
        return [*outputs, *gradients]

    for p in (0, 0.5):
        check_same_bits(lambda p=p: run(p))


@pytest.mark.parametrize("p", [0, 0.5])
@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("mode", CELLS)
def test_blocks_that_add_gradients(mode, how, p):
    problem = make(mode, N=4, H=20, L=2, D=2)

    def run():
        net = layer(problem, how, p=p)
        net.weights.grad_req = "add"
        net.weights.zero_grad()
        for _ in range(2):
            outputs, gradients = step(net, problem, add=True)
        return [*outputs, *gradients]

    check_same_bits(run)


def stacked(p: float) -> mx.gluon.nn.HybridSequential:
    """Three layers, each an operator of its own."""
    net = mx.gluon.nn.HybridSequential()
    for _ in range(3):
        net.add(gluon.LSTM(hidden_size=24, num_layers=2, dropout=p))
    net.initialize(mx.init.Normal(0.1))
    return net


@pytest.mark.parametrize("p", [0, 0.5])
@pytest.mark.parametrize("hybrid", [False, True])
def test_layers_keep_no_reserve_between_the_passes(hybrid, p):
    x = mx.nd.random.normal(shape=(6, 4, 24))

    def run():
        mx.random.seed(7)
        net = stacked(p)
        if hybrid:
            net.hybridize(static_alloc=True)
        before = live_reserve()
        with mx.autograd.record():
            y = net(x)
        held.append(live_reserve() - before)
        y.backward()
        assert live_reserve() == before
        gradients = [parameter.grad() for parameter in net.collect_params().values()]
        return [array.asnumpy() for array in (y, *gradients)]

    held: list[int] = []
    check_same_bits(run)
    assert held[0] > 0
    assert held[1] == 0


def test_a_reused_state_gives_up_its_reserve():
    """A recording that nobody ended, then one with the setting, by the same graph."""
    problem = make("lstm", L=2)
    net = layer(problem, "static_shape")
    data, _, *states = operator_inputs(problem)
    before = live_reserve()
    for on in (False, True):
        fused_rnn.set_recompute(on)
        with mx.autograd.record():
            net(data, *states)
        assert (live_reserve() > before) == (not on)


@pytest.mark.parametrize("p", [0, 0.5])
def test_backward_twice(p):
    problem = make("gru", L=2, D=2)

    def run():
        arrays = operator_inputs(problem)
        for array in arrays:
            array.attach_grad()
        with mx.autograd.record():
            outputs = mx.nd.FusedRNN(*arrays, **operator_attributes(problem, p=p))
        found = []
        for k in (1, 2):
            mx.autograd.backward(outputs, retain_graph=k == 1)
            found += [array.grad.asnumpy() for array in arrays]
        return found

    check_same_bits(run)


def test_calls_keep_the_setting_that_they_were_made_with():
    """Although MXNet runs them later: here a slow product comes first."""
    problem = make("lstm", dtype="float32")
    data, params, *states = operator_inputs(problem, "float32")
    params.attach_grad()
    slow = mx.nd.ones((1000, 1000))
    held = []
    for on in (False, True):
        fused_rnn.set_recompute(on)
        before = live_reserve()
        zero = 0 * mx.nd.dot(slow, slow)[0, 0]
        with mx.autograd.record():
            late = mx.nd.broadcast_add(data, zero.reshape((1, 1, 1)))
            y = mx.nd.FusedRNN(late, params, *states, **operator_attributes(problem))
        assert fused_rnn.set_recompute(not on) is on
        held.append(live_reserve() - before)
        del y
    assert held[0] > 0
    assert held[1] == 0


def test_the_environment_sets_it():
    code = "import fused_rnn; print('setting', fused_rnn.set_recompute(False))"
    assert "setting True" in run_code(code, FUSED_RNN_RECOMPUTE="1")
    assert "setting False" in run_code(code, FUSED_RNN_RECOMPUTE="0")


def test_what_holds_for_graphs_holds_with_it():
    """Reused states, forwards between a forward and its backward, frozen parameters."""
    run_tests("test_hybridize.py", FUSED_RNN_RECOMPUTE="1")
