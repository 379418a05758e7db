"""mx.nd.FusedRNN: outputs, autograd, requests, aliasing, reuse of recorded calls."""

from __future__ import annotations

import concurrent.futures
import itertools

import mxnet as mx
import numpy as np
import pytest
from helpers import (
    check,
    check_gradients,
    check_outputs,
    make,
    nd,
    operator_attributes,
    operator_forward,
    operator_gradients,
    operator_inputs,
    run_tests,
)
from reference import CELLS, Gradients

import fused_rnn
from fused_rnn import _core

DTYPES = ("float64", "float32")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("L", [1, 2, 3])
@pytest.mark.parametrize("mode", CELLS)
def test_outputs_and_gradients(mode, L, D, dtype):
    problem = make(mode, L=L, D=D, dtype=dtype)
    expected = problem.outputs()
    check_outputs(operator_forward(problem, dtype), expected, problem.shape, dtype)
    outputs, gradients = operator_gradients(problem, dtype)
    check_outputs(outputs, expected, problem.shape, dtype)
    check_gradients(gradients, problem.gradients(), problem.shape, dtype)


@pytest.mark.parametrize("mode", CELLS)
def test_gradients_of_a_call_recorded_in_predict_mode(mode):
    problem = make(mode, L=2, D=2)
    _, gradients = operator_gradients(problem, train_mode=False)
    check_gradients(gradients, problem.gradients(), problem.shape)


@pytest.mark.parametrize("mode", CELLS)
def test_states_are_returned_only_on_request(mode):
    problem = make(mode)
    arrays = operator_inputs(problem)
    attributes = operator_attributes(problem)
    assert isinstance(mx.nd.FusedRNN(*arrays, **attributes), list)
    attributes.pop("state_outputs")
    y = mx.nd.FusedRNN(*arrays, **attributes)
    assert isinstance(y, mx.nd.NDArray)
    check(y.asnumpy(), problem.outputs().y, problem.shape, what="y")


def test_package_function_takes_the_native_arguments():
    problem = make("lstm", D=2)
    data, parameters, state, cell = operator_inputs(problem)
    expected = problem.outputs()
    attributes = operator_attributes(problem, name="layer")
    keywords = {"data": data, "parameters": parameters, "state": state, "state_cell": cell}
    check_outputs(
        [a.asnumpy() for a in fused_rnn.nd.RNN(**keywords, **attributes)], expected, problem.shape
    )
    outputs = [mx.nd.zeros(e.shape, dtype="float64") for e in expected]
    result = fused_rnn.nd.RNN(data, parameters, state, cell, out=outputs, **attributes)
    assert result[0] is outputs[0]
    check_outputs([a.asnumpy() for a in outputs], expected, problem.shape)


def record(problem, dtype="float64", requests=None):
    """Records a call whose inputs' gradients start at 7. Returns (outputs, inputs)."""
    arrays = operator_inputs(problem, dtype)
    for array, request in zip(arrays, requests or ["write"] * len(arrays)):
        if request != "null":
            array.attach_grad(request)
            array.grad[:] = 7
    with mx.autograd.record():
        outputs = mx.nd.FusedRNN(*arrays, **operator_attributes(problem))
    return outputs, arrays


@pytest.mark.parametrize("mode", CELLS)
def test_every_mix_of_requests(mode):
    problem = make(mode, L=2, D=2)
    expected = [g for g in problem.gradients() if g is not None]
    heads = [nd(head) for head in problem.heads]
    for requests in itertools.product(("null", "write", "add"), repeat=len(expected)):
        if set(requests) == {"null"}:
            continue
        outputs, arrays = record(problem, requests=requests)
        mx.autograd.backward(outputs, heads)
        for array, request, gradient in zip(arrays, requests, expected):
            if request == "null":
                assert array.grad is None
            else:
                target = gradient + (7 if request == "add" else 0)
                what = str(requests)
                check(array.grad.asnumpy(), target, problem.shape, gradient=True, what=what)


@pytest.mark.parametrize("mode", CELLS)
def test_added_gradients_of_several_backwards(mode):
    problem = make(mode, L=2, D=2)
    outputs, arrays = record(problem, requests=["add"] * 4)
    heads = [nd(head) for head in problem.heads]
    expected = problem.gradients()
    for k in (1, 2, 3):
        mx.autograd.backward(outputs, heads, retain_graph=True)
        target = Gradients(*(None if e is None else 7 + k * e for e in expected))
        check_gradients([array.grad.asnumpy() for array in arrays], target, problem.shape)


@pytest.mark.parametrize("mode", CELLS)
def test_loss_on_some_outputs_only(mode):
    problem = make(mode, L=2, D=2)
    names = ("dy", "dhN", "dcN")
    for k in range(len(problem.heads)):
        outputs, arrays = record(problem)
        outputs[k].backward(nd(problem.heads[k]))
        only = problem.replace(**{name: None for name in names if name != names[k]})
        check_gradients([array.grad.asnumpy() for array in arrays], only.gradients(), problem.shape)


@pytest.mark.parametrize("direction", [0, 1])
def test_loss_on_one_direction_only(direction):
    problem = make("lstm", L=2, D=2)
    columns = slice(4 * direction, 4 * direction + 4)
    arrays = operator_inputs(problem)
    for array in arrays:
        array.attach_grad()
    with mx.autograd.record():
        y = mx.nd.FusedRNN(*arrays, **operator_attributes(problem, state_outputs=False))
        half = mx.nd.slice_axis(y, axis=2, begin=columns.start, end=columns.stop)
    half.backward(nd(problem.dy[..., columns]))
    dy = np.zeros_like(problem.dy)
    dy[..., columns] = problem.dy[..., columns]
    only = problem.replace(dy=dy, dhN=None, dcN=None)
    check_gradients([array.grad.asnumpy() for array in arrays], only.gradients(), problem.shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", CELLS)
def test_outputs_may_be_the_inputs(mode, dtype):
    problem = make(mode, I=4, H=4, dtype=dtype)
    attributes = operator_attributes(problem)
    arrays = operator_inputs(problem, dtype)
    data, _, *states = arrays
    mx.nd.FusedRNN(*arrays, out=[data, *states], **attributes)
    check_outputs([a.asnumpy() for a in (data, *states)], problem.outputs(), problem.shape, dtype)
    attributes["state_outputs"] = False
    arrays = operator_inputs(problem, dtype)
    mx.nd.FusedRNN(*arrays, out=arrays[0], **attributes)
    check(arrays[0].asnumpy(), problem.outputs().y, problem.shape, dtype, what="y")


@pytest.mark.parametrize("mode", CELLS)
def test_inputs_may_be_parts_of_larger_arrays(mode):
    problem = make(mode, L=2, D=2)
    parts = []
    for value in problem.inputs:
        whole = nd(
            np.concatenate([np.full_like(value, np.nan), value, np.full_like(value, np.nan)])
        )
        parts.append(whole[len(value) : 2 * len(value)])
    outputs = mx.nd.FusedRNN(*parts, **operator_attributes(problem))
    check_outputs([a.asnumpy() for a in outputs], problem.outputs(), problem.shape)


def test_states_carry_over_between_calls():
    """Two halves of a sequence, the second from the first's final states, are the whole."""
    whole = make("lstm", T=8, L=2)
    arrays = operator_inputs(whole)
    data, parameters, *states = arrays
    halves = []
    for part in (data[:4], data[4:]):
        y, *states = mx.nd.FusedRNN(part, parameters, *states, **operator_attributes(whole))
        halves.append(y.asnumpy())
    y, hN, cN = whole.outputs()
    check(np.concatenate(halves), y, whole.shape, what="y")
    check(states[0].asnumpy(), hN, whole.shape, what="hN")
    check(states[1].asnumpy(), cN, whole.shape, what="cN")


@pytest.mark.parametrize("mode", CELLS)
def test_two_calls_share_weights(mode):
    first, second = make(mode, L=2, seed=1), make(mode, L=2, T=3, N=4, seed=2)
    second = second.replace(params=first.params)
    inputs = [operator_inputs(first), operator_inputs(second)]
    inputs[1][1] = inputs[0][1]
    for array in (*inputs[0], *inputs[1]):
        array.attach_grad()
    with mx.autograd.record():
        outputs = [
            mx.nd.FusedRNN(*arrays, **operator_attributes(problem))
            for problem, arrays in zip((first, second), inputs)
        ]
    heads = [[nd(head) for head in problem.heads] for problem in (first, second)]
    mx.autograd.backward(outputs[0] + outputs[1], heads[0] + heads[1])
    expected = [first.gradients(), second.gradients()]
    total = expected[0].dparams + expected[1].dparams
    for problem, arrays, gradients in zip((first, second), inputs, expected):
        check_gradients(
            [array.grad.asnumpy() for array in arrays],
            gradients._replace(dparams=total),
            problem.shape,
        )


def test_backward_twice_on_one_recording():
    problem = make("gru", L=2, D=2)
    outputs, arrays = record(problem)
    for scale in (1, 2):
        heads = [nd(scale * head) for head in problem.heads]
        mx.autograd.backward(outputs, heads, retain_graph=scale == 1)
        expected = Gradients(*(None if g is None else scale * g for g in problem.gradients()))
        check_gradients([array.grad.asnumpy() for array in arrays], expected, problem.shape)


@pytest.mark.parametrize("mode", CELLS)
def test_recordings_interleave(mode):
    """A forward between another call's forward and backward, of any shape, leaves that call's
    memory alone.
    """
    problems = [make(mode, T=T, N=N, L=2, seed=T) for T, N in ((5, 2), (7, 3), (2, 1))]
    recorded = [record(problem) for problem in problems]
    for k in (1, 0, 2):
        outputs, arrays = recorded[k]
        mx.autograd.backward(outputs, [nd(head) for head in problems[k].heads])
        check_gradients(
            [array.grad.asnumpy() for array in arrays], problems[k].gradients(), problems[k].shape
        )


def test_gradient_of_a_sum_over_time_steps_through_autograd_grad():
    problem = make("lstm", L=2)
    arrays = operator_inputs(problem)
    with mx.autograd.record():
        for array in arrays:
            array.attach_grad()
        y = mx.nd.FusedRNN(*arrays, **operator_attributes(problem, state_outputs=False))
        gradients = mx.autograd.grad(y, arrays, head_grads=nd(problem.dy), retain_graph=True)
    only = problem.replace(dhN=None, dcN=None)
    check_gradients([g.asnumpy() for g in gradients], only.gradients(), problem.shape)


@pytest.mark.parametrize("mode", CELLS)
def test_nan_and_infinity_stay_in_their_sample(mode):
    for bad in (np.nan, np.inf, -np.inf):
        problem = make(mode, N=3, L=2, D=2)
        problem.x[2, 1] = bad
        outputs, gradients = operator_gradients(problem)
        expected = problem.outputs()
        well = [0, 2]
        check(outputs[0][:, well], expected.y[:, well], problem.shape, what="y")
        dx = problem.gradients().dx
        check(gradients[0][:, well], dx[:, well], problem.shape, gradient=True, what="dx")


@pytest.mark.parametrize("name", ["data", "parameters", "state", "state_cell"])
def test_an_input_changed_before_backward(name):
    """Gradients may be those at the old or at the new values, but all at the same: what the forward
    kept must not be mixed with new inputs.
    """
    problem = make("lstm", T=20, N=8, I=32, H=16, L=2)
    index = ("data", "parameters", "state", "state_cell").index(name)
    size = problem.inputs[index].size
    for place in (0, 1, 2, 3, size // 2, size - 2, size - 1):
        outputs, arrays = record(problem)
        outputs[0].wait_to_read()
        arrays[index].reshape((-1,))[place : place + 1] = 2
        mx.autograd.backward(outputs, [nd(head) for head in problem.heads])
        values = [value.copy() for value in problem.inputs]
        values[index].reshape(-1)[place] = 2
        new = problem.replace(**dict(zip(("x", "params", "h0", "c0"), values)))
        actual = [array.grad.asnumpy() for array in arrays]
        old = np.allclose(actual[1], problem.gradients().dparams, rtol=1e-12, atol=1e-12)
        check_gradients(actual, (problem if old else new).gradients(), problem.shape)


def test_numpy_front_end():
    problem = make("lstm", L=2, D=2)
    mx.npx.set_np()
    try:
        names = ("data", "parameters", "state", "state_cell")
        arrays = {k: mx.np.array(v, dtype="float64") for k, v in zip(names, problem.inputs)}
        for array in arrays.values():
            array.attach_grad()
        with mx.autograd.record():
            outputs = mx.npx.fused_rnn(**arrays, **operator_attributes(problem))
        heads = [mx.np.array(head, dtype="float64") for head in problem.heads]
        mx.autograd.backward(outputs, heads)
        check_outputs([a.asnumpy() for a in outputs], problem.outputs(), problem.shape)
        gradients = [array.grad.asnumpy() for array in arrays.values()]
        check_gradients(gradients, problem.gradients(), problem.shape)
    finally:
        mx.npx.reset_np()


@pytest.mark.parametrize("dtype", DTYPES)
def test_callers_on_several_threads(dtype):
    """Operators of several threads run side by side on the engine's workers."""
    problems = [
        make(m, T=6, N=9, I=9, H=33, L=2, D=2, seed=k, dtype=dtype) for k, m in enumerate(CELLS)
    ]
    expected = [(problem.outputs(), problem.gradients()) for problem in problems]

    def repeat(k):
        for _ in range(5):
            outputs, gradients = operator_gradients(problems[k], dtype)
            check_outputs(outputs, expected[k][0], problems[k].shape, dtype)
            check_gradients(gradients, expected[k][1], problems[k].shape, dtype)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(repeat, k) for k in range(4)]:
            done.result(timeout=120)


@pytest.mark.parametrize("threads", [2, 3])
def test_work_shared_by_several_threads(threads):
    _core.set_num_threads(threads)
    try:
        problem = make("gru", T=7, N=21, I=19, H=70, L=2, D=2)
        outputs, gradients = operator_gradients(problem)
    finally:
        _core.set_num_threads(0)
    check_outputs(outputs, problem.outputs(), problem.shape)
    check_gradients(gradients, problem.gradients(), problem.shape)


def test_naive_engine():
    """The same tests with every operator run to its end in the caller's thread."""
    run_tests("test_operator.py", "-k", "not naive_engine", MXNET_ENGINE_TYPE="NaiveEngine")
