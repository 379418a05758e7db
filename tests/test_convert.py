"""Loaded models moved to the fused operator and back."""

from __future__ import annotations

import json

import mxnet as mx
import numpy as np
import pytest
from mxnet.gluon import rnn as stock
from test_gluon_files import DATA, LAYERS, initialised, network

import fused_rnn


def operators(symbol):
    """Names of the operators of a graph and of the graphs within it."""

    def collect(graph):
        names = [node["op"] for node in graph["nodes"]]
        for node in graph["nodes"]:
            for subgraph in node.get("subgraphs", ()):
                names += collect(subgraph)
        return names

    return collect(json.loads(symbol.tojson()))


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_symbol(mode):
    inputs = [mx.sym.var("data"), mx.sym.var("weights"), mx.sym.var("h")]
    native = mx.sym.RNN(
        *inputs, state_size=4, num_layers=2, mode=mode, bidirectional=True, name="net"
    )
    native._set_attr(__note__="kept")
    fused = fused_rnn.convert(native)
    assert "FusedRNN" in operators(fused) and "RNN" not in operators(fused)
    assert native.tojson() == fused_rnn.convert(fused, reverse=True).tojson()
    assert fused.list_arguments() == native.list_arguments()
    assert fused.list_outputs() == native.list_outputs()
    assert fused.attr("__note__") == "kept"
    assert fused_rnn.convert(fused).tojson() == fused.tojson()
    outputs = []
    for symbol in (native, fused):
        executor = symbol.simple_bind(mx.cpu(), data=(5, 2, 3), grad_req="null")
        for k, name in enumerate(symbol.list_arguments()):
            values = np.random.default_rng(k).uniform(-0.3, 0.3, executor.arg_dict[name].shape)
            executor.arg_dict[name][:] = mx.nd.array(values)
        outputs.append(executor.forward()[0].asnumpy())
    np.testing.assert_allclose(*outputs, atol=1e-5)


def test_names_beyond_ascii():
    native = mx.sym.RNN(mx.sym.var("données"), mode="gru", state_size=4, num_layers=1, name="größe")
    fused = fused_rnn.convert(native)
    assert fused.list_arguments() == ["données", "größe_parameters", "größe_state"]
    assert fused.name == "größe"


def test_symbol_within_control_flow():
    def step(data, state):
        outputs = mx.sym.RNN(
            mx.sym.expand_dims(data, 0),
            mx.sym.var("weights"),
            state,
            mode="gru",
            state_size=4,
            num_layers=1,
            state_outputs=True,
        )
        return outputs[0], outputs[1]

    native, _ = mx.sym.contrib.foreach(step, mx.sym.var("data"), mx.sym.var("h"))
    fused = fused_rnn.convert(native)
    assert "FusedRNN" in operators(fused) and "RNN" not in operators(fused)
    arrays = {
        name: mx.nd.array(np.random.default_rng(k).uniform(-0.3, 0.3, shape))
        for k, (name, shape) in enumerate(
            {"data": (5, 2, 3), "h": (1, 2, 4), "weights": (108,)}.items()
        )
    }
    outputs = [s.bind(mx.cpu(), arrays).forward()[0].asnumpy() for s in (native, fused)]
    np.testing.assert_allclose(*outputs, atol=1e-5)


def test_numpy_symbol():
    symbol = mx.sym.var("data").as_np_ndarray()
    native = mx.sym.npx.rnn(
        symbol,
        mx.sym.var("w").as_np_ndarray(),
        mx.sym.var("h").as_np_ndarray(),
        mode="gru",
        state_size=4,
        num_layers=1,
    )
    fused = fused_rnn.convert(native)
    assert isinstance(fused, mx.sym.np._Symbol)
    assert "FusedRNN" in operators(fused)
    back = fused_rnn.convert(fused, reverse=True)
    assert back.tojson() == native.tojson()


@pytest.mark.parametrize("case", LAYERS)
def test_imported_block(case, tmp_path):
    net, expected = initialised(stock, case)
    net.hybridize()
    net(DATA)
    path = str(tmp_path / "net")
    net.export(path)
    block = mx.gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-0000.params")
    block.hybridize()
    for reverse, wanted in ((False, "FusedRNN"), (True, "RNN"), (False, "FusedRNN")):
        assert fused_rnn.convert(block, reverse) is block
        assert wanted in operators(block._cached_graph[1])
        np.testing.assert_allclose(block(DATA).asnumpy(), expected, atol=1e-5)


@pytest.mark.parametrize("numpy_mode", [False, True])
@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("case", LAYERS)
def test_network_of_layers(case, hybridize, numpy_mode):
    with mx.util.np_shape(numpy_mode), mx.util.np_array(numpy_mode):
        data = mx.np.array(DATA.asnumpy(), dtype="float32") if numpy_mode else DATA
        net = network(stock, case)
        net.initialize(mx.init.Normal(0.3))
        expected = net[0](data).asnumpy()
        if hybridize:
            net[0].hybridize()
            net[0](data)
        parameters = list(net.collect_params().values())
        for reverse in (False, True, False):
            fused_rnn.convert(net, reverse)
            assert isinstance(net[0], getattr(stock, type(net[0]).__name__))
            np.testing.assert_allclose(net[0](data).asnumpy(), expected, atol=1e-5)
            if hybridize:
                wanted = "RNN" if reverse else "FusedRNN"
                assert wanted in operators(net[0]._cached_graph[1])
        assert list(net.collect_params().values()) == parameters


def test_lengths_work_in_converted_layers():
    layer = stock.GRU(4, use_sequence_length=True, input_size=3)
    layer.initialize()
    fused_rnn.convert(layer)
    assert not layer(DATA, sequence_length=mx.nd.array([5, 2]))[2:, 1].asnumpy().any()


def test_converted_network_trains():
    """Its Trainer, made before, goes on."""
    net, _ = initialised(stock, "gru")
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02})
    fused_rnn.convert(net)
    losses = []
    for _ in range(30):
        with mx.autograd.record():
            loss = ((net(DATA) - 1) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(loss.asscalar())
    assert losses[-1] < 0.8 * losses[0]


def test_layers_of_ours_stay():
    net, expected = initialised(fused_rnn.gluon, "gru")
    for reverse in (False, True):
        fused_rnn.convert(net, reverse)
        np.testing.assert_array_equal(net(DATA).asnumpy(), expected)


def test_other_models_are_refused():
    with pytest.raises(TypeError, match="expected a Symbol or a Block, found int"):
        fused_rnn.convert(3)
