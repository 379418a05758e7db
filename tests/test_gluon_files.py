"""Files of the Gluon layers and of mx.gluon.rnn's, read by each other."""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
from mxnet.gluon import rnn as stock

from fused_rnn import gluon

LAYERS = {
    "rnn": ("RNN", {"activation": "tanh"}),
    "gru": ("GRU", {"num_layers": 2, "bidirectional": True}),
    "lstm": ("LSTM", {"num_layers": 2}),
    "projected": ("LSTM", {"num_layers": 2, "bidirectional": True, "projection_size": 3}),
    "ten layers": ("GRU", {"num_layers": 10}),
}
# More than ten layers are beyond save_parameters of mx.gluon.rnn.
ALL = {**LAYERS, "twelve layers": ("LSTM", {"num_layers": 12})}
WAYS = {"to ours": (stock, gluon), "from ours": (gluon, stock), "ours": (gluon, gluon)}
DATA = mx.nd.array(np.random.default_rng(0).standard_normal((5, 2, 3)))


def network(module, case, input_size=0, **keywords):
    """Two recurrent layers and a dense one; not initialised."""
    kind, options = ALL[case] if isinstance(case, str) else case
    net = mx.gluon.nn.HybridSequential(**keywords)
    with net.name_scope():
        make = getattr(module, kind)
        net.add(make(4, input_size=input_size, **options), make(5, **options))
        net.add(mx.gluon.nn.Dense(2, flatten=False))
    return net


def initialised(module, case, **keywords):
    net = network(module, case, **keywords)
    net.initialize(mx.init.Normal(0.3))
    return net, net(DATA).asnumpy()


def assert_same(net, other):
    ours, theirs = (
        {k[len(n.prefix) :]: v.data() for k, v in gluon.split_params(n).items()}
        for n in (net, other)
    )
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value.asnumpy(), theirs[name].asnumpy(), name)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", LAYERS)
def test_parameters_are_read_back(case, way, tmp_path):
    """C37; the reader knows its sizes or not, and has values already or not."""
    path = str(tmp_path / "net.params")
    writer, reader = WAYS[way]
    net, expected = initialised(writer, case)
    net.save_parameters(path)
    fresh = network(reader, case)
    sized = network(reader, case, input_size=3)
    deferred = network(reader, case)
    deferred.initialize()
    trained, _ = initialised(reader, case)
    for other in (fresh, sized, deferred, trained):
        other.load_parameters(path)
        np.testing.assert_allclose(other(DATA).asnumpy(), expected, atol=1e-6)
        assert_same(net, other)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", ALL)
def test_parameters_by_full_name(case, way, tmp_path):
    """What collect_params().save wrote: names like net_lstm0_l0_i2h_weight."""
    path = str(tmp_path / "net.params")
    writer, reader = WAYS[way]
    net, expected = initialised(writer, case, prefix="net_")
    gluon.split_params(net).save(path)
    other = network(reader, case, prefix="net_")
    gluon.split_params(other).load(path)
    np.testing.assert_allclose(other(DATA).asnumpy(), expected, atol=1e-6)
    assert_same(net, other)
    if writer is gluon:
        net.collect_params().save(path)
        again = network(gluon, case, prefix="net_")
        again.collect_params().load(path)
        assert_same(net, again)


def test_bare_layer_reads_names_without_a_prefix(tmp_path):
    path = str(tmp_path / "layer.params")
    native = stock.LSTM(4, 2, input_size=3)
    native.initialize()
    native.collect_params().save(path, strip_prefix=native.prefix)
    layer = gluon.LSTM(4, 2)
    gluon.split_params(layer).load(path, restore_prefix=layer.prefix)
    assert_same(native, layer)


@pytest.mark.parametrize("case", LAYERS)
def test_more_than_ten_layers(case, tmp_path):
    kind, options = LAYERS[case]
    case = (kind, {**options, "num_layers": 12})
    path = str(tmp_path / "net.params")
    net, expected = initialised(gluon, case)
    net.save_parameters(path)
    other = network(gluon, case)
    other.load_parameters(path)
    np.testing.assert_array_equal(other(DATA).asnumpy(), expected)


@pytest.mark.parametrize("case", ALL)
def test_export(case, tmp_path):
    """The exported model takes data alone, at other batch sizes and lengths too."""
    net, expected = initialised(gluon, case)
    net.hybridize()
    net(DATA)
    path = str(tmp_path / "net")
    net.export(path)
    loaded = mx.gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-0000.params")
    np.testing.assert_array_equal(loaded(DATA).asnumpy(), expected)
    np.testing.assert_allclose(loaded(DATA[:, :1]).asnumpy(), expected[:, :1], atol=1e-6)
    if ALL[case][1].get("bidirectional") is None:
        np.testing.assert_allclose(loaded(DATA[:3]).asnumpy(), expected[:3], atol=1e-6)


@pytest.mark.parametrize("with_states", [False, True])
def test_export_of_a_bare_layer(with_states, tmp_path):
    """The graph is that of the last call: inputs data, or data0, data1 and so on."""
    layer = gluon.LSTM(4, 2)
    layer.initialize()
    layer.hybridize()
    states = layer.begin_state(2, func=mx.nd.ones)
    outputs = (layer(DATA), layer(DATA, states)[0])
    call = (DATA, states) if with_states else (DATA,)
    layer(*call)
    path = str(tmp_path / "layer")
    layer.export(path)
    names = ["data0", "data1", "data2"] if with_states else ["data"]
    loaded = mx.gluon.SymbolBlock.imports(f"{path}-symbol.json", names, f"{path}-0000.params")
    actual = loaded(DATA, *states)[0] if with_states else loaded(DATA)
    np.testing.assert_array_equal(actual.asnumpy(), outputs[with_states].asnumpy())


def test_export_in_numpy_mode(tmp_path):
    with mx.util.np_shape(True), mx.util.np_array(True):
        data = mx.np.ones((5, 2, 3))
        layer = gluon.GRU(4)
        layer.initialize()
        layer.hybridize()
        expected = layer(data).asnumpy()
        path = str(tmp_path / "layer")
        layer.export(path)
        layer.save_parameters(path)
        loaded = mx.gluon.SymbolBlock.imports(
            f"{path}-symbol.json", ["data"], f"{path}-0000.params"
        )
        np.testing.assert_array_equal(loaded(data).asnumpy(), expected)
        other = stock.GRU(4)
        other.load_parameters(path)
        np.testing.assert_allclose(other(data).asnumpy(), expected, atol=1e-6)


def test_other_types(tmp_path):
    path = str(tmp_path / "layer.params")
    layer = gluon.GRU(4, input_size=3)
    layer.initialize()
    layer.save_parameters(path)
    half = gluon.GRU(4, dtype="float16")
    with pytest.raises(AssertionError, match="dtype incompatible"):
        half.load_parameters(path)
    half.load_parameters(path, cast_dtype=True)
    assert half.parameters.dtype == "float16"
    np.testing.assert_array_equal(
        half.parameters.data().asnumpy(), layer.parameters.data().asnumpy().astype("float16")
    )
    half = gluon.GRU(4, dtype="float16")
    half.load_parameters(path, cast_dtype=True, dtype_source="saved")
    assert half.parameters.data().dtype == np.float32


def test_missing_and_extra_parameters(tmp_path):
    path = str(tmp_path / "layer.params")
    one, two = gluon.LSTM(4, input_size=3), gluon.LSTM(4, 2, input_size=3)
    one.initialize()
    one.save_parameters(path)
    with pytest.raises(AssertionError, match=r"'_unfused.1.i2h_weight' is missing"):
        two.load_parameters(path)
    two.load_parameters(path, allow_missing=True)
    two.initialize(mx.init.Constant(3))
    np.testing.assert_array_equal(
        two.l0_h2h_weight.data().asnumpy(), one.l0_h2h_weight.data().asnumpy()
    )
    assert (two.l1_h2h_weight.data().asnumpy() == 3).all()
    two.save_parameters(path)
    with pytest.raises(ValueError, match="not present"):
        one.load_parameters(path)
    one.load_parameters(path, ignore_extra=True)
    with pytest.raises(AssertionError, match="shape incompatible"):
        gluon.LSTM(5, 2).load_parameters(path)


def test_shared_parameters_are_saved_once(tmp_path):
    path = str(tmp_path / "net.params")
    first = gluon.GRU(3, input_size=3)
    net = mx.gluon.nn.HybridSequential()
    net.add(first, gluon.GRU(3, input_size=3, params=first.params))
    net.initialize()
    net.save_parameters(path, deduplicate=True)
    assert len(mx.nd.load(path)) == 4
    expected = net(DATA).asnumpy()
    net.initialize(mx.init.One(), force_reinit=True)
    net.load_parameters(path)
    np.testing.assert_array_equal(net(DATA).asnumpy(), expected)


def test_model_structure_is_saved_and_loaded(tmp_path):
    """Block.save and Block.load."""
    path = str(tmp_path / "net")
    net, expected = initialised(gluon, "lstm")
    net.save(path)
    other = network(gluon, "lstm")
    other.load(path)
    np.testing.assert_array_equal(other(DATA).asnumpy(), expected)
