"""Arguments of the functions on NumPy arrays: what is converted, and what is refused by name."""

from __future__ import annotations

import copy
import pickle

import mxnet as mx
import numpy as np
import pytest
from helpers import run_code

from fused_rnn import Stream, functional, gluon, rnn, weights

PARAMS = np.linspace(-0.5, 0.5, 108, dtype="float32")
X = np.linspace(-1, 1, 30, dtype="float32").reshape(5, 2, 3)


BFLOAT16 = np.dtype([("bfloat16", np.uint16)])  # as MXNet has it


class Exporter:
    """Has one way to give its array away."""

    def __init__(self, array, how):
        setattr(type(self), how, lambda _, *args, **kwargs: getattr(array, how)(*args, **kwargs))
        if how == "__dlpack__":
            type(self).__dlpack_device__ = lambda _: array.__dlpack_device__()


def exporter(how):
    return lambda array: type("One", (Exporter,), {})(np.array(array), how)


KINDS = {
    "mx.nd": lambda array: mx.nd.array(array, dtype=array.dtype),
    "mx.np": lambda array: mx.np.array(array, dtype=array.dtype),
    "__array__": exporter("__array__"),
    "__dlpack__": exporter("__dlpack__"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_other_kinds(kind):
    other = KINDS[kind]
    expected = functional.gru(X, PARAMS, hidden_size=4, lengths=[5, 3], training=True)
    head = np.ones_like(expected.y)
    found = functional.gru(
        other(X),
        other(PARAMS),
        hidden_size=4,
        lengths=other(np.array([5, 3], "int32")),
        training=True,
    )
    assert all(type(array) is np.ndarray for array in found)
    np.testing.assert_array_equal(found.y, expected.y)
    gradients = found.backward(other(head))
    np.testing.assert_array_equal(gradients.params, expected.backward(head).params)

    stream = Stream("gru", other(PARAMS), hidden_size=4, batch_size=2)
    plain = Stream("gru", PARAMS, hidden_size=4, batch_size=2)
    stream.states = [other(np.ones((1, 2, 4), "float32"))]
    plain.states = [np.ones((1, 2, 4), "float32")]
    assert type(stream(other(X))) is np.ndarray
    np.testing.assert_array_equal(stream.states[0], (plain(X), plain.states[0])[1])

    layout = weights.Layout("gru", 3, 4)
    parts = {name: other(part) for name, part in layout.split(other(PARAMS)).items()}
    np.testing.assert_array_equal(layout.join(parts), PARAMS)


@pytest.mark.parametrize(
    "x, words",
    [
        (None, ("x", "None")),
        ([[[1.0], [1.0, 2.0]]], ("x", "ragged")),
        (np.array([object()]), ("x", "object")),
        ("abc", ("x", "str")),
        (mx.nd.ones((5, 2, 3)).astype(BFLOAT16), ("x", "bfloat16", "astype")),
    ],
)
def test_what_is_no_array_is_named(x, words):
    stream = Stream("gru", PARAMS, hidden_size=4, batch_size=2)
    for call in (lambda: functional.gru(x, PARAMS, hidden_size=4), lambda: stream(x)):
        with pytest.raises(ValueError) as caught:
            call()
        for word in words:
            assert word in str(caught.value)


def test_another_dtype_is_named():
    stream = Stream("gru", PARAMS, hidden_size=4, batch_size=2)
    with pytest.raises(ValueError, match=r"^x: expected dtype float32.*found float64.*astype"):
        stream(X.astype("float64"))
    with pytest.raises(ValueError, match=r"^params: expected dtype float32.*found float64"):
        functional.gru(X, PARAMS.astype("float64"), hidden_size=4)
    h0 = np.zeros((1, 2, 4), "float32")
    with pytest.raises(ValueError, match=r"^x: expected dtype float32.*found float64"):
        functional.gru(X.astype("float64"), PARAMS, h0)


def test_one_wanted_gradient_by_its_name():
    outputs = functional.gru(X, PARAMS, hidden_size=4, training=True)
    gradients = outputs.backward(np.ones_like(outputs.y), wanted="params")
    assert [g is None for g in gradients] == [True, False, True, True]
    with pytest.raises(ValueError, match="wanted: .*'weights'"):
        outputs.backward(wanted="weights")


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda stream: pickle.loads(pickle.dumps(stream)),
}


@pytest.mark.parametrize("how", COPIES)
def test_copies_of_a_stream(how):
    stream = Stream("gru", PARAMS, hidden_size=4, batch_size=2)
    stream(X)
    other = COPIES[how](stream)
    np.testing.assert_array_equal(other.states[0], stream.states[0])
    before = stream.states[0]
    y = other(X)
    other.reset()
    np.testing.assert_array_equal(stream.states[0], before)
    np.testing.assert_array_equal(stream(X), y)


SIZES = [("hidden_size", -1), ("hidden_size", 0), ("num_layers", -1), ("num_layers", 0)]
SIZES += [("hidden_size", 4.0), ("num_layers", 1.5), ("num_layers", "2")]
SIZES += [("hidden_size", 1 << 40), ("num_layers", 1 << 40)]
MAKERS = {
    "functional": lambda **sizes: functional.gru(X, PARAMS, **sizes),
    "Stream": lambda **sizes: Stream("gru", PARAMS, **sizes),
    "Layout": lambda **sizes: weights.Layout("gru", 3, **sizes),
    "LSTM": gluon.LSTM,
    "GRU": gluon.GRU,
    "RNN": gluon.RNN,
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name, value", SIZES)
def test_bad_sizes_are_named(name, value, maker):
    with pytest.raises(ValueError, match=rf"^{name}: expected"):
        MAKERS[maker](**{"hidden_size": 4, name: value})


@pytest.mark.parametrize("name, value", SIZES)
def test_bad_sizes_of_a_cell_are_named(name, value):
    name = {"hidden_size": "num_hidden"}.get(name, name)
    with pytest.raises(ValueError, match=rf"^{name}: expected"):
        rnn.FusedRNNCell(**{"num_hidden": 4, name: value})


def test_a_projection_that_is_wider_is_refused():
    gluon.LSTM(4, projection_size=4)
    for size in (5, -1):
        with pytest.raises(ValueError, match=f"^projection_size: .* 4, found {size}"):
            gluon.LSTM(4, projection_size=size)


def test_lengths_have_no_gradient_in_batch_norm():
    norm = gluon.SequenceBatchNorm()
    norm.initialize()
    x, lengths = mx.nd.array(X), mx.nd.array([5, 3])
    lengths.attach_grad()
    lengths.grad[:] = 7
    x.attach_grad()
    with mx.autograd.record():
        y = norm(x, lengths)
    y.backward()
    np.testing.assert_array_equal(lengths.grad.asnumpy(), 0)


BLOCKS = {
    "layer": lambda: gluon.LSTM(4, num_layers=2),
    "stack": lambda: gluon.Stack(gluon.GRU(4), gluon.RNN(3), between=gluon.SequenceBatchNorm),
    "dropout": lambda: gluon.VariationalDropout(gluon.LSTM(4), 0.5, 0.5),
}


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("kind", BLOCKS)
def test_copies_of_a_block(kind, hybridize, called, how):
    block, x = BLOCKS[kind](), mx.nd.array(X)
    block.initialize()
    if hybridize:
        block.hybridize()
    if called:
        block(x)
    other = COPIES[how](block)
    assert other(x).shape == block(x).shape
    if called:
        np.testing.assert_array_equal(other(x).asnumpy(), block(x).asnumpy())
    assert other._active == hybridize
    before = block(x).asnumpy()
    other.initialize(mx.init.Zero(), force_reinit=True)
    np.testing.assert_array_equal(block(x).asnumpy(), before)
    assert (other(x).asnumpy() != before).any()


def test_positional_lengths_under_install_after_amp():
    run_code(
        """
import mxnet as mx, fused_rnn
from mxnet.contrib import amp
amp.init("float16")
fused_rnn.install()
names = ("data", "parameters", "state", "lengths")
symbol = mx.sym.RNN(*map(mx.sym.var, names), mode="gru", state_size=4, num_layers=1,
                    use_sequence_length=True, name="rnn")
arrays = [mx.nd.ones(shape) for shape in ((5, 2, 3), (108,), (1, 2, 4))]
y, = symbol.eval(ctx=mx.cpu(), **dict(zip(names, [*arrays, mx.nd.array([5, 3])])))
y = y.asnumpy()
assert (y[3:, 1] == 0).all() and (y[3:, 0] != 0).all()
"""
    )
