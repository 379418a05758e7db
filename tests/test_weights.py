"""Weights in the forms of PyTorch and ONNX: by hand, and against the libraries where installed."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import check, check_outputs, make
from reference import CELLS, GATES, LSTMS, VARIANTS, unpack

from fused_rnn import weights
from fused_rnn.weights import Layout

CASES = [(mode, {"L": L, "D": D}) for mode in CELLS for L in (1, 3) for D in (1, 2)]
PROJECTED = [(m, {"L": L, "D": D, "P": 2}) for m in LSTMS for L in (1, 3) for D in (1, 2)]
OF_TORCH = [case for case in CASES + PROJECTED if case[0] not in VARIANTS]
NAMES = {
    "i2h_weight": "W",
    "h2h_weight": "R",
    "h2r_weight": "Wp",
    "i2h_bias": "bW",
    "h2h_bias": "bR",
    "peephole": "p",
}


def layout_of(shape) -> Layout:
    return Layout(shape.mode, shape.I, shape.H, shape.L, shape.D == 2, shape.P)


@pytest.mark.parametrize("mode, options", CASES + PROJECTED)
def test_parts(mode, options):
    problem = make(mode, **options)
    layout = layout_of(problem.shape)
    parts = layout.split(problem.params)
    expected = unpack(problem.shape, problem.params)
    assert len(parts) == len(expected)
    for name, part in parts.items():
        cell, kind = name.split("_", 1)
        np.testing.assert_array_equal(
            part, expected[int(cell[1:]), "lr".index(cell[0]), NAMES[kind]]
        )
        assert np.shares_memory(part, problem.params)
    np.testing.assert_array_equal(layout.join(parts), problem.params)


def test_names_are_those_of_gluon():
    import mxnet as mx

    layer = mx.gluon.rnn.LSTM(4, num_layers=2, bidirectional=True, projection_size=2, input_size=3)
    shapes = Layout("lstm", 3, 4, 2, True, 2).shapes()
    assert {name: parameter.shape for name, parameter in layer._reg_params.items()} == shapes


# PyTorch


@pytest.mark.parametrize("mode, options", CASES + PROJECTED)
def test_input_size_follows_from_the_length(mode, options):
    problem = make(mode, **options)
    s = problem.shape
    layout = Layout.of_params(problem.params, mode, s.H, s.L, s.D == 2, s.P)
    assert layout == layout_of(s)


@pytest.mark.parametrize("mode, options", OF_TORCH)
def test_torch_and_back(mode, options):
    problem = make(mode, **options)
    layout = layout_of(problem.shape)
    state_dict = weights.to_torch(layout, problem.params)
    found, params = weights.from_torch(state_dict, mode)
    assert found == layout
    np.testing.assert_array_equal(params, problem.params)


def test_torch_names_by_hand():
    layout = Layout("lstm", 3, 4, 2, True, 2)
    params = np.arange(layout.size)
    arrays = weights.to_torch(layout, params)
    parts = layout.split(params)
    pairs = {
        "weight_ih_l0": "l0_i2h_weight",
        "weight_hh_l0_reverse": "r0_h2h_weight",
        "weight_hr_l1": "l1_h2r_weight",
        "bias_ih_l1_reverse": "r1_i2h_bias",
        "bias_hh_l1": "l1_h2h_bias",
    }
    for torch_name, name in pairs.items():
        np.testing.assert_array_equal(arrays[torch_name], parts[name])
    assert len(arrays) == 4 * 5


def test_torch_module_within_another_and_without_biases():
    layout = Layout("gru", 3, 4)
    parts = layout.split(np.arange(layout.size, dtype="float32"))
    state_dict = {
        "embedding.weight": np.zeros((7, 3)),
        "encoder.weight_ih_l0": parts["l0_i2h_weight"],
        "encoder.weight_hh_l0": parts["l0_h2h_weight"],
    }
    found, params = weights.from_torch(state_dict, "gru", prefix="encoder.")
    assert found == layout
    assert params.dtype == np.float32
    np.testing.assert_array_equal(params[:84], np.arange(84))
    assert not params[84:].any()


@pytest.mark.parametrize("mode, options", OF_TORCH)
def test_torch_computes_the_same(mode, options):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    problem = make(mode, **options)
    shape = problem.shape
    kind = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(mode, torch.nn.RNN)
    keywords = {"nonlinearity": mode[4:]} if kind is torch.nn.RNN else {}
    if shape.P:
        keywords["proj_size"] = shape.P
    module = kind(shape.I, shape.H, shape.L, bidirectional=shape.D == 2, **keywords).double()
    arrays = weights.to_torch(layout_of(shape), problem.params)
    module.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    states = [torch.from_numpy(state) for state in problem.inputs[2:]]
    with torch.no_grad():
        y, final = module(
            torch.from_numpy(problem.x), tuple(states) if mode == "lstm" else states[0]
        )
    outputs = [y, *(final if mode == "lstm" else [final])]
    check_outputs([output.numpy() for output in outputs], problem.outputs(), shape)
    found, params = weights.from_torch(module.state_dict(), mode)
    assert found == layout_of(shape)
    np.testing.assert_array_equal(params, problem.params)


# ONNX


@pytest.mark.parametrize("mode, options", CASES)
def test_onnx_and_back(mode, options):
    problem = make(mode, **options)
    shape = problem.shape
    layers = weights.to_onnx(layout_of(shape), problem.params)
    rows = GATES[mode] * shape.H
    for l, layer in enumerate(layers):
        assert layer.W.shape == (shape.D, rows, shape.width(l))
        assert layer.R.shape == (shape.D, rows, shape.H)
        assert layer.B.shape == (shape.D, 2 * rows)
        if mode == "lstm_peephole":
            assert layer.P.shape == (shape.D, 3 * shape.H)
        else:
            assert layer.P is None
    found, params = weights.from_onnx(layers, mode)
    assert found == layout_of(shape)
    np.testing.assert_array_equal(params, problem.params)


@pytest.mark.parametrize("mode, order", [("lstm", "iofg"), ("gru", "zrn"), ("rnn_tanh", "h")])
def test_onnx_gates_by_hand(mode, order):
    """One unit: a row is a gate."""
    ours = {"lstm": "ifgo", "gru": "rzn", "rnn_tanh": "h"}[mode]
    gates = len(ours)
    values = {gate: float(k + 1) for k, gate in enumerate(ours)}
    half = [values[gate] for gate in ours]
    params = np.array(
        half + [10 * v for v in half] + [100 * v for v in half] + [1000 * v for v in half]
    )
    (layer,) = weights.to_onnx(Layout(mode, 1, 1), params)
    expected = np.array([values[gate] for gate in order])
    np.testing.assert_array_equal(layer.W, expected.reshape(1, gates, 1))
    np.testing.assert_array_equal(layer.R, 10 * expected.reshape(1, gates, 1))
    np.testing.assert_array_equal(layer.B[0], np.concatenate([100 * expected, 1000 * expected]))


def test_onnx_peepholes_by_hand():
    layout = Layout("lstm_peephole", 1, 1)
    params = np.concatenate([np.zeros(16), [1.0, 2.0, 3.0]])  # of i, f and o
    (layer,) = weights.to_onnx(layout, params)
    np.testing.assert_array_equal(layer.P, [[1, 3, 2]])
    found, back = weights.from_onnx([tuple(layer)], "lstm_peephole")
    assert found == layout
    np.testing.assert_array_equal(back, params)
    for without in ((*layer[:3], None), layer[:3]):
        _, zeros = weights.from_onnx([without], "lstm_peephole")
        assert zeros.shape == (19,) and not zeros.any()
    _, plain = weights.from_onnx([layer[:3]], "lstm")
    np.testing.assert_array_equal(plain, params[:16])


def test_onnx_without_biases():
    layout = Layout("lstm", 3, 4, 2, True)
    params = np.arange(layout.size, dtype="float64")
    bare = [(layer.W, layer.R, None) for layer in weights.to_onnx(layout, params)]
    found, zeros = weights.from_onnx(bare, "lstm")
    assert found == layout
    biases = 2 * 2 * 2 * 16
    np.testing.assert_array_equal(zeros[:-biases], params[:-biases])
    assert not zeros[-biases:].any()


@pytest.mark.parametrize("mode, options", CASES)
def test_onnx_runtime_computes_the_same(mode, options):
    pytest.importorskip("onnx", reason="onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from onnx import TensorProto, helper, numpy_helper

    problem = make(mode, dtype="float32", **{**options, "L": 1})
    shape = problem.shape
    (layer,) = weights.to_onnx(layout_of(shape), problem.params.astype("float32"))
    states = dict(zip(("initial_h", "initial_c"), problem.inputs[2:]))
    final = ["Y_h", "Y_c"][: len(states)]
    attributes = {"hidden_size": shape.H, "direction": ("forward", "bidirectional")[shape.D - 1]}
    if mode == "gru":
        attributes["linear_before_reset"] = 1  # the default is the other
    if mode == "rnn_relu":
        attributes["activations"] = ["Relu"] * shape.D
    node = helper.make_node(
        mode.split("_")[0].upper(),
        ["x", "W", "R", "B", "", *states, *(["P"] if layer.P is not None else [])],
        ["Y", *final],
        **attributes,
    )
    inputs = {"x": problem.x, **states}
    graph = helper.make_graph(
        [node],
        "layer",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)
            for name, value in inputs.items()
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("Y", *final)],
        [
            numpy_helper.from_array(array, name)
            for name, array in layer._asdict().items()
            if array is not None
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    Y, *states = session.run(
        None, {name: value.astype("float32") for name, value in inputs.items()}
    )
    y = Y.transpose(0, 2, 1, 3).reshape(shape.T, shape.N, -1)
    for actual, expected in zip((y, *states), problem.outputs()):
        check(actual, expected, shape, "float32", what=mode)


# Errors

BAD = {
    "mode": (lambda: Layout("elman", 3, 4), "mode: .*'elman'"),
    "layers": (lambda: Layout("gru", 3, 4, 0), "num_layers: .*0"),
    "projected gru": (lambda: Layout("gru", 3, 4, projection_size=2), "projection_size: .*'gru'"),
    "wide projection": (lambda: Layout("lstm", 3, 4, projection_size=5), "projection_size: .*5"),
    "short vector": (lambda: Layout("gru", 3, 4).split(np.zeros(107)), r"params: .*108.*107"),
    "no such length": (
        lambda: Layout.of_params(np.zeros(107), "gru", 4),
        r"params: .*72 \+ 12 \* \(input size\).*'gru'.*\(107,\)",
    ),
    "too short for any input": (lambda: Layout.of_params(np.zeros(60), "gru", 4), "params: .*72"),
    "matrix": (lambda: Layout.of_params(np.zeros((12, 9)), "gru", 4), r"params: .*\(12, 9\)"),
    "missing part": (lambda: Layout("gru", 3, 4).join({}), "l0_i2h_weight"),
    "part": (
        lambda: Layout("rnn_tanh", 1, 1).join(
            {**Layout("rnn_tanh", 1, 1).split(np.zeros(4)), "l0_i2h_bias": np.zeros(2)}
        ),
        r"l0_i2h_bias'\]: .*\(1,\).*\(2,\)",
    ),
    "no module": (lambda: weights.from_torch({"weight": 1}, "gru"), "weight_ih_l0.*'weight'"),
    "module of another kind": (
        lambda: weights.from_torch(weights.to_torch(Layout("lstm", 3, 4), np.zeros(144)), "gru"),
        "weight_ih_l0'.*'gru'",
    ),
    "further names": (
        lambda: weights.from_torch(
            {**weights.to_torch(Layout("gru", 3, 4), np.zeros(108)), "weight_x": np.zeros(1)}, "gru"
        ),
        "weight_x",
    ),
    "unknown mode": (
        lambda: weights.from_torch(weights.to_torch(Layout("gru", 3, 4), np.zeros(108)), "elman"),
        "mode: .*'elman'",
    ),
    "no projection in ONNX": (
        lambda: weights.to_onnx(Layout("lstm", 3, 4, projection_size=2), np.zeros(1)),
        "projection_size 2",
    ),
    "no such module": (
        lambda: weights.to_torch(Layout("lstm_peephole", 3, 4), np.zeros(156)),
        "layout: .*'lstm_peephole'",
    ),
    "no module of the mode": (
        lambda: weights.from_torch(
            weights.to_torch(Layout("gru", 3, 4), np.zeros(108)), "gru_reset_before"
        ),
        "mode: .*'gru_reset_before'",
    ),
    "peepholes of an lstm without": (
        lambda: weights.from_onnx(
            weights.to_onnx(Layout("lstm_peephole", 3, 4), np.zeros(156)), "lstm"
        ),
        r"layers\[0\]\.P: .*'lstm'.*\(1, 12\)",
    ),
    "peepholes of another size": (
        lambda: weights.from_onnx(
            [(*weights.to_onnx(Layout("lstm", 3, 4), np.zeros(144))[0][:3], np.zeros((1, 8)))],
            "lstm_peephole",
        ),
        r"layers\[0\]\.P: .*\(1, 12\).*\(1, 8\)",
    ),
    "no layers": (lambda: weights.from_onnx([], "gru"), "layers"),
    "node of another kind": (
        lambda: weights.from_onnx(weights.to_onnx(Layout("lstm", 3, 4), np.zeros(144)), "gru"),
        "layers.*B: .*24.*32",
    ),
    "flat weights": (
        lambda: weights.from_onnx([(np.zeros((12, 3)), np.zeros((12, 4)), None)], "gru"),
        r"layers\[0\]: .*\(12, 3\)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_calls(case):
    run, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        run()
