"""Exported files, run by ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import mxnet as mx  # noqa: E402
import onnx  # noqa: E402
from helpers import check, check_outputs, make, operator_attributes  # noqa: E402
from reference import CELLS, MODES  # noqa: E402

import fused_rnn  # noqa: E402
import fused_rnn.onnx  # noqa: E402

LSTM_NAMES = ("data", "parameters", "state", "state_cell")


def run(path, **inputs):
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {k: np.asarray(v) for k, v in inputs.items()})


def variables(problem, *also):
    return [mx.sym.var(name) for name in (*LSTM_NAMES[: len(problem.inputs)], *also)]


def values(problem):
    return dict(zip(LSTM_NAMES, (value.astype("float32") for value in problem.inputs)))


NODES = [("FusedRNN", mode) for mode in CELLS] + [("RNN", mode) for mode in MODES]


@pytest.mark.parametrize("op, mode", NODES)
@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("L", [1, 3])
def test_layers_with_states(L, D, op, mode, tmp_path):
    problem = make(mode, N=3, L=L, D=D, dtype="float32")
    symbol = getattr(mx.sym, op)(*variables(problem), name="rnn", **operator_attributes(problem))
    inputs = values(problem)
    params = {"parameters": mx.nd.array(inputs.pop("parameters"))}
    shapes = {name: value.shape for name, value in inputs.items()}
    fused_rnn.onnx.export(symbol, params, shapes, tmp_path / "a.onnx")
    check_outputs(run(tmp_path / "a.onnx", **inputs), problem.outputs(), problem.shape, "float32")


@pytest.mark.parametrize("length_type", ["float32", "int64"])
@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("mode", CELLS)
def test_lengths(mode, D, length_type, tmp_path):
    problem = make(mode, N=3, L=2, D=D, dtype="float32", lengths=[5, 1, 3])
    symbol = fused_rnn.sym.RNN(
        *variables(problem),
        sequence_length=mx.sym.var("lengths"),
        **operator_attributes(problem),
    )
    inputs = values(problem)
    params = {"parameters": mx.nd.array(inputs.pop("parameters"))}
    inputs["lengths"] = np.array(problem.options["lengths"], length_type)
    shapes = {name: value.shape for name, value in inputs.items()}
    types = {"lengths": length_type}
    fused_rnn.onnx.export(symbol, params, shapes, tmp_path / "a.onnx", dtypes=types)
    check_outputs(run(tmp_path / "a.onnx", **inputs), problem.outputs(), problem.shape, "float32")


@pytest.mark.parametrize("mode", MODES)
def test_other_sizes_than_those_exported(mode, tmp_path):
    """Initial states of zero follow the batch; lengths of sequences are free as well."""
    problem = make(mode, T=7, N=4, L=2, D=2, dtype="float32")
    cell = fused_rnn.rnn.FusedRNNCell(4, num_layers=2, mode=mode, bidirectional=True, prefix="")
    symbol, _ = cell.unroll(5, mx.sym.var("data"), layout="TNC", merge_outputs=True)
    fused_rnn.onnx.export(
        symbol,
        {"arg:parameters": mx.nd.array(problem.params)},
        {"data": (5, 2, 3)},
        tmp_path / "a.onnx",
        dynamic_axes={"data": {0: "time", 1: "batch"}},
    )
    zero = problem.replace(h0=problem.h0 * 0, c0=None if problem.c0 is None else problem.c0 * 0)
    (y,) = run(tmp_path / "a.onnx", data=problem.x.astype("float32"))
    check(y, zero.outputs().y, problem.shape, "float32", what="y")


def language_model(recurrent) -> mx.gluon.HybridBlock:
    net = mx.gluon.nn.HybridSequential()
    net.add(
        mx.gluon.nn.Embedding(11, 6),
        mx.gluon.nn.Dropout(0.5),
        recurrent,
        mx.gluon.nn.Dense(11, flatten=False),
    )
    net.initialize(mx.init.Uniform(0.5))
    return net


@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("module", [fused_rnn.gluon, mx.gluon.rnn], ids=["ours", "stock"])
def test_gluon_model(module, kind, layout, tmp_path):
    recurrent = getattr(module, kind)(8, num_layers=2, bidirectional=True, layout=layout)
    net = language_model(recurrent)
    tokens = mx.nd.array(np.random.default_rng(0).integers(0, 11, (5, 3)))
    expected = net(tokens).asnumpy()
    axes = {"data": {0: "first", 1: "second"}}
    fused_rnn.onnx.export(net, None, {"data": (5, 3)}, tmp_path / "a.onnx", dynamic_axes=axes)
    (logits,) = run(tmp_path / "a.onnx", data=tokens.asnumpy())
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5)
    other = tokens[:4, :2]
    (logits,) = run(tmp_path / "a.onnx", data=other.asnumpy())
    np.testing.assert_allclose(logits, net(other).asnumpy(), rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore:NTC layout detected")
def test_saved_module(tmp_path):
    """A checkpoint of Module, whose graph ends in a loss with a label."""
    data = mx.sym.Embedding(mx.sym.var("data"), input_dim=11, output_dim=6, name="embedding")
    cell = mx.rnn.FusedRNNCell(8, num_layers=1, mode="gru", prefix="rnn_")
    outputs, _ = cell.unroll(5, data, layout="NTC", merge_outputs=False)
    last = outputs[-1]
    scores = mx.sym.FullyConnected(last, num_hidden=11, name="scores")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(scores, name="softmax"))
    module.bind([("data", (3, 5))], [("softmax_label", (3,))])
    module.init_params(mx.init.Uniform(0.5))
    module.save_checkpoint(str(tmp_path / "model"), 1)
    symbol, arguments, auxiliary = mx.model.load_checkpoint(str(tmp_path / "model"), 1)
    params = {**arguments, **auxiliary}
    fused_rnn.onnx.export(symbol, params, {"data": (3, 5)}, tmp_path / "a.onnx")
    tokens = np.random.default_rng(0).integers(0, 11, (3, 5)).astype("float32")
    (p,) = run(tmp_path / "a.onnx", data=tokens)
    module.forward(mx.io.DataBatch([mx.nd.array(tokens)]), is_train=False)
    np.testing.assert_allclose(p, module.get_outputs()[0].asnumpy(), rtol=0, atol=1e-6)


def test_outputs_keep_their_order_and_nothing_unused_is_in_the_file(tmp_path):
    problem = make("lstm", L=2, dtype="float32")
    y, h, c = mx.sym.FusedRNN(*variables(problem), name="rnn", **operator_attributes(problem))
    symbol = mx.sym.Group([c, y, h * 2])
    inputs = values(problem)
    params = {
        "parameters": mx.nd.array(inputs.pop("parameters")),
        "of_another_model": mx.nd.ones((3,)),
    }
    shapes = {name: value.shape for name, value in inputs.items()}
    fused_rnn.onnx.export(symbol, params, shapes, tmp_path / "a.onnx")
    expected = problem.outputs()
    for actual, wanted in zip(
        run(tmp_path / "a.onnx", **inputs), (expected.cN, expected.y, 2 * expected.hN)
    ):
        check(actual, wanted, problem.shape, "float32")
    graph = onnx.load(str(tmp_path / "a.onnx")).graph
    used = {name for node in graph.node for name in node.input}
    assert {tensor.name for tensor in graph.initializer} <= used


def test_two_layers_may_share_parameters(tmp_path):
    data, weights = mx.sym.var("data"), mx.sym.var("weights")
    below = mx.sym.FusedRNN(data, weights, mode="gru", state_size=3, num_layers=1, name="a")
    above = mx.sym.FusedRNN(below, weights, mode="gru", state_size=3, num_layers=1, name="b")
    rng = np.random.default_rng(0)
    arrays = {
        "weights": mx.nd.array(rng.uniform(-0.5, 0.5, 72)),
        "a_state": mx.nd.zeros((1, 2, 3)),
        "b_state": mx.nd.ones((1, 2, 3)),
    }
    x = rng.standard_normal((4, 2, 3)).astype("float32")
    fused_rnn.onnx.export(above, arrays, {"data": x.shape}, tmp_path / "a.onnx")
    (y,) = run(tmp_path / "a.onnx", data=x)
    expected = above.eval(ctx=mx.cpu(), data=mx.nd.array(x), **arrays)[0].asnumpy()
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-6)


def test_parameters_that_follow_from_nothing(tmp_path):
    data, weights, h = mx.sym.var("data"), mx.sym.ones((72,)), mx.sym.zeros((1, 2, 3))
    symbol = mx.sym.FusedRNN(data, weights, h, mode="gru", state_size=3, num_layers=1)
    x = np.ones((4, 2, 3), "float32")
    fused_rnn.onnx.export(symbol, {}, {"data": x.shape}, tmp_path / "a.onnx")
    (y,) = run(tmp_path / "a.onnx", data=x)
    expected = symbol.eval(ctx=mx.cpu(), data=mx.nd.array(x))[0].asnumpy()
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-6)


def gru(data="data", **extra):
    options = {"mode": "gru", "state_size": 4, "num_layers": 1, "name": "rnn", **extra}
    return mx.sym.FusedRNN(mx.sym.var(data), **options)


PARAMS = {"rnn_parameters": np.zeros(108), "rnn_state": np.zeros((1, 2, 4))}
CELLS = {**PARAMS, "rnn_parameters": np.zeros(144), "rnn_state_cell": np.zeros((1, 2, 4))}
BAD = {
    "no parameters": (gru(), {"rnn_state": np.zeros((1, 2, 4))}, {}, ValueError, "rnn_parameters"),
    "missing input": (gru(), {"rnn_parameters": np.zeros(108)}, {}, ValueError, "rnn_state"),
    "unknown input": (gru(), PARAMS, {"date": (3,)}, ValueError, "date"),
    "projection": (
        gru(mode="lstm", projection_size=2),
        {**CELLS, "rnn_parameters": np.zeros(120), "rnn_state": np.zeros((1, 2, 2))},
        {},
        NotImplementedError,
        "'rnn' has projection_size",
    ),
    "clipping": (
        gru(mode="lstm", lstm_state_clip_min=0, lstm_state_clip_max=1),
        CELLS,
        {},
        NotImplementedError,
        "lstm_state_clip_min",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_exported(case, tmp_path):
    symbol, params, inputs, error, message = BAD[case]
    params = {name: mx.nd.array(value) for name, value in params.items()}
    with pytest.raises(error, match=message):
        fused_rnn.onnx.export(symbol, params, {"data": (5, 2, 3), **inputs}, tmp_path / "a.onnx")
    assert not (tmp_path / "a.onnx").exists()
