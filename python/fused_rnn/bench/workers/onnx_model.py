"""The ONNX model that ONNX Runtime and OpenVINO run: one recurrent node a layer."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

NODES = {
    "lstm": ("LSTM", {}, ["Sigmoid", "Tanh", "Tanh"]),
    "gru": ("GRU", {"linear_before_reset": 1}, ["Sigmoid", "Tanh"]),
    "rnn_tanh": ("RNN", {}, ["Tanh"]),
    "rnn_relu": ("RNN", {}, ["Relu"]),
}


def feeds(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The model's inputs."""
    named = {name: arrays[name] for name in ("x", "h0", "c0") if name in arrays}
    if "lengths" in arrays:
        named["lengths"] = arrays["lengths"].astype(np.int32)
    return named


def build(problem: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """The serialized model, outputs y, hN and for an LSTM cN."""
    T, N, H, L, D = (problem[letter] for letter in "TNHLD")
    kind, options, activations = NODES[problem["mode"]]
    states = ["h", "c"] if problem["mode"] == "lstm" else ["h"]
    initial = [
        numpy_helper.from_array(array, name)
        for name, array in arrays.items()
        if name.startswith("w:")
    ]
    for l in range(L + 1):
        initial.append(numpy_helper.from_array(np.array([l * D], np.int64), f"begin_{l}"))
    initial.append(numpy_helper.from_array(np.array([T, N, D * H], np.int64), "merged"))
    nodes = []

    def add(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> None:
        nodes.append(helper.make_node(kind, inputs, outputs, **attributes))

    below, lengths = "x", "lengths" if "lengths" in arrays else ""
    for l in range(L):
        for state in states:
            add("Slice", [f"{state}0", f"begin_{l}", f"begin_{l + 1}"], [f"{state}0_{l}"])
        add(
            kind,
            [below, *(f"w:{part}{l}" for part in "WRB"), lengths, *(f"{s}0_{l}" for s in states)],
            [f"sides_{l}", *(f"{s}N_{l}" for s in states)],
            hidden_size=H,
            direction="bidirectional" if D == 2 else "forward",
            activations=activations * D,
            **options,
        )
        below = "y" if l == L - 1 else f"y_{l}"
        add("Transpose", [f"sides_{l}"], [f"swapped_{l}"], perm=[0, 2, 1, 3])  # T, D, N, H
        add("Reshape", [f"swapped_{l}", "merged"], [below])
    for state in states:
        add("Concat", [f"{state}N_{l}" for l in range(L)], [f"{state}N"], axis=0)

    def value(name: str, shape: list[int], kind: int = TensorProto.FLOAT) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    inputs = [value("x", [T, N, problem["I"]]), *(value(f"{s}0", [L * D, N, H]) for s in states)]
    if lengths:
        inputs.append(value("lengths", [N], TensorProto.INT32))
    outputs = [value("y", [T, N, D * H]), *(value(f"{s}N", [L * D, N, H]) for s in states)]
    graph = helper.make_graph(nodes, "layers", inputs, outputs, initial)
    # Old versions of both, so that any release of the runtimes reads them.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    return model.SerializeToString()
