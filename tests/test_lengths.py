"""Sequences of different lengths: a sample equals its own run, whatever the padding."""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
from helpers import (
    check,
    check_gradients,
    check_outputs,
    core_arguments,
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
from reference import CELLS, LSTMS, MODES, Gradients, Outputs, Shape
from test_hybridize import HYBRID

import fused_rnn
from fused_rnn import _core

LENGTHS = {"falling": [5, 2, 1], "rising": [0, 3, 5], "mixed": [2, 5, 0], "equal": [3, 3, 3]}
NAMES = ("dx", "dparams", "dh0", "dc0")


def beyond(problem) -> np.ndarray:
    """[T, N]: the steps after each sample's end."""
    return np.arange(problem.shape.T)[:, None] >= np.asarray(problem.options["lengths"])


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("L", [1, 2, 3])
@pytest.mark.parametrize("mode", CELLS)
def test_core(mode, L, D, lengths):
    for dtype in ("float64", "float32"):
        problem = make(mode, N=3, L=L, D=D, dtype=dtype, lengths=LENGTHS[lengths])
        outputs = core_forward(problem, dtype)
        check_outputs(outputs, problem.outputs(), problem.shape, dtype)
        assert not outputs[0][beyond(problem)].any()
        gradients = core_gradients(problem, dtype)
        check_gradients(gradients, problem.gradients(), problem.shape, dtype)
        assert not gradients[0][beyond(problem)].any()


@pytest.mark.parametrize("mode", CELLS)
def test_gradients_are_central_differences(mode):
    problem = make(mode, N=3, L=2, D=2, lengths=[5, 2, 1])
    problem.dy[beyond(problem)] = np.nan  # must not be read
    for name, a, e in zip(NAMES, core_gradients(problem), problem.numeric_gradients()):
        if e is not None:
            np.testing.assert_allclose(a, e, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("T, H, lengths", [(4, 1, [4, 2]), (7, 9, [3, 7])])
@pytest.mark.parametrize("mode", CELLS)
def test_padding_of_any_content_changes_no_bit(mode, T, H, lengths):
    """Padding must not leak into the reverse direction, the states, or the gradients of weights."""
    results = []
    for padding in (0.0, 1e6, np.inf, np.nan):
        problem = make(mode, T=T, N=2, I=1, H=H, L=2, D=2, lengths=lengths)
        problem.x[beyond(problem)] = padding
        problem.dy[beyond(problem)] = padding
        results.append([*core_forward(problem)[:3], *core_gradients(problem)])
        expected = [*problem.outputs(), *problem.gradients()]
    for result in results:
        for a, b, e in zip(result, results[0], expected):
            if e is not None:
                np.testing.assert_array_equal(a, b)
                check(a, e, problem.shape, gradient=True)


@pytest.mark.parametrize("mode", CELLS)
def test_a_sample_equals_its_own_run(mode):
    problem = make(mode, T=7, N=5, L=2, D=2, lengths=[4, 7, 1, 0, 6])
    y, hN, cN, _ = core_forward(problem)
    for n, length in enumerate(problem.options["lengths"]):
        row = slice(n, n + 1)
        alone = problem.replace(
            shape=Shape(mode, length, 1, 3, 4, 2, 2),
            x=problem.x[:length, row],
            h0=problem.h0[:, row],
            c0=None if problem.c0 is None else problem.c0[:, row],
            options={},
        )
        own = Outputs(*core_forward(alone)[:3])
        check(y[:length, row], own.y, problem.shape, what="y")
        check(hN[:, row], own.hN, problem.shape, what="hN")
        if cN is not None:
            check(cN[:, row], own.cN, problem.shape, what="cN")


@pytest.mark.parametrize("mode", CELLS)
def test_a_sample_of_no_steps_keeps_its_states(mode):
    problem = make(mode, N=3, L=2, D=2, lengths=[0, 0, 0])
    y, hN, cN, _ = core_forward(problem)
    assert not y.any()
    np.testing.assert_array_equal(hN, problem.h0)
    dx, dparams, dh0, dc0 = core_gradients(problem)
    assert not dx.any()
    assert not dparams.any()
    np.testing.assert_array_equal(dh0, problem.dhN)
    if mode in LSTMS:
        np.testing.assert_array_equal(cN, problem.c0)
        np.testing.assert_array_equal(dc0, problem.dcN)


@pytest.mark.parametrize("N", [1, 2, 5, 8, 16, 17, 33])
@pytest.mark.parametrize("mode", CELLS)
def test_batches_around_the_tile_sizes(mode, N):
    lengths = np.random.default_rng(N).integers(0, 5, N)
    problem = make(mode, T=4, N=N, I=5, H=17, D=2, lengths=list(lengths))
    check_outputs(core_forward(problem), problem.outputs(), problem.shape)
    check_gradients(core_gradients(problem), problem.gradients(), problem.shape)


def test_most_samples_end_early():
    """What a shorter sample would have kept for the backward pass is never read."""
    problem = make("lstm", T=5, N=8, I=8, H=4, D=2, lengths=[4, 5, 4, 1, 1, 1, 1, 1])
    gradients = core_gradients(problem)
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    check_gradients(gradients, problem.gradients(), problem.shape)


def test_fresh_memory_of_huge_numbers():
    """The same tests where memory that nobody wrote holds huge numbers."""
    run_tests("test_lengths.py", "-k", "core or early or sizes", MALLOC_PERTURB_="128")


@pytest.mark.parametrize("request_", ["write", "add"])
@pytest.mark.parametrize("mode", CELLS)
def test_the_tail_is_written_or_left_alone(mode, request_):
    """write: zeros replace whatever was there. add: what was there stays."""
    problem = make(mode, T=6, N=2, L=2, D=2, lengths=[3, 2])
    y, _, _, reserve = core_forward(problem, training=True)
    start = np.nan if request_ == "write" else 7.0
    dx = np.full(problem.x.shape, start)
    core_backward(problem, y, reserve, dx=dx, dx_req=request_)
    tail = dx[beyond(problem)]
    np.testing.assert_array_equal(tail, 0.0 if request_ == "write" else 7.0)
    expected = problem.gradients().dx + (0.0 if request_ == "write" else 7.0)
    check(dx, expected, problem.shape, gradient=True, what="dx")


def test_outputs_given_by_the_caller_are_written_to_their_ends():
    problem = make("lstm", T=6, N=2, L=2, D=2, lengths=[3, 2])
    data, parameters, state, cell, lengths = operator_inputs(problem)
    expected = problem.outputs()
    outputs = [nd(np.full(value.shape, np.nan)) for value in expected]
    attributes = operator_attributes(problem)
    mx.nd.FusedRNN(
        data, parameters, state, cell, sequence_length=lengths, out=outputs, **attributes
    )
    check_outputs([a.asnumpy() for a in outputs], expected, problem.shape)


@pytest.mark.parametrize(
    "dtype", ["int32", "int64", "int8", "uint8", "float16", "float32", "float64"]
)
@pytest.mark.parametrize("mode", CELLS)
def test_every_type_of_lengths(mode, dtype):
    problem = make(mode, N=3, L=2, D=2, lengths=[5, 0, 2])
    arrays = operator_inputs(problem, length_dtype=dtype)
    check_outputs(operator_forward(problem, arrays=arrays), problem.outputs(), problem.shape)


@pytest.mark.parametrize("mode", CELLS)
def test_lengths_by_position_and_by_keyword(mode):
    """Without a cell state the fourth input is the lengths."""
    problem = make(mode, N=3, L=2, D=2, lengths=[5, 2, 1])
    arrays = operator_inputs(problem)
    attributes = operator_attributes(problem)
    expected = problem.outputs()
    for outputs in (
        mx.nd.FusedRNN(*arrays, **attributes),
        fused_rnn.nd.RNN(*arrays, **attributes),
        mx.nd.FusedRNN(*arrays[:-1], sequence_length=arrays[-1], **attributes),
        fused_rnn.nd.RNN(*arrays[:-1], sequence_length=arrays[-1], **attributes),
    ):
        check_outputs([a.asnumpy() for a in outputs], expected, problem.shape)
    names = ["data", "parameters", "state", "state_cell"][: len(arrays) - 1] + ["lengths"]
    variables = [mx.sym.var(name) for name in names]
    for net in (
        fused_rnn.sym.RNN(*variables, **attributes),
        fused_rnn.sym.RNN(*variables[:-1], sequence_length=variables[-1], **attributes),
        mx.sym.FusedRNN(*variables, **attributes),
        mx.sym.FusedRNN(*variables[:-1], sequence_length=variables[-1], **attributes),
    ):
        executor = net.bind(mx.cpu(), dict(zip(names, arrays)))
        outputs = executor.forward()
        check_outputs([a.asnumpy() for a in outputs], expected, problem.shape)


@pytest.mark.parametrize("mode", MODES)
def test_symbol_names_and_shapes(mode):
    attributes = {"mode": mode, "state_size": 4, "num_layers": 2, "use_sequence_length": True}
    ours = mx.sym.FusedRNN(mx.sym.var("data"), name="layer", **attributes)
    native = mx.sym.RNN(mx.sym.var("data"), name="layer", **attributes)
    assert ours.list_arguments() == native.list_arguments()
    assert ours.list_arguments()[-1] == "layer_sequence_length"
    assert ours.infer_shape(data=(5, 3, 2))[0] == native.infer_shape(data=(5, 3, 2))[0]


def through_bind(problem):
    arrays = operator_inputs(problem)
    names = ["data", "parameters", "state", "state_cell"][: len(arrays) - 1] + ["lengths"]
    variables = [mx.sym.var(name) for name in names]
    net = mx.sym.FusedRNN(
        *variables[:-1], sequence_length=variables[-1], **operator_attributes(problem)
    )
    gradients = {name: mx.nd.zeros_like(a) for name, a in zip(names[:-1], arrays)}
    executor = net.bind(mx.cpu(), dict(zip(names, arrays)), args_grad=gradients)
    executor.forward(is_train=True)
    executor.backward([nd(head) for head in problem.heads])
    return [gradient.asnumpy() for gradient in gradients.values()]


class WithLengths(mx.gluon.HybridBlock):
    def __init__(self, problem):
        super().__init__()
        self.attributes = operator_attributes(problem)

    def hybrid_forward(self, F, lengths, *inputs):
        return F.FusedRNN(*inputs, sequence_length=lengths, **self.attributes)


def through_block(how):
    def gradients(problem):
        net = WithLengths(problem)
        if HYBRID[how] is not None:
            net.hybridize(**HYBRID[how])
        *arrays, lengths = operator_inputs(problem)
        for _ in range(2):
            for array in arrays:
                array.attach_grad()
            with mx.autograd.record():
                outputs = net(lengths, *arrays)
            mx.autograd.backward(outputs, [nd(head) for head in problem.heads])
        return [array.grad.asnumpy() for array in arrays]

    return gradients


def through_autograd_grad(problem):
    *arrays, lengths = operator_inputs(problem)
    for array in arrays:
        array.attach_grad()
    with mx.autograd.record():
        outputs = mx.nd.FusedRNN(*arrays, sequence_length=lengths, **operator_attributes(problem))
        heads = [nd(head) for head in problem.heads]
        result = mx.autograd.grad(outputs, arrays, head_grads=heads, retain_graph=True)
    return [gradient.asnumpy() for gradient in result]


ROUTES = {
    "imperative": lambda problem: operator_gradients(problem)[1],
    "bind": through_bind,
    "autograd.grad": through_autograd_grad,
    **{how: through_block(how) for how in HYBRID},
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("mode", CELLS)
def test_gradients_by_every_route(mode, route):
    problem = make(mode, N=3, L=2, D=2, lengths=[5, 2, 1])
    padding = beyond(problem)
    problem.x[padding] = np.nan
    problem.dy[padding] = np.nan
    gradients = ROUTES[route](problem)
    expected = Gradients(*(None if g is None else g for g in problem.gradients()))
    check_gradients(gradients, expected, problem.shape)
    assert not gradients[0][padding].any()


def test_lengths_change_between_calls_of_one_block():
    net = WithLengths(make("gru", N=3, lengths=[1, 1, 1]))
    net.hybridize(static_alloc=True, static_shape=True)
    for lengths in ([5, 2, 1], [0, 5, 5], [1, 1, 4], [5, 5, 5]):
        problem = make("gru", N=3, lengths=lengths)
        *arrays, array = operator_inputs(problem)
        outputs = [a.asnumpy() for a in net(array, *arrays)]
        check_outputs(outputs, problem.outputs(), problem.shape)


BAD = {
    "beyond the end": ([5, 6, 2], 1, "6"),
    "negative": ([5, 0, -1], 2, "-1"),
    "fractional": ([2.5, 5, 5], 0, "2.5"),
    "NaN": ([5, np.nan, 1], 1, "nan"),
    "infinite": ([5, 1, np.inf], 2, "inf"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_lengths_name_the_row(case):
    lengths, row, value = BAD[case]
    problem = make("gru", N=3, lengths=[1, 1, 1])
    *arrays, _ = operator_inputs(problem)
    bad = mx.nd.array(lengths, dtype="float32")
    with pytest.raises(mx.MXNetError) as caught:
        mx.nd.FusedRNN(*arrays, sequence_length=bad, **operator_attributes(problem))[
            0
        ].wait_to_read()
    message = str(caught.value)
    assert f"sequence_length[{row}]" in message
    assert value in message.lower()
    check_outputs(operator_forward(problem), problem.outputs(), problem.shape)


LIMITS = {"float16": 2048, "bfloat16": 256}


@pytest.mark.parametrize("dtype", LIMITS)
def test_lengths_in_a_type_of_few_bits(dtype):
    """What it may have rounded is refused; below that every whole number is exact."""
    limit = LIMITS[dtype]
    for T in (limit - 1, limit, limit + 1, limit + 453):
        lengths = [limit - 1, 0, 5]
        problem = make("rnn_tanh", T=T, N=3, I=1, H=1, lengths=lengths)
        *arrays, _ = operator_inputs(problem)
        attributes = operator_attributes(problem, state_outputs=False)
        for longest in (limit - 1, limit, T):
            if longest > T:
                continue
            problem.options["lengths"][0] = longest
            given = nd(np.array(problem.options["lengths"], "float64"), dtype)
            y = mx.nd.FusedRNN(*arrays, sequence_length=given, **attributes)
            if longest < limit or limit == T:
                check_outputs([y.asnumpy()], problem.outputs(), problem.shape)
                continue
            with pytest.raises(mx.MXNetError, match=r"sequence_length\[0\] is .*int32"):
                y.wait_to_read()


def test_bad_lengths_of_the_core():
    problem = make("gru", N=3)
    for lengths, word in (([5, 6, 2], "6"), ([5, -1, 2], "-1"), ([5, 2], "(3,)")):
        with pytest.raises(ValueError, match="length") as caught:
            _core.forward(
                "gru", *problem.inputs, lengths=np.array(lengths), **core_arguments(problem)
            )
        assert word in str(caught.value)


def test_shape_of_lengths():
    net = mx.sym.FusedRNN(
        mx.sym.var("data"),
        sequence_length=mx.sym.var("lengths"),
        mode="gru",
        state_size=4,
        num_layers=1,
        use_sequence_length=True,
    )
    with pytest.raises(mx.MXNetError):
        net.infer_shape(data=(5, 3, 2), lengths=(4,))
