"""Projected LSTM layers: P values of state and output instead of H."""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
from helpers import (
    check,
    check_gradients,
    check_outputs,
    core_forward,
    core_gradients,
    make,
    nd,
    operator_attributes,
    operator_forward,
    operator_gradients,
    operator_inputs,
)
from reference import LSTMS

import fused_rnn
from fused_rnn import _core

DTYPES = ("float64", "float32")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("P", [1, 2, 4])
@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("L", [1, 2, 3])
@pytest.mark.parametrize("mode", LSTMS)
def test_outputs_and_gradients(mode, L, D, P, dtype):
    for I, H in ((3, 4), (9, 5), (4, 4)):
        problem = make(mode, I=I, H=H, L=L, D=D, P=P, dtype=dtype)
        expected, gradients = problem.outputs(), problem.gradients()
        check_outputs(core_forward(problem, dtype), expected, problem.shape, dtype)
        check_gradients(core_gradients(problem, dtype), gradients, problem.shape, dtype)
        check_outputs(operator_forward(problem, dtype), expected, problem.shape, dtype)
        outputs, actual = operator_gradients(problem, dtype)
        check_outputs(outputs, expected, problem.shape, dtype)
        check_gradients(actual, gradients, problem.shape, dtype)


@pytest.mark.parametrize("P", [1, 2, 4])
@pytest.mark.parametrize("mode", LSTMS)
def test_gradients_are_central_differences(mode, P):
    problem = make(mode, L=2, D=2, P=P)
    actual = core_gradients(problem)
    for a, e in zip(actual, problem.numeric_gradients()):
        np.testing.assert_allclose(a, e, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("mode", LSTMS)
def test_every_size_one_or_two(mode):
    for T, N, I, H, P in np.ndindex(2, 2, 2, 2, 2):
        if P <= H:
            problem = make(mode, T + 1, N + 1, I + 1, H + 1, 2, 2, P + 1)
            check_outputs(core_forward(problem), problem.outputs(), problem.shape)
            check_gradients(core_gradients(problem), problem.gradients(), problem.shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("P", [1, 7, 8, 9, 16, 17, 33])
@pytest.mark.parametrize("mode", LSTMS)
def test_sizes_around_the_vectors(mode, P, dtype):
    for N in (1, 5, 8, 17):
        problem = make(mode, T=3, N=N, I=5, H=33, P=P, dtype=dtype)
        check_outputs(core_forward(problem, dtype), problem.outputs(), problem.shape, dtype)
        check_gradients(core_gradients(problem, dtype), problem.gradients(), problem.shape, dtype)


@pytest.mark.parametrize("mode", LSTMS)
def test_with_lengths_and_clipping(mode):
    problem = make(mode, N=3, L=2, D=2, P=2, lengths=[5, 0, 2], clip=(-0.3, 0.2))
    check_outputs(core_forward(problem), problem.outputs(), problem.shape)
    check_gradients(core_gradients(problem), problem.gradients(), problem.shape)
    outputs, gradients = operator_gradients(problem)
    check_outputs(outputs, problem.outputs(), problem.shape)
    check_gradients(gradients, problem.gradients(), problem.shape)


def test_without_states_among_the_outputs():
    problem = make("lstm", L=2, D=2, P=2)
    (y,) = operator_forward(problem, state_outputs=False)
    check(y, problem.outputs().y, problem.shape, what="y")
    arrays = operator_inputs(problem)
    for array in arrays:
        array.attach_grad()
    with mx.autograd.record():
        y = mx.nd.FusedRNN(*arrays, **operator_attributes(problem, state_outputs=False))
    y.backward(nd(problem.dy))
    only = problem.replace(dhN=None, dcN=None)
    check_gradients([a.grad.asnumpy() for a in arrays], only.gradients(), problem.shape)


def test_shapes_follow_from_the_data():
    problem = make("lstm", L=2, D=2, P=2)
    net = mx.sym.FusedRNN(mx.sym.var("data"), **operator_attributes(problem))
    arguments, outputs, _ = net.infer_shape(data=problem.x.shape)
    assert arguments == [value.shape for value in problem.inputs]
    assert outputs == [value.shape for value in problem.outputs()]


def test_cell_of_the_projected_width_is_refused():
    problem = make("lstm", P=2)
    arrays = operator_inputs(problem)
    arrays[3] = mx.nd.zeros((1, 2, 2), dtype="float64")
    with pytest.raises(mx.MXNetError, match="Shape inconsistent, Provided = "):
        mx.nd.FusedRNN(*arrays, **operator_attributes(problem))[0].wait_to_read()
    with pytest.raises(ValueError):
        _core.forward("lstm", problem.x, problem.params, problem.h0, problem.h0, projection_size=2)


@pytest.mark.parametrize("mode", ["gru", "gru_reset_before", "rnn_tanh", "rnn_relu"])
def test_other_modes_refuse_it(mode):
    net = fused_rnn.sym.RNN(
        mx.sym.var("data"), mode=mode, state_size=4, num_layers=1, projection_size=2
    )
    with pytest.raises(mx.MXNetError, match="projection_size"):
        net.infer_shape(data=(5, 2, 3))
    problem = make(mode)
    with pytest.raises(ValueError, match="projection_size"):
        _core.forward(mode, *problem.inputs, projection_size=4)
