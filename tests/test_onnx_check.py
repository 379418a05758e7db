"""The check of an exported model before it is written."""

from __future__ import annotations

import os
import sys
import threading

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import mxnet as mx  # noqa: E402
import onnx  # noqa: E402

import fused_rnn  # noqa: E402
import fused_rnn.onnx  # noqa: E402
from fused_rnn.onnx import exporter, operators, verify  # noqa: E402

SHAPES = {"data": (5, 2, 3)}


def layer(dtype="float32"):
    symbol = mx.sym.FusedRNN(
        mx.sym.var("data"), mode="lstm", state_size=4, num_layers=2, name="rnn", state_outputs=True
    )
    values = np.random.default_rng(0).uniform(-0.5, 0.5, 304)
    params = {"rnn_parameters": mx.nd.array(values, dtype=dtype)}
    states = {f"rnn_{name}": mx.nd.ones((2, 2, 4), dtype=dtype) for name in ("state", "state_cell")}
    return symbol, {**params, **states}


def spoil(monkeypatch, change):
    """Lets the converter of layers make wrong files."""
    right = operators.weights.to_onnx

    def wrong(layout, params):
        return [part._replace(R=change(part.R)) for part in right(layout, params)]

    monkeypatch.setattr(operators.weights, "to_onnx", wrong)


@pytest.mark.parametrize("check", [None, True])
@pytest.mark.parametrize("error", [1e-3, 1.0])
def test_a_wrong_model_is_not_written(error, check, tmp_path, monkeypatch):
    path = tmp_path / "a.onnx"
    spoil(monkeypatch, lambda R: R * (1 + error))
    message = r"check: output 'rnn' .*differs from MXNet's by up to .* allowed.*not written"
    with pytest.raises(RuntimeError, match=message):
        fused_rnn.onnx.export(*layer(), SHAPES, path, check=check)
    assert not list(tmp_path.iterdir())
    path.write_bytes(b"a good file")
    with pytest.raises(RuntimeError, match=message):
        fused_rnn.onnx.export(*layer(), SHAPES, path, check=check)
    assert path.read_bytes() == b"a good file"
    fused_rnn.onnx.export(*layer(), SHAPES, path, check=False)
    onnx.checker.check_model(onnx.load(str(path)))


def test_not_a_number_is_wrong(tmp_path, monkeypatch):
    spoil(monkeypatch, lambda R: R * np.nan)
    with pytest.raises(RuntimeError, match="check: output 'rnn'"):
        fused_rnn.onnx.export(*layer(), SHAPES, tmp_path / "a.onnx")


def test_what_is_not_finite_in_mxnet_does_not_count(tmp_path):
    symbol = mx.sym.log(mx.sym.var("data"), name="log")  # of negative numbers too
    fused_rnn.onnx.export(symbol, {}, SHAPES, tmp_path / "a.onnx", check=True)


def test_a_model_that_does_not_run_is_not_written(tmp_path, monkeypatch):
    """Indices out of range, as if those of this operator were not known to be some."""
    monkeypatch.setattr(verify, "_ranges", lambda *_: {})
    symbol = mx.sym.Embedding(mx.sym.var("data"), input_dim=1, output_dim=2, name="embedding")
    arguments = (symbol, {"embedding_weight": mx.nd.ones((1, 2))}, {"data": (9,)})
    types = {"data": "int32"}
    with pytest.raises(RuntimeError, match="check: ONNX Runtime does not run .*check=False"):
        fused_rnn.onnx.export(*arguments, tmp_path / "a.onnx", dtypes=types)
    assert not list(tmp_path.iterdir())
    fused_rnn.onnx.export(*arguments, tmp_path / "a.onnx", dtypes=types, check=False)


def test_without_onnxruntime(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match="check=True.*pip install onnxruntime"):
        fused_rnn.onnx.export(*layer(), SHAPES, tmp_path / "a.onnx", check=True)
    assert not list(tmp_path.iterdir())
    fused_rnn.onnx.export(*layer(), SHAPES, tmp_path / "a.onnx")
    onnx.checker.check_model(onnx.load(str(tmp_path / "a.onnx")))


def test_what_onnxruntime_has_no_kernels_for(tmp_path):
    arguments = (*layer("float64"), SHAPES, tmp_path / "a.onnx")
    with pytest.raises(NotImplementedError, match="check: .*double"):
        fused_rnn.onnx.export(*arguments, dtypes={"data": "float64"}, check=True)
    assert not list(tmp_path.iterdir())
    with pytest.warns(RuntimeWarning, match="without a check: .*double"):
        fused_rnn.onnx.export(*arguments, dtypes={"data": "float64"})
    assert (tmp_path / "a.onnx").exists()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_large_right_model_passes(kind, dtype, tmp_path):
    net = getattr(fused_rnn.gluon, kind)(64, 3, bidirectional=True, dtype=dtype, input_size=32)
    net.initialize(mx.init.Uniform(0.1))
    types, shapes = {"data": dtype}, {"data": (100, 4, 32)}
    fused_rnn.onnx.export(net, None, shapes, tmp_path / "a.onnx", dtypes=types, check=True)


@pytest.fixture
def given(monkeypatch):
    """The inputs that checks ran on."""
    seen = {}
    original = verify._run

    def run(runtime, model, inputs):
        seen.update(inputs)
        return original(runtime, model, inputs)

    monkeypatch.setattr(verify, "_run", run)
    return seen


class Tagger(mx.gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.embedding = mx.gluon.nn.Embedding(7, 3)
        self.layer = fused_rnn.gluon.GRU(4, layout="NTC", use_sequence_length=True)

    def hybrid_forward(self, F, tokens, lengths, scale):
        lengths = F.reshape(F.cast(lengths, "int32"), (-1,))
        return F.broadcast_mul(self.layer(self.embedding(tokens), None, lengths), scale)


@pytest.mark.parametrize("token_type", ["int32", "int64", "float32"])
def test_inputs_are_valid(token_type, given, tmp_path):
    net = Tagger()
    net.initialize()
    shapes = {"tokens": (40, 5), "lengths": (40, 1), "scale": (1, 1, 4)}
    net(*(mx.nd.ones(shape) for shape in shapes.values()))
    types = {"tokens": token_type, "lengths": "int64"}
    fused_rnn.onnx.export(net, None, shapes, tmp_path / "a.onnx", dtypes=types, check=True)
    assert {name: value.shape for name, value in given.items()} == shapes
    assert {name: value.dtype for name, value in given.items()} == {**types, "scale": "float32"}
    assert set(np.unique(given["tokens"])) == set(range(7))
    assert set(np.unique(given["lengths"])) == set(range(1, 6))
    assert given["scale"].std() > 0.1


def test_a_label_does_without(tmp_path):
    scores = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="scores")
    symbol = mx.sym.SoftmaxOutput(scores, name="softmax")
    params = {"scores_weight": mx.nd.ones((3, 5)), "scores_bias": mx.nd.arange(3)}
    fused_rnn.onnx.export(symbol, params, {"data": (2, 5)}, tmp_path / "a.onnx", check=True)


def test_the_check_of_onnx_is_as_before(tmp_path):
    before = list(onnx.checker.DEFAULT_CONTEXT.opset_imports.items())

    def export(k):
        for _ in range(5):
            fused_rnn.onnx.export(*layer(), SHAPES, tmp_path / f"{k}.onnx", check=False)

    threads = [threading.Thread(target=export, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(onnx.checker.DEFAULT_CONTEXT.opset_imports.items()) == before
    assert len(list(tmp_path.iterdir())) == 4


def test_a_child_forked_during_an_export(tmp_path):
    """It has neither the thread that held the lock nor, so, anyone to free it."""
    before = list(onnx.checker.DEFAULT_CONTEXT.opset_imports.items())
    held, done = threading.Event(), threading.Event()

    def hold():
        with exporter._old_opset():
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            same = list(onnx.checker.DEFAULT_CONTEXT.opset_imports.items()) == before
            code = 0 if same and exporter._exporting.acquire(timeout=60) else 2
        finally:
            os._exit(code)
    done.set()
    thread.join()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
