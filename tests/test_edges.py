"""Sizes at the edges, what can't be computed, and settings that must not matter."""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
import reference
from helpers import (
    check,
    check_gradients,
    check_outputs,
    core_backward,
    core_forward,
    core_gradients,
    make,
    nd,
    operator_attributes,
    operator_forward,
    operator_gradients,
    operator_inputs,
    run_tests,
)
from reference import CELLS, LSTMS

from fused_rnn import _core

EMPTY = {"no steps": {"T": 0}, "no samples": {"N": 0}, "neither": {"T": 0, "N": 0}}


@pytest.mark.parametrize("case", EMPTY)
@pytest.mark.parametrize("mode", CELLS)
def test_empty_sequences_and_batches(mode, case):
    problem = make(mode, L=2, D=2, **EMPTY[case])
    check_outputs(core_forward(problem), problem.outputs(), problem.shape)
    check_gradients(core_gradients(problem), problem.gradients(), problem.shape)
    with mx.util.np_shape(True):
        outputs, gradients = operator_gradients(problem)
    check_outputs(outputs, problem.outputs(), problem.shape)
    check_gradients(gradients, problem.gradients(), problem.shape)


@pytest.mark.parametrize("mode", CELLS)
def test_no_steps_hand_the_states_on(mode):
    problem = make(mode, T=0, L=2, D=2)
    y, hN, cN, _ = core_forward(problem)
    assert y.shape == (0, 2, 8)
    np.testing.assert_array_equal(hN, problem.h0)
    if mode in LSTMS:
        np.testing.assert_array_equal(cN, problem.c0)


@pytest.mark.parametrize("mode", CELLS)
def test_no_inputs(mode):
    """I = 0: biases and the recurrence only."""
    problem = make(mode, I=0, L=2, D=2)
    check_outputs(core_forward(problem), problem.outputs(), problem.shape)
    check_gradients(core_gradients(problem), problem.gradients(), problem.shape)
    with mx.util.np_shape(True):
        check_outputs(operator_forward(problem), problem.outputs(), problem.shape)
        _, gradients = operator_gradients(problem)
    check_gradients(gradients, problem.gradients(), problem.shape)


def test_zero_is_an_unknown_size_in_legacy_shapes():
    """Without np-shape semantics a 0 is not an empty result but an error that asks for the size."""
    net = mx.sym.FusedRNN(mx.sym.var("data"), mode="gru", state_size=4, num_layers=1)
    with pytest.raises(RuntimeError, match="data"):
        net.simple_bind(mx.cpu(), data=(0, 2, 3))


@pytest.mark.parametrize("mode", CELLS)
def test_all_sizes_one(mode):
    problem = make(mode, T=1, N=1, I=1, H=1, D=2, L=3)
    outputs, gradients = operator_gradients(problem)
    check_outputs(outputs, problem.outputs(), problem.shape)
    check_gradients(gradients, problem.gradients(), problem.shape)


def test_many_layers():
    problem = make("rnn_tanh", T=3, N=2, I=2, H=3, L=13, D=2)
    outputs, gradients = operator_gradients(problem)
    check_outputs(outputs, problem.outputs(), problem.shape)
    check_gradients(gradients, problem.gradients(), problem.shape)


@pytest.mark.parametrize("mode", CELLS)
def test_no_second_derivative(mode):
    problem = make(mode)
    arrays = operator_inputs(problem)
    arrays[0].attach_grad()
    with pytest.raises(mx.MXNetError, match="(?i)not differentiable twice"):
        with mx.autograd.record():
            y = mx.nd.FusedRNN(*arrays, **operator_attributes(problem, state_outputs=False))
            (first,) = mx.autograd.grad(y.sum(), [arrays[0]], create_graph=True, retain_graph=True)
            loss = (first * first).sum()
        loss.backward()
        arrays[0].grad.wait_to_read()


def test_a_long_sequence():
    """T = 20000: scratch grows with T in proportion, and not with T times the weights."""
    problem = make("gru", T=20_000, N=1, I=2, H=16)
    shape = problem.shape
    y, _, _, _ = core_forward(problem, "float32")
    tail = problem.replace(
        shape=reference.Shape("gru", 50, 1, 2, 16), x=problem.x[-50:], h0=problem.h0 * 0
    )
    # 50 steps forget the state before them far beyond single precision
    check(y[-10:], tail.outputs().y[-10:], shape, "float32", what="y")
    short, long = (_core.sizes("lstm", T, 1, 500, 500, bidirectional=True) for T in (1_000, 20_758))
    per_step = 4 * (2 * 4 * 512 + 2 * 2 * 512 + 512)  # gates and states of both directions, padded
    assert long["workspace_inference"] - short["workspace_inference"] <= 2 * 19_758 * per_step


def test_memory_that_does_not_exist():
    """Sizes that fit 64 bits and no machine."""
    with pytest.raises((ValueError, MemoryError)):
        problem = make("gru", T=1, N=1, I=1, H=1)
        x = np.lib.stride_tricks.as_strided(problem.x, (2**40, 1, 1), (0, 0, 0))
        _core.forward("gru", x, problem.params, problem.h0)


def test_dimensions_beyond_31_bits():
    sizes = _core.sizes("lstm", 1, 1, 2**33, 1)
    assert sizes["params"] == 4 * 4 * (2**33 + 1 + 2)
    assert _core.sizes("rnn_tanh", 2**32, 2, 1, 1)["reserve"] >= 0
    net = mx.sym.FusedRNN(mx.sym.var("data"), mode="lstm", state_size=40_000, num_layers=1)
    with pytest.raises(mx.MXNetError, match="parameters"):
        net.infer_shape(data=(1, 1, 40_000))  # 2^33 parameters, and MXNet's wheel counts in 32 bits


def test_subnormal_numbers():
    """Results decay through the subnormal range: same values at any instruction set, nothing is
    trapped.
    """
    problem = make("rnn_relu", T=40, N=2, I=3, H=4, dtype="float32")
    problem.x[:] = 0
    weights = reference.unpack(problem.shape, problem.params)
    weights[0, 0, "R"][:] = 0.1 * np.eye(4)
    weights[0, 0, "bW"][:] = 0
    weights[0, 0, "bR"][:] = 0
    problem.h0[:] = 1e-20
    y = core_forward(problem, "float32")[0]
    np.testing.assert_allclose(y, problem.outputs().y, rtol=1e-5, atol=1.2e-38)


def test_flushing_of_subnormal_numbers_ends_with_the_call():
    """Our threads do so; the caller's, and the engine's that runs MXNet's other operators, only
    during our call.
    """
    problem = make("rnn_relu", T=8, N=20, I=30, H=64, dtype="float32")
    problem.params[:] = 0
    reference.unpack(problem.shape, problem.params)[0, 0, "R"][:] = np.eye(64)
    problem.h0[:] = 1e-40
    subnormal = np.full(2, 1e-40, "float32")
    assert problem.outputs().y.min() > 0

    def check_kept():
        assert (subnormal * np.float32(0.5) > 0).all()
        assert ((nd(subnormal, "float32") * 0.5).asnumpy() > 0).all()

    check_kept()
    for _ in range(3):
        y, _, _, reserve = core_forward(problem, "float32", training=True)
        core_backward(problem, y, reserve, "float32")
        check_kept()
        outputs, _ = operator_gradients(problem, "float32")
        check_kept()
        for output in (y, outputs[0]):
            assert (output == 0).all()


def test_flushing_ends_on_an_engine_without_threads():
    """There the caller's thread runs everything."""
    run_tests("test_edges.py", "-k", "ends_with_the_call", MXNET_ENGINE_TYPE="NaiveEngine")


def test_settings_of_the_native_operator_do_not_matter():
    """Where they are off, the native float32 operator errs or answers wrongly."""
    selection = ("test_operator.py", "-k", "test_outputs_and_gradients and float32")
    run_tests(*selection, MXNET_MKLDNN_ENABLED="0", MXNET_USE_MKLDNN_RNN="0")
