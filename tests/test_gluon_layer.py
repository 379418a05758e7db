"""The Gluon layers against the reference, in every way to call them."""

from __future__ import annotations

import inspect
import json
import sys

import mxnet as mx
import numpy as np
import pytest
from helpers import check, check_gradients, check_outputs, gluon_class, make, nd
from mxnet.gluon import rnn as stock
from reference import CELLS, LSTMS

from fused_rnn import gluon

HYBRID = {
    "eager": None,
    "hybridized": {},
    "static": {"static_alloc": True, "static_shape": True},
}


def layer_for(problem, layout="TNC", dtype="float64", how="eager", **options):
    """A layer with the problem's sizes and parameters."""
    shape = problem.shape
    options.update(num_layers=shape.L, bidirectional=shape.D == 2, layout=layout, dtype=dtype)
    options.setdefault("input_size", shape.I)
    if shape.P:
        options["projection_size"] = shape.P
    if problem.options.get("lengths") is not None:
        options["use_sequence_length"] = True
    if problem.options.get("clip") is not None:
        options["state_clip_min"], options["state_clip_max"] = problem.options["clip"]
    kind, of_mode = gluon_class(shape.mode)
    layer = getattr(gluon, kind)(shape.H, **options, **of_mode)
    layer.initialize()
    layer.parameters.set_data(nd(problem.params, dtype))
    if HYBRID[how] is not None:
        layer.hybridize(**HYBRID[how])
    return layer


def inputs_for(problem, layout="TNC", dtype="float64"):
    """(data, states, lengths or None)."""
    x = problem.x.swapaxes(0, 1) if layout == "NTC" else problem.x
    states = [nd(state, dtype) for state in problem.inputs[2:]]
    lengths = problem.options.get("lengths")
    return nd(x, dtype), states, None if lengths is None else mx.nd.array(lengths)


def train(layer, problem, layout="TNC", dtype="float64"):
    """Outputs and gradients of one call with states, in the reference's order and layout."""
    swap = (lambda a: a.swapaxes(0, 1)) if layout == "NTC" else (lambda a: a)
    data, states, lengths = inputs_for(problem, layout, dtype)
    for array in (data, *states):
        array.attach_grad()
    with mx.autograd.record():
        y, finals = layer(data, states, lengths)
    heads = [swap(problem.dy), *problem.heads[1:]]
    mx.autograd.backward([y, *finals], [nd(head, dtype) for head in heads])
    outputs = [swap(y.asnumpy()), *(final.asnumpy() for final in finals)]
    gradients = [swap(data.grad.asnumpy()), layer.parameters.grad().asnumpy()]
    return outputs, gradients + [state.grad.asnumpy() for state in states]


def with_zero_states(problem):
    c0 = None if problem.c0 is None else np.zeros_like(problem.c0)
    return problem.replace(h0=np.zeros_like(problem.h0), c0=c0)


PROBLEMS = {
    "one layer": {},
    "stack": {"L": 3, "D": 2},
    "lengths": {"L": 2, "D": 2, "T": 6, "N": 3, "lengths": [6, 0, 4]},
}


@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("case", PROBLEMS)
@pytest.mark.parametrize("mode", CELLS)
def test_outputs_and_gradients(mode, case, layout, how):
    problem = make(mode, **PROBLEMS[case])
    layer = layer_for(problem, layout, how=how)
    for _ in range(2):
        outputs, gradients = train(layer, problem, layout)
        check_outputs(outputs, problem.outputs(), problem.shape)
        check_gradients(gradients, problem.gradients(), problem.shape)


@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("clip", [(-0.2, 0.3), (0.0, 0.3), (-0.2, 0.0)])
@pytest.mark.parametrize("mode", LSTMS)
def test_projection_and_clipping(mode, clip, how):
    problem = make(mode, L=2, D=2, P=3, clip=clip)
    outputs, gradients = train(layer_for(problem, how=how), problem)
    check_outputs(outputs, problem.outputs(), problem.shape)
    check_gradients(gradients, problem.gradients(), problem.shape)


@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("mode", CELLS)
def test_calls_with_and_without_states_alternate(mode, how):
    """One hybridized layer serves both; the default states are zeros."""
    problem = make(mode, L=2)
    zero = with_zero_states(problem)
    layer = layer_for(problem, how=how)
    data, states, _ = inputs_for(problem)
    for _ in range(2):
        check(layer(data).asnumpy(), zero.outputs().y, problem.shape)
        y, finals = layer(data, states)
        check_outputs([y.asnumpy(), *(f.asnumpy() for f in finals)], problem.outputs(), zero.shape)
    assert layer(data[:, :1]).shape == (problem.shape.T, 1, problem.shape.H)


@pytest.mark.parametrize("mode", ["gru", "gru_reset_before", "rnn_tanh"])
def test_a_single_state_needs_no_list(mode):
    problem = make(mode)
    data, states, _ = inputs_for(problem)
    layer = layer_for(problem)
    for given in (states[0], states, tuple(states)):
        y, finals = layer(data, given)
        check(y.asnumpy(), problem.outputs().y, problem.shape)
        assert len(finals) == 1


@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("mode", CELLS)
def test_layer_inside_a_network(mode, how):
    """The network's graph makes the default states, of the batch size that comes."""
    problem = with_zero_states(make(mode, L=2, D=2))
    net = mx.gluon.nn.HybridSequential()
    net.add(layer_for(problem, "NTC"), mx.gluon.nn.Dense(1, flatten=False))
    net[1].initialize()
    net.cast("float64")
    if HYBRID[how] is not None:
        net.hybridize(**HYBRID[how])
    data = inputs_for(problem, "NTC")[0]
    last = net[1]
    for batch in (2, 1):
        expected = problem.outputs().y.swapaxes(0, 1)[:batch]
        y = net(data[:batch]).asnumpy()
        weight, bias = last.weight.data().asnumpy(), last.bias.data().asnumpy()
        np.testing.assert_allclose(y, expected @ weight.T + bias, atol=1e-10)


@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_deferred_initialisation_with_lengths(kind, layout, how):
    """C17: the input size comes with the first call, also in the presence of lengths."""
    data = mx.nd.random.uniform(0.1, 1, shape=(2, 3, 2))
    lengths = mx.nd.array([1, 2, 0] if layout == "TNC" else [1, 3], dtype="int32")
    outputs = []
    for input_size in (0, 2):
        layer = getattr(gluon, kind)(
            2, use_sequence_length=True, layout=layout, input_size=input_size
        )
        layer.initialize(mx.init.Constant(0.5))
        if HYBRID[how] is not None:
            layer.hybridize(**HYBRID[how])
        outputs.append(layer(data, sequence_length=lengths).asnumpy())
        assert layer.l0_i2h_weight.shape[1] == 2
    np.testing.assert_array_equal(*outputs)
    assert outputs[0].any()


@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("mode", CELLS)
def test_default_states_follow_the_dtype(mode, how):
    """C34."""
    problem = make(mode, L=2, dtype="float16")
    problem = with_zero_states(problem)
    layer = layer_for(problem, dtype="float32", how=how)
    for dtype in ("float32", "float16", "float64", "float32"):
        layer.cast(dtype)
        y = layer(nd(problem.x, dtype))
        assert y.dtype == np.dtype(dtype)
        check(y.asnumpy(), problem.outputs().y, problem.shape, dtype)
        assert layer.begin_state(2)[0].dtype == np.dtype(dtype)


@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("layout", ["TNC", "NTC"])
def test_numpy_arrays(layout, how):
    problem = make("lstm", L=2, lengths=[5, 3], dtype="float32")
    shape = problem.shape
    x = problem.x.swapaxes(0, 1) if layout == "NTC" else problem.x
    with mx.util.np_shape(True), mx.util.np_array(True):
        layer = gluon.LSTM(shape.H, shape.L, layout, use_sequence_length=True, weight_drop=0.5)
        layer.initialize()
        if HYBRID[how] is not None:
            layer.hybridize(**HYBRID[how])
        data, lengths = mx.np.array(x, dtype="float32"), mx.np.array([5, 3])
        layer(data, sequence_length=lengths)
        layer.parameters.set_data(mx.np.array(problem.params, dtype="float32"))
        assert isinstance(layer.l0_h2h_weight.data(), mx.np.ndarray)
        states = [mx.np.array(state, dtype="float32") for state in (problem.h0, problem.c0)]
        outputs = [layer(data, states, lengths), layer(data, sequence_length=lengths)]
        assert isinstance(outputs[1], mx.np.ndarray)
        with mx.autograd.record():
            loss = layer(data, sequence_length=lengths).sum()
        loss.backward()
        assert layer.l0_h2h_weight.grad().asnumpy().any()
        (y, finals), without = outputs
        y, without, *finals = (a.asnumpy() for a in (y, without, *finals))
    if layout == "NTC":
        y, without = y.swapaxes(0, 1), without.swapaxes(0, 1)
    check_outputs([y, *finals], problem.outputs(), shape, "float32")
    check(without, with_zero_states(problem).outputs().y, shape, "float32")


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_constructor_is_that_of_mxnet(kind):
    ours = inspect.signature(getattr(gluon, kind)).parameters
    native = inspect.signature(getattr(stock, kind)).parameters
    names = [name for name in native if name != "kwargs"]
    assert list(ours)[: len(names)] == names
    for name in names:
        assert ours[name].default == native[name].default, name
    assert issubclass(getattr(gluon, kind), getattr(stock, kind))


def test_weights_change_between_predictions():
    problem = make("lstm", L=2, seed=1)
    other = make("lstm", L=2, seed=2).replace(x=problem.x, h0=problem.h0, c0=problem.c0)
    layer = layer_for(problem, how="static")
    data, states, _ = inputs_for(problem)
    for now in (problem, other, problem):
        layer.parameters.set_data(nd(now.params))
        check(layer(data, states)[0].asnumpy(), now.outputs().y, now.shape)
    layer.collect_params().reset_ctx([mx.cpu(1)])
    data, states = data.as_in_context(mx.cpu(1)), [s.as_in_context(mx.cpu(1)) for s in states]
    check(layer(data, states)[0].asnumpy(), problem.outputs().y, problem.shape)
    assert layer.l0_i2h_weight.data(mx.cpu(1)).context == mx.cpu(1)


def test_graph_holds_the_operator_alone():
    """C23: nothing is copied or put together per call."""
    layer = gluon.LSTM(4, 3, bidirectional=True)
    layer.initialize()
    layer.hybridize()
    data = mx.nd.ones((5, 2, 3))
    for call, names in (
        ((data,), ["data", "lstm_parameters"]),
        ((data, layer.begin_state(2)), ["data0", "lstm_parameters", "data1", "data2"]),
    ):
        layer(*call)
        graph = json.loads(layer._cached_graph[1].tojson())
        operators = {node["op"] for node in graph["nodes"]}
        assert operators <= {"null", "_zeros", "FusedRNN"}
        assert len(layer._cached_graph[1].list_inputs()) == len(names)


class Bare(mx.gluon.HybridBlock):
    """The operator alone, all its arrays inputs."""

    def hybrid_forward(self, F, *arrays):
        return F.FusedRNN(*arrays, state_size=4, num_layers=1, mode="lstm", state_outputs=True)


def python_calls(function):
    """How many calls of Python functions one call of a function is, at least.

    A collection of garbage adds the destructors of other tests' objects.
    """
    function()
    counts = []
    for _ in range(5):
        events = []
        sys.setprofile(lambda frame, event, argument, events=events: events.append(event))
        try:
            function()
        finally:
            sys.setprofile(None)
        counts.append(events.count("call"))
    return min(counts)


@pytest.mark.parametrize("how", ["hybridized", "static"])
def test_a_call_runs_no_more_python_than_the_operator_in_a_block(how):
    """C23: with one step, most of what a layer adds to the operator would be that."""
    layer, bare = gluon.LSTM(4, input_size=3), Bare()
    layer.initialize()
    data, states = mx.nd.ones((1, 1, 3)), layer.begin_state(1)
    for block in (layer, bare):
        block.hybridize(**HYBRID[how])
    ours = python_calls(lambda: layer(data, states))
    assert ours <= python_calls(lambda: bare(data, layer.parameters.data(), *states))


@pytest.mark.parametrize("how", HYBRID)
def test_states_follow_the_dtype_within_a_network(how):
    net = mx.gluon.nn.HybridSequential()
    net.add(gluon.LSTM(4), gluon.GRU(2, bidirectional=True))
    net.initialize()
    if HYBRID[how] is not None:
        net.hybridize(**HYBRID[how])
    data = mx.nd.ones((5, 2, 3))
    expected = net(data).asnumpy()
    for dtype in ("float16", "float64", "float32"):
        net.cast(dtype)
        y = net(data.astype(dtype))
        assert y.dtype == np.dtype(dtype)
        np.testing.assert_allclose(y.asnumpy(), expected, atol=2e-3)


def test_repr_and_state_info_are_those_of_mxnet():
    for options in ({}, {"num_layers": 2, "bidirectional": True, "projection_size": 2}):
        ours, native = gluon.LSTM(4, **options), stock.LSTM(4, **options)
        assert repr(ours) == repr(native)
        assert ours.state_info(3) == native.state_info(3)


@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("first", ["wrong", "right"])
def test_wrong_states(first, how):
    """Refused in any call, after which right ones give what they always do."""
    problem = make("lstm", L=2)
    layer = layer_for(problem, how=how)
    data, (h, c), _ = inputs_for(problem)
    if first == "right":
        layer(data, [h, c])
    for wrong in (h[:, :1], h[:1], h[:, :, :2], mx.nd.concat(h, h, dim=1)):
        for states in ([wrong, c], [h, wrong]):
            with pytest.raises(ValueError, match="Invalid recurrent state shape. Expecting"):
                layer(data, states)
    with pytest.raises(ValueError, match="mixed NDArrays and Symbols"):
        layer(data, [h, mx.sym.var("c")])
    y, finals = layer(data, [h, c])
    outputs = [a.asnumpy() for a in (y, *finals)]
    check_outputs(outputs, problem.outputs(), problem.shape)


def test_errors():
    layer = gluon.LSTM(4)
    layer.initialize()
    data = mx.nd.ones((3, 2, 5))
    h, c = layer.begin_state(2)
    with pytest.raises(ValueError, match="states: expected 2, found 1"):
        layer(data, h)
    with pytest.raises(ValueError, match=r"Invalid recurrent state shape. Expecting \(1, 2, 4\)"):
        layer(data, layer.begin_state(3))
    with pytest.raises(ValueError, match="use_sequence_length=False, found one"):
        layer(data, [h, c], mx.nd.array([1, 2]))
    with pytest.raises(ValueError, match="use_sequence_length=True, found none"):
        gluon.GRU(4, use_sequence_length=True)(data)
    with pytest.raises(ValueError, match="activation"):
        gluon.RNN(4, activation="sigmoid")
    with pytest.raises(ValueError, match="weight_drop"):
        gluon.LSTM(4, weight_drop=1)
    with pytest.raises(AttributeError, match="l1_i2h_weight"):
        _ = layer.l1_i2h_weight
    with pytest.raises(mx.MXNetError, match="uniform type"):
        layer(data.astype("float64"))
