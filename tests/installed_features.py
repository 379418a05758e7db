"""What the native CPU operator ignores or refuses, through MXNet's own names; run after
installed_cases.py, in its process.
"""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
import reference
from helpers import (
    check,
    check_gradients,
    check_outputs,
    make,
    nd,
    operator_attributes,
    operator_forward,
    operator_inputs,
)
from installed_cases import PARTS, gluon_gradients, gluon_layer
from reference import MODES

import fused_rnn


def test_lengths_projection_and_clipping_of_the_gluon_lstm():
    problem = make("lstm", N=3, L=2, D=2, P=2, lengths=[5, 0, 2], clip=(-0.3, 0.2))
    net = gluon_layer(
        problem,
        projection_size=2,
        use_sequence_length=True,
        state_clip_min=-0.3,
        state_clip_max=0.2,
    )
    data, _, *initial, lengths = operator_inputs(problem)
    for hybrid in (False, True):
        net.hybridize(hybrid)
        for array in (data, *initial):
            array.attach_grad()
        with mx.autograd.record():
            y, final = net(data, initial, lengths)
        outputs = [y, *final]
        mx.autograd.backward(outputs, [nd(head) for head in problem.heads])
        check_outputs([a.asnumpy() for a in outputs], problem.outputs(), problem.shape)
        gradients = [data.grad.asnumpy(), gluon_gradients(net, problem)]
        gradients += [array.grad.asnumpy() for array in initial]
        check_gradients(gradients, problem.gradients(), problem.shape)


@pytest.mark.parametrize("mode", MODES)
def test_lengths_in_every_mode(mode):
    """By keyword, as the native symbol wants them where there is no cell state, and in NumPy's
    front end.
    """
    problem = make(mode, N=3, L=2, D=2, lengths=[5, 0, 2])
    check_outputs(operator_forward(problem, op=mx.nd.RNN), problem.outputs(), problem.shape)
    mx.npx.set_np()
    try:
        keys = ("data", "parameters", "state", "state_cell")
        arrays = {k: mx.np.array(v, dtype="float64") for k, v in zip(keys, problem.inputs)}
        lengths = mx.np.array([5, 0, 2], dtype="int64")
        outputs = mx.npx.rnn(**arrays, sequence_length=lengths, **operator_attributes(problem))
        check_outputs([a.asnumpy() for a in outputs], problem.outputs(), problem.shape)
    finally:
        mx.npx.reset_np()


@pytest.mark.parametrize("mode", MODES)
def test_dropout_acts_in_training_only(mode):
    problem = make(mode, T=20, N=8, H=16, L=2)
    net = gluon_layer(problem, dropout=0.5)
    data, _, *initial = operator_inputs(problem)
    expected = problem.outputs().y
    check(net(data, initial)[0].asnumpy(), expected, problem.shape, what="y")
    with mx.autograd.record(train_mode=False):
        y = net(data, initial)[0]
    check(y.asnumpy(), expected, problem.shape, what="y")
    drawn = []
    for seed in (1, 2, 1):
        mx.random.seed(seed)
        with mx.autograd.record():
            drawn.append(net(data, initial)[0].asnumpy())
    assert not np.allclose(drawn[0], expected)
    assert not np.array_equal(drawn[0], drawn[1])
    np.testing.assert_array_equal(drawn[0], drawn[2])


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_recomputing_changes_no_bit(mode, hybrid):
    problem = make(mode, N=3, L=2, D=2)
    net = gluon_layer(problem, dropout=0.5)
    net.hybridize(hybrid)
    data, _, *initial = operator_inputs(problem)
    data.attach_grad()
    found = []
    for on in (False, True):
        assert fused_rnn.set_recompute(on) is False
        mx.random.seed(3)
        with mx.autograd.record():
            y, _ = net(data, initial)
        mx.autograd.backward(y, nd(problem.dy))
        found.append([y.asnumpy(), data.grad.asnumpy(), gluon_gradients(net, problem)])
    assert fused_rnn.set_recompute(False) is True
    for without, with_it in zip(*found):
        np.testing.assert_array_equal(with_it, without)


@pytest.mark.parametrize("mode", MODES)
def test_layers_change_their_type(mode):
    """Default states follow the layer's and its input's type: half, double, back."""
    problem = make(mode, L=2, dtype="float16")
    problem.h0[:] = 0
    if problem.c0 is not None:
        problem.c0[:] = 0
    net = gluon_layer(problem, "float32")
    for dtype in ("float16", "float64", "float32", "float16"):
        net.cast(dtype)
        y = net(nd(problem.x, dtype))
        assert y.dtype == np.dtype(dtype)
        check(y.asnumpy(), problem.outputs().y, problem.shape, dtype, what="y")


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_gluon_layers_with_lengths_in_every_mode(mode, hybrid):
    problem = make(mode, N=3, L=2, D=2, lengths=[5, 0, 2])
    net = gluon_layer(problem, use_sequence_length=True)
    net.hybridize(hybrid)
    data, _, *initial, lengths = operator_inputs(problem)
    y, final = net(data, initial, lengths)
    outputs = [a.asnumpy() for a in (y, *final)]
    check_outputs(outputs, problem.outputs(), problem.shape)


@pytest.mark.parametrize("mode", MODES)
def test_hybridized_layers_with_lengths_on_numpy_arrays(mode):
    problem = make(mode, N=3, L=2, lengths=[5, 0, 2], dtype="float32")
    kind, _, activation = mode.partition("_")
    options = {"activation": activation} if activation else {}
    data, lengths = problem.x.astype("float32"), np.array([5, 0, 2])
    with mx.util.np_shape(True), mx.util.np_array(True):
        net = getattr(mx.gluon.rnn, kind.upper())(4, 2, use_sequence_length=True, **options)
        net.initialize()
        results = []
        for hybrid in (False, True):
            net.hybridize(hybrid)
            y = net(mx.np.array(data), sequence_length=mx.np.array(lengths))
            results.append(y.asnumpy())
    np.testing.assert_array_equal(*results)
    assert results[0][:2, 2].any() and not results[0][2:, 2].any()


@pytest.mark.parametrize("mode", MODES)
def test_symbols_take_lengths_as_the_fourth_input(mode):
    """Where there is no cell state; as a fifth, or by name, in an LSTM."""
    problem = make(mode, N=3, lengths=[5, 0, 2])
    names = [f"input{k}" for k in range(len(problem.inputs) + 1)]
    inputs = [mx.sym.var(name) for name in names]
    attributes = operator_attributes(problem)
    before = inputs[:-1]
    for symbol in (
        mx.sym.RNN(*inputs, **attributes),
        mx.sym.RNN(*before, sequence_length=inputs[-1], **attributes),
        mx.sym.op.RNN(*inputs, **attributes),
    ):
        assert symbol.list_arguments() == names
        executor = symbol.bind(mx.cpu(), dict(zip(names, operator_inputs(problem))))
        outputs = [a.asnumpy() for a in executor.forward()]
        check_outputs(outputs, problem.outputs(), problem.shape)


@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("hybrid", [False, True])
def test_deferred_initialisation_with_lengths(hybrid, layout):
    """The first call finds the input size, although lengths are among the inputs."""
    problem = make("lstm", N=3, L=2, lengths=[5, 1, 2])
    problem.h0[:] = 0
    problem.c0[:] = 0
    s = problem.shape
    net = mx.gluon.rnn.LSTM(s.H, num_layers=s.L, use_sequence_length=True, layout=layout)
    net.cast("float64")
    net.initialize(mx.init.Zero())
    net.hybridize(hybrid)
    data, *_, lengths = operator_inputs(problem, length_dtype="float64")
    if layout == "NTC":
        data = data.swapaxes(0, 1)
    net(data, sequence_length=lengths)
    for (l, d, name), value in reference.unpack(s, problem.params).items():
        getattr(net, f"{'lr'[d]}{l}_{PARTS[name]}").set_data(nd(value))
    y = net(data, sequence_length=lengths).asnumpy()
    if layout == "NTC":
        y = y.swapaxes(0, 1)
    check(y, problem.outputs().y, s, what="y")
