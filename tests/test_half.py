"""float16 and bfloat16: stored so, computed in float32."""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
from helpers import (
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
    to_numpy,
)
from reference import CELLS, EPS, Gradients

HALVES = ("float16", "bfloat16")


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("L", [1, 2])
@pytest.mark.parametrize("mode", CELLS)
def test_operator(mode, L, D, dtype):
    problem = make(mode, L=L, D=D, dtype=dtype)
    check_outputs(operator_forward(problem, dtype), problem.outputs(), problem.shape, dtype)
    outputs, gradients = operator_gradients(problem, dtype)
    check_outputs(outputs, problem.outputs(), problem.shape, dtype)
    check_gradients(gradients, problem.gradients(), problem.shape, dtype)


@pytest.mark.parametrize("N, H", [(1, 1), (1, 33), (3, 8), (8, 17), (17, 16)])
@pytest.mark.parametrize("mode", CELLS)
def test_core(mode, N, H):
    """The core takes float16 arrays; NumPy has no bfloat16."""
    problem = make(mode, T=4, N=N, I=7, H=H, L=2, D=2, dtype="float16")
    outputs = core_forward(problem, "float16")
    assert outputs[0].dtype == np.float16
    check_outputs(outputs, problem.outputs(), problem.shape, "float16")
    gradients = core_gradients(problem, "float16")
    check_gradients(gradients, problem.gradients(), problem.shape, "float16")


@pytest.mark.parametrize("dtype", HALVES)
def test_sums_run_in_single_precision(dtype):
    """A sum of 600 terms: rounding it to half at every term would miss by far more than one
    rounding of the result.
    """
    problem = make("rnn_relu", T=1, N=2, I=600, H=8, dtype=dtype)
    problem.x[:] = np.abs(problem.x)
    problem.params[:] = np.abs(problem.params)
    (y, _) = operator_forward(problem, dtype)
    expected = problem.outputs().y
    np.testing.assert_allclose(y, expected, rtol=EPS[dtype])


@pytest.mark.parametrize("dtype", HALVES)
def test_with_lengths_projection_and_clipping(dtype):
    problem = make("lstm", N=3, L=2, D=2, P=2, dtype=dtype, lengths=[5, 0, 2], clip=(-0.5, 0.25))
    outputs, gradients = operator_gradients(problem, dtype)
    check_outputs(outputs, problem.outputs(), problem.shape, dtype)
    check_gradients(gradients, problem.gradients(), problem.shape, dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_are_added(dtype):
    problem = make("lstm", L=2, dtype=dtype)
    arrays = operator_inputs(problem, dtype)
    for array in arrays:
        array.attach_grad("add")
    with mx.autograd.record():
        outputs = mx.nd.FusedRNN(*arrays, **operator_attributes(problem))
    for k in (1, 2):
        mx.autograd.backward(
            outputs, [nd(head, dtype) for head in problem.heads], retain_graph=True
        )
        expected = Gradients(*(k * g for g in problem.gradients()))
        check_gradients([to_numpy(a.grad) for a in arrays], expected, problem.shape, dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_types_follow_the_data(dtype):
    problem = make("gru", L=2, dtype=dtype)
    arrays = operator_inputs(problem, dtype)
    outputs = mx.nd.FusedRNN(*arrays, **operator_attributes(problem))
    assert all(output.dtype == arrays[0].dtype for output in outputs)
    mixed = [arrays[0], nd(problem.params, "float32"), arrays[2]]
    with pytest.raises(mx.MXNetError, match="'parameters'"):
        mx.nd.FusedRNN(*mixed, **operator_attributes(problem))[0].wait_to_read()


def test_values_beyond_the_range_become_infinite():
    problem = make("rnn_relu", T=1, dtype="float16")
    problem.x[:] = 60000
    problem.params[:] = 2
    y = operator_forward(problem, "float16")[0]
    assert np.isinf(y).all()
