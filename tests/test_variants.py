"""Cells that MXNet lacks, through everything that was made for its own: functions and symbols,
layers and their files, conversions. What they compute, the tests of each front end check.
"""

from __future__ import annotations

import copy
import json
import pickle

import mxnet as mx
import numpy as np
import pytest
from helpers import (
    check,
    check_outputs,
    gluon_class,
    make,
    nd,
    operator_attributes,
    operator_inputs,
    to_numpy,
)
from mxnet.contrib import amp
from mxnet.gluon import rnn as stock
from reference import VARIANTS
from test_gluon_layer import HYBRID, inputs_for, layer_for, train, with_zero_states

import fused_rnn
from fused_rnn import gluon

CELL = "__fused_rnn_cell__"


def layer_of(mode, hidden_size=4, **options):
    kind, of_mode = gluon_class(mode)
    return getattr(gluon, kind)(hidden_size, **options, **of_mode)


# Functions and symbols


@pytest.mark.parametrize("mode", VARIANTS)
def test_a_mode_is_a_hidden_attribute_of_the_operator(mode):
    problem = make(mode, L=2, D=2)
    attributes = operator_attributes(problem)
    assert attributes["mode"] == VARIANTS[mode] and attributes[CELL] == mode
    by_mode = {**attributes, "mode": mode}
    del by_mode[CELL]
    ours = fused_rnn.sym.RNN(mx.sym.var("data"), name="a", **by_mode)
    expected = mx.sym.FusedRNN(mx.sym.var("data"), name="a", **attributes)
    assert ours.tojson() == expected.tojson()
    shapes, _, _ = ours.infer_shape(data=problem.x.shape)
    assert shapes == [value.shape for value in problem.inputs]
    arrays = operator_inputs(problem)
    for outputs in (
        fused_rnn.nd.RNN(*arrays, **by_mode),
        fused_rnn.nd.RNN(*arrays, **attributes),
        mx.nd.FusedRNN(*arrays, **attributes),
        mx.npx.fused_rnn(*(array.as_np_ndarray() for array in arrays), **attributes),
    ):
        check_outputs([a.asnumpy() for a in outputs], problem.outputs(), problem.shape)


@pytest.mark.parametrize("mode", VARIANTS)
def test_symbols_of_numpy(mode):
    problem = make(mode)
    names = ["data", "parameters", "state", "state_cell"][: len(problem.inputs)]
    variables = [mx.sym.var(name).as_np_ndarray() for name in names]
    outputs = mx.sym.npx.fused_rnn(*variables, **operator_attributes(problem))
    net = mx.sym.Group([output.as_nd_ndarray() for output in outputs])
    executor = net.bind(mx.cpu(), dict(zip(names, operator_inputs(problem))))
    check_outputs([a.asnumpy() for a in executor.forward()], problem.outputs(), problem.shape)


@pytest.mark.parametrize("mode", VARIANTS)
def test_no_cell_of_mx_rnn(mode):
    with pytest.raises(ValueError, match=f"mode: .*'{mode}'"):
        fused_rnn.rnn.FusedRNNCell(4, mode=mode)


@pytest.mark.parametrize("mode", VARIANTS)
def test_an_unknown_cell_is_refused(mode):
    arrays = operator_inputs(make(mode))
    attributes = {**operator_attributes(make(mode)), CELL: "elman"}
    with pytest.raises(mx.MXNetError, match="elman"):
        mx.nd.FusedRNN(*arrays, **attributes)[0].wait_to_read()


# Conversions


@pytest.mark.parametrize("mode", VARIANTS)
def test_convert(mode, tmp_path):
    data = mx.sym.var("data")
    net = fused_rnn.sym.RNN(data, mode=mode, state_size=4, num_layers=1, name="plain")
    body = mx.sym.contrib.foreach(
        lambda x, _: (fused_rnn.sym.RNN(x, mode=mode, state_size=4, num_layers=1, name="in"), []),
        mx.sym.var("sequences"),
        [],
    )[0]
    for symbol, name in ((net, "plain"), (body, "in")):
        assert fused_rnn.convert(symbol).tojson() == symbol.tojson()
        with pytest.raises(ValueError, match=f"'{mode}' in '.*{name}'"):
            fused_rnn.convert(symbol, reverse=True)
    model = mx.gluon.nn.HybridSequential()
    model.add(stock.GRU(3), mx.gluon.SymbolBlock(net, [data]))
    fused_rnn.convert(model)
    kinds = [type(block) for block in model]
    with pytest.raises(ValueError, match=f"'{mode}' in 'plain'"):
        fused_rnn.convert(model, reverse=True)
    assert [type(block) for block in model] == kinds  # nothing is half changed


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("mode", VARIANTS)
def test_mixed_precision(mode, dtype):
    problem = make(mode, L=2, D=2, dtype="float16")
    names = ("data", "parameters", "state", "state_cell")[: len(problem.inputs)]
    symbol = mx.sym.FusedRNN(*map(mx.sym.var, names), **operator_attributes(problem))
    arrays = {name: mx.nd.array(value) for name, value in zip(names, problem.inputs)}
    params = {"parameters": arrays["parameters"]}
    symbol, params, _ = amp.convert_model(symbol, params, {}, target_dtype=dtype)
    found = symbol.eval(ctx=mx.cpu(), **{**arrays, **params})
    check_outputs(map(to_numpy, found), problem.outputs(), problem.shape, dtype)


# Layers


@pytest.mark.parametrize("mode", VARIANTS)
def test_repr(mode):
    assert repr(layer_of(mode, input_size=3)) == (f"{VARIANTS[mode].upper()}(3 -> 4, TNC, {mode})")


def test_plain_layers_by_default():
    assert repr(gluon.LSTM(4, peephole=False)) == repr(stock.LSTM(4))
    assert repr(gluon.GRU(4, reset_after=True)) == repr(stock.GRU(4))


@pytest.mark.parametrize("input_size", [0, 3])
def test_peepholes_are_parts(input_size):
    layer = gluon.LSTM(
        4,
        2,
        bidirectional=True,
        projection_size=2,
        input_size=input_size,
        peephole=True,
        peephole_initializer=mx.init.Constant(0.25),
    )
    layer.initialize(mx.init.Xavier())
    layer(mx.nd.ones((5, 2, 3)))
    parts = gluon.split_params(layer)
    names = [f"{layer.prefix}{cell}_peephole" for cell in ("l0", "r0", "l1", "r1")]
    assert [name for name in parts if name.endswith("peephole")] == names
    for name in names:
        np.testing.assert_array_equal(parts[name].data().asnumpy(), np.full(12, 0.25))
    whole = layer.parameters.data().asnumpy()
    np.testing.assert_array_equal(whole[-48:], np.full(48, 0.25))
    layer.r1_peephole.set_data(mx.nd.arange(12))
    np.testing.assert_array_equal(layer.parameters.data().asnumpy()[-12:], np.arange(12))


def test_other_initial_values_are_those_of_a_plain_layer():
    layers = [gluon.LSTM(4, 2, peephole=peephole, input_size=3) for peephole in (False, True)]
    values = []
    for layer in layers:
        mx.random.seed(7)
        layer.initialize(mx.init.Uniform(0.5))
        values.append(layer.parameters.data().asnumpy())
    plain, with_peepholes = values
    np.testing.assert_array_equal(with_peepholes, [*plain, *np.zeros(24)])


@pytest.mark.parametrize("mode", VARIANTS)
@pytest.mark.parametrize("deferred", [False, True])
def test_files(mode, deferred, tmp_path):
    path, names = str(tmp_path / "net.params"), str(tmp_path / "names.params")
    data = mx.nd.random.uniform(-1, 1, shape=(5, 2, 3))

    def network():
        net = mx.gluon.nn.HybridSequential(prefix="net_")
        with net.name_scope():
            net.add(layer_of(mode, num_layers=2, bidirectional=True), layer_of(mode))
        return net

    net = network()
    net.initialize(mx.init.Normal(0.3) if mode == "gru_reset_before" else mx.init.Uniform(0.3))
    expected = net(data).asnumpy()
    net.save_parameters(path)
    gluon.split_params(net).save(names)
    for load in (
        lambda other: other.load_parameters(path),
        lambda other: gluon.split_params(other).load(names),
    ):
        other = network()
        if deferred:
            other.initialize(mx.init.Uniform())
        load(other)
        np.testing.assert_array_equal(other(data).asnumpy(), expected)


@pytest.mark.parametrize("mode", VARIANTS)
def test_exported_model(mode, tmp_path):
    problem = with_zero_states(make(mode, L=2, D=2, dtype="float32"))
    layer = layer_for(problem, dtype="float32", how="hybridized")
    data = nd(problem.x, "float32")
    layer(data)
    layer.export(str(tmp_path / "net"))
    loaded = mx.gluon.SymbolBlock.imports(
        f"{tmp_path}/net-symbol.json", ["data"], f"{tmp_path}/net-0000.params"
    )
    check(loaded(data).asnumpy(), problem.outputs().y, problem.shape, "float32")


@pytest.mark.parametrize("mode", VARIANTS)
def test_copies_and_shared_parameters(mode):
    problem = make(mode, L=2)
    layer = layer_for(problem)
    data, states, _ = inputs_for(problem)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        y, _ = other(data, states)
        check(y.asnumpy(), problem.outputs().y, problem.shape)
        other.parameters.set_data(other.parameters.data() * 0)
    check(layer(data, states)[0].asnumpy(), problem.outputs().y, problem.shape)
    kind, of_mode = gluon_class(mode)
    shared = getattr(gluon, kind)(4, 2, params=layer.params, dtype="float64", **of_mode)
    check(shared(data, states)[0].asnumpy(), problem.outputs().y, problem.shape)


def test_a_plain_layer_does_not_share_peepholes():
    with pytest.raises(ValueError, match="another kind of layer"):
        gluon.LSTM(4, params=gluon.LSTM(4, peephole=True).params)


@pytest.mark.parametrize("mode", VARIANTS)
def test_no_cells_of_mxnet(mode):
    with pytest.raises(NotImplementedError, match=mode):
        layer_of(mode)._unfuse()


@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("mode", VARIANTS)
def test_weight_drop(mode, how):
    """Everything but the recurrent weights stays: at a rate of nearly 1 that is a layer of these
    parameters with R = 0.
    """
    problem = with_zero_states(make(mode, L=2, D=2, dtype="float32"))
    layer = layer_for(problem, dtype="float32", how=how, weight_drop=1 - 1e-6)
    parts = layer.parameters.layout.split(problem.params.copy())
    for name, part in parts.items():
        if name.endswith("h2h_weight"):
            part[...] = 0
    without = problem.replace(params=layer.parameters.layout.join(parts))
    data = nd(problem.x, "float32")
    check(layer(data).asnumpy(), problem.outputs().y, problem.shape, "float32")
    with mx.autograd.record():
        y = layer(data)
    check(y.asnumpy(), without.outputs().y, problem.shape, "float32")


@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("mode", VARIANTS)
def test_arrays_of_numpy(mode, how):
    problem = make(mode, L=2, D=2, dtype="float32")
    with mx.util.np_shape(True), mx.util.np_array(True):
        kind, of_mode = gluon_class(mode)
        layer = getattr(gluon, kind)(4, 2, bidirectional=True, **of_mode)
        layer.initialize()
        if HYBRID[how] is not None:
            layer.hybridize(**HYBRID[how])
        data, _, *states = (mx.np.array(value, dtype="float32") for value in problem.inputs)
        layer(data)
        layer.parameters.set_data(mx.np.array(problem.params, dtype="float32"))
        y, finals = layer(data, states)
        outputs = [a.asnumpy() for a in (y, *finals)]
    check_outputs(outputs, problem.outputs(), problem.shape, "float32")


def test_cell_states_of_every_step():
    problem = make("lstm_peephole")
    layer = gluon.CellStateLSTM(4, input_size=3, dtype="float64", peephole=True)
    layer.initialize()
    layer.parameters.set_data(nd(problem.params))
    data, states, _ = inputs_for(problem)
    y, cells, finals = layer(data, states)
    outputs = [y.asnumpy(), *(final.asnumpy() for final in finals)]
    check_outputs(outputs, problem.outputs(), problem.shape)
    np.testing.assert_array_equal(cells[-1].asnumpy(), finals[1][0].asnumpy())


@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("mode", VARIANTS)
def test_a_step_of_a_trainer_reaches_every_part(mode, how):
    problem = make(mode, L=2, D=2, dtype="float32")
    layer = layer_for(problem, dtype="float32", how=how)
    trainer = mx.gluon.Trainer(layer.collect_params(), "sgd", {"learning_rate": 0.1})
    before = {name: part.data().asnumpy() for name, part in layer.parameters.parts.items()}
    train(layer, problem, dtype="float32")
    trainer.step(1)
    for name, part in layer.parameters.parts.items():
        assert (part.data().asnumpy() != before[name]).any(), name


def test_graph_of_a_layer_names_its_cell():
    layer = gluon.LSTM(4, peephole=True)
    graph = json.loads(layer(mx.sym.var("data")).tojson())
    (attrs,) = (node["attrs"] for node in graph["nodes"] if node["op"] == "FusedRNN")
    assert (attrs["mode"], attrs[CELL]) == ("lstm", "lstm_peephole")
