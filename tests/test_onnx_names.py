"""Exported files of models whose nodes have one name, unlucky names, or none of their own."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import mxnet as mx  # noqa: E402
import onnx  # noqa: E402
from test_onnx import run  # noqa: E402

import fused_rnn  # noqa: E402
import fused_rnn.onnx  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 2, 3)).astype("float32")


def check(symbol, path, params=(), **inputs):
    """Exports a symbol, compares all outputs, and returns the names in the file."""
    inputs = inputs or {"data": X}
    values = {"weights": RNG.uniform(-0.5, 0.5, 72), **dict(params)}
    arrays = {name: mx.nd.array(value) for name, value in values.items()}
    arrays = {name: arrays[name] for name in symbol.list_inputs() if name in arrays}
    fused_rnn.onnx.export(symbol, arrays, {n: v.shape for n, v in inputs.items()}, path)
    given = {name: mx.nd.array(value) for name, value in inputs.items()}
    expected = symbol.eval(ctx=mx.cpu(), **arrays, **given)
    found = run(path, **inputs)
    assert len(found) == len(expected)
    for actual, wanted in zip(found, expected):
        np.testing.assert_allclose(actual, wanted.asnumpy(), rtol=0, atol=1e-5)
    graph = onnx.load(str(path)).graph
    results = [name for node in graph.node for name in node.output]
    assert len(results) == len(set(results))
    assert {tensor.name for tensor in graph.initializer}.isdisjoint(results)
    return [[value.name for value in values] for values in (graph.input, graph.output)]


def shared():
    weights = mx.sym.var("weights")
    options = {"mode": "gru", "state_size": 3, "num_layers": 1, "name": "rnn"}
    return lambda data, **extra: mx.sym.FusedRNN(
        data, weights, mx.sym.zeros((1, 2, 3), name="zeros"), **options, **extra
    )


def test_nodes_of_one_name_in_a_row(tmp_path):
    layer = shared()
    names = check(layer(layer(layer(mx.sym.var("data")))), tmp_path / "a.onnx")
    assert names == [["data"], ["rnn"]]


def test_two_outputs_of_one_name(tmp_path):
    layer, data = shared(), mx.sym.var("data")
    below = layer(data, state_outputs=True)
    above = layer(below[0], state_outputs=True)
    symbol = mx.sym.Group([above[1], below[1], above[0]])
    names = check(symbol, tmp_path / "a.onnx")
    assert names == [["data"], ["rnn1", "rnn_21", "rnn"]]


def test_other_operators_of_one_name(tmp_path):
    data = mx.sym.var("data")
    below = mx.sym.FullyConnected(
        data, mx.sym.var("w"), num_hidden=3, no_bias=True, flatten=False, name="dense"
    )
    middle = mx.sym.tanh(below, name="dense")
    above = mx.sym.broadcast_add(middle * 2, below, name="dense")
    params = {"w": RNG.standard_normal((3, 3))}
    names = check(shared()(above), tmp_path / "a.onnx", params)
    assert names == [["data"], ["rnn"]]
    assert check(above, tmp_path / "b.onnx", params) == [["data"], ["dense"]]


def test_an_operator_named_as_a_variable(tmp_path):
    data = mx.sym.var("data")
    below = mx.sym.tanh(mx.sym.tanh(data, name="data"), name="weights")
    names = check(mx.sym.Group([shared()(below), below]), tmp_path / "a.onnx")
    assert names == [["data"], ["rnn", "weights_2"]]


@pytest.mark.parametrize("name", ["rnn1", "rnn_shape", "rnn_Y_0", "rnn_lengths", "rnn_2", "node1_"])
@pytest.mark.parametrize("kind", ["variable", "operator"])
def test_names_that_the_exporter_makes_from_others(kind, name, tmp_path):
    layer = shared()
    inputs = {"data": X}
    if kind == "variable":
        inputs = {name: X}
        data = mx.sym.var(name)
    else:
        data = mx.sym.tanh(mx.sym.var("data"), name=name)
    y, h = layer(data, state_outputs=True)
    names = check(mx.sym.Group([h, y, layer(y)]), tmp_path / "a.onnx", **inputs)
    assert names[0] == list(inputs)
    assert names[1][1] == "rnn"
    assert len(set(names[1])) == 3


def test_outputs_that_no_node_makes_and_one_twice(tmp_path):
    data = mx.sym.var("data")
    y = shared()(data)
    weights = y.get_internals()["weights"]
    names = check(mx.sym.Group([y, data, y, weights]), tmp_path / "a.onnx")
    assert names == [["data"], ["rnn", "data_2", "rnn_2", "weights_2"]]


def test_more_than_ten_outputs(tmp_path):
    parts = mx.sym.split(mx.sym.var("data"), num_outputs=12, axis=0, name="part")
    x = RNG.standard_normal((12, 2)).astype("float32")
    names = check(parts, tmp_path / "a.onnx", data=x)
    assert names[1] == [f"part{k}" for k in range(12)]


def test_variables_of_one_name_are_refused(tmp_path):
    symbol = mx.sym.var("data") + mx.sym.var("data")
    with pytest.raises(ValueError, match=r"model: .*different names, found \['data'\] twice"):
        fused_rnn.onnx.export(symbol, {}, {"data": (2,)}, tmp_path / "a.onnx")


def test_names_beyond_ascii(tmp_path):
    data = mx.sym.var("Wörter")
    y = mx.sym.FusedRNN(data, mode="gru", state_size=3, num_layers=1, name="größe")
    symbol = mx.sym.tanh(y, name="輸出")
    params = {"größe_parameters": RNG.uniform(-0.5, 0.5, 72), "größe_state": np.ones((1, 2, 3))}
    names = check(symbol, tmp_path / "a.onnx", params, **{"Wörter": X})
    assert names == [["Wörter"], ["輸出"]]


def compare_block(net, data, path):
    names = [f"data{k}" for k in range(len(data))]
    expected = net(*data)
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    fused_rnn.onnx.export(net, None, {n: x.shape for n, x in zip(names, data)}, path)
    found = run(path, **{name: x.asnumpy() for name, x in zip(names, data)})
    for actual, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(actual, wanted.asnumpy(), rtol=0, atol=1e-5)


class Twice(mx.gluon.HybridBlock):
    """One layer called twice, and the inner call is an output as well."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def hybrid_forward(self, F, x):
        below = self.layer(x)
        return self.layer(below), below


@pytest.mark.parametrize("module", [fused_rnn.gluon, mx.gluon.rnn], ids=["ours", "stock"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_one_block_called_twice(kind, module, tmp_path):
    net = Twice(getattr(module, kind)(3, input_size=3))
    net.initialize(mx.init.Uniform(0.5))
    compare_block(net, [mx.nd.array(X)], tmp_path / "a.onnx")


class CallsOperator(mx.gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.weights = self.params.get("weights", shape=(72,))
        self.state = self.params.get("state", shape=(1, 2, 3))

    def hybrid_forward(self, F, x, weights, state):
        return F.npx.rnn(x, weights, state, mode="gru", state_size=3, num_layers=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: fused_rnn.gluon.LSTM(3, 2, bidirectional=True),
        lambda: mx.gluon.rnn.LSTM(3, 2, bidirectional=True),
        lambda: fused_rnn.gluon.GRU(3, layout="NTC"),
        CallsOperator,
    ],
    ids=["ours", "stock", "NTC", "npx.rnn"],
)
def test_blocks_on_numpy_arrays(make, tmp_path):
    with mx.util.np_shape(True), mx.util.np_array(True):
        net = make()
        net.initialize(mx.init.Uniform(0.5))
        compare_block(net, [mx.np.array(X, dtype="float32")], tmp_path / "a.onnx")


class WithLengths(mx.gluon.HybridBlock):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def hybrid_forward(self, F, x, lengths):
        return self.net(x, None, lengths)


@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("lengths", [False, True])
def test_batch_normalisation_in_a_stack(lengths, layout, tmp_path):
    net = fused_rnn.gluon.Stack(
        *(fused_rnn.gluon.GRU(4, layout=layout, use_sequence_length=lengths) for _ in range(2)),
        between=lambda: fused_rnn.gluon.SequenceBatchNorm(layout=layout),
    )
    data = [mx.nd.array(X)]
    if lengths:
        data.append(mx.nd.array([4, 2] if layout == "TNC" else [2, 1, 2, 2]))
        net = WithLengths(net)
    net.initialize(mx.init.Uniform(0.5))
    for _ in range(3):  # so that the statistics are not the initial ones
        with mx.autograd.record():
            net(*data)
    compare_block(net, data, tmp_path / "a.onnx")


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("fix_gamma", [False, True])
def test_batch_normalisation(fix_gamma, axis, tmp_path):
    symbol = mx.sym.BatchNorm(mx.sym.var("data"), fix_gamma=fix_gamma, axis=axis, name="norm")
    size = X.shape[axis]
    params = {f"norm_{name}": RNG.uniform(0.5, 2, size) for name in ("gamma", "beta")}
    params.update({f"norm_moving_{name}": RNG.uniform(0.5, 2, size) for name in ("mean", "var")})
    arrays = {name: mx.nd.array(value) for name, value in params.items()}
    fused_rnn.onnx.export(symbol, arrays, {"data": X.shape}, tmp_path / "a.onnx")
    (found,) = run(tmp_path / "a.onnx", data=X)
    states = {name: arrays.pop(name) for name in list(arrays) if "moving" in name}
    executor = symbol.bind(mx.cpu(), {"data": mx.nd.array(X), **arrays}, aux_states=states)
    (expected,) = executor.forward(is_train=False)
    np.testing.assert_allclose(found, expected.asnumpy(), rtol=0, atol=1e-5)
