"""The converters that MXNet's exporter calls for our nodes."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np
from mxnet.onnx.mx2onnx._export_onnx import MXNetGraph
from onnx import helper, numpy_helper

from fused_rnn import weights
from fused_rnn._cells import mode_of
from fused_rnn.convert import flag
from fused_rnn.onnx.graph import LAYERS, RANK

__all__ = ["OPSET"]

OPSET = 13  # the newest that MXNet's converters of other operators know
_ZEROS = ("_zeros", "_npi_zeros")


def _layout(name: str, attrs: Mapping[str, str], params: np.ndarray) -> weights.Layout:
    """The layout of the layers' parameters; refuses what ONNX lacks."""
    for option in ("projection_size", "lstm_state_clip_min", "lstm_state_clip_max"):
        none = ("None", "0") if option == "projection_size" else ("None",)
        if attrs.get(option, "None") not in none:
            raise NotImplementedError(f"'{name}' has {option}, which ONNX's recurrent nodes lack")
    return weights.Layout.of_params(
        params,
        mode_of(attrs),
        int(attrs["state_size"]),
        int(attrs["num_layers"]),
        flag(attrs, "bidirectional"),
    )


def _convert_layers(node: Mapping[str, Any], **context: Any) -> tuple[list, tuple]:
    """The nodes for one FusedRNN, and the types of its outputs.

    Names of outputs are the exporter's convention: the node's, followed by 1, 2 for final states.
    """
    name, attrs = node["name"], node["attrs"]
    entries = [(index, context["outputs_lookup"][index][k]) for index, k, _ in node["inputs"]]
    inputs = [entry.name for _, entry in entries]
    dtype = entries[0][1].dtype
    params = context["weights"][inputs[1]]
    layout = _layout(name, attrs, params)
    cell = layout.cell
    D, H = layout.directions, layout.hidden_size
    nodes = []

    def constant(suffix: str, value: Any, dtype: Any = np.int64) -> str:
        array = np.asarray(value, dtype)
        context["initializer"].append(numpy_helper.from_array(array, f"{name}_{suffix}"))
        return f"{name}_{suffix}"

    def add(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, outputs, name=outputs[0], **attributes))
        return outputs[0]

    lengths = ""
    if flag(attrs, "use_sequence_length"):
        int32 = helper.np_dtype_to_tensor_dtype(np.dtype(np.int32))
        lengths = add("Cast", [inputs[-1]], [f"{name}_lengths"], to=int32)
    begins = [constant(f"begin_{l}", [l * D]) for l in range(layout.num_layers + 1)]
    merged = constant("shape", [0, 0, -1])

    def initial(position: int, l: int) -> str:
        """A layer's part of an initial state; zeros are left out, so that N stays free."""
        if context["mx_graph"][entries[position][0]]["op"] in _ZEROS:
            return ""
        part = f"{name}_initial_{position}_{l}"
        return add("Slice", [inputs[position], begins[l], begins[l + 1]], [part])

    below = inputs[0]
    for l, layer in enumerate(weights.to_onnx(layout, params)):
        last = l == layout.num_layers - 1
        weight = {
            key: constant(f"{key}_{l}", array, dtype)
            for key, array in layer._asdict().items()
            if array is not None
        }
        peephole = [weight.pop("P")] if "P" in weight else []
        initials = (initial(2 + k, l) for k in range(len(cell.states)))
        sides = add(
            cell.onnx.node,
            [below, *weight.values(), lengths, *initials, *peephole],
            [f"{name}_Y_{l}", *(f"{name}_Y_{state}_{l}" for state in cell.states)],
            hidden_size=H,
            direction="bidirectional" if D == 2 else "forward",
            activations=list(cell.onnx.activations) * D,
            **cell.onnx.attributes,
        )
        # [T, D, N, H] to [T, N, D*H]
        swapped = add("Transpose", [sides], [f"{name}_swapped_{l}"], perm=[0, 2, 1, 3])
        below = add("Reshape", [swapped, merged], [name if last else f"{name}_below_{l}"])
    if flag(attrs, "state_outputs"):
        for k, state in enumerate(cell.states):
            parts = [f"{name}_Y_{state}_{l}" for l in range(layout.num_layers)]
            add("Concat", parts, [f"{name}{k + 1}"], axis=0)
        return nodes, (dtype,) * (1 + len(cell.states))
    return nodes, (dtype,)


def _convert_batch_norm(node: Mapping[str, Any], **context: Any) -> list:
    """A BatchNorm on any axis as a product and a sum: in predictions its statistics are constants.

    MXNet's converter, which refuses axes but 1 and does not heed fix_gamma, keeps the graphs that
    others than `fused_rnn.onnx.export` give to the exporter.
    """
    name, attrs = node["name"], node["attrs"]
    if RANK not in attrs:
        return MXNetGraph.registry_[12]["BatchNorm"](node, **context)
    inputs = [context["outputs_lookup"][index][k] for index, k, _ in node["inputs"]]
    missing = [entry.name for entry in inputs[1:] if entry.name not in context["weights"]]
    if missing:
        raise ValueError(f"params: {missing}, which '{name}' takes, are missing")
    gamma, beta, mean, variance = (
        context["weights"][entry.name].astype(np.float64) for entry in inputs[1:]
    )
    scale = 1 / np.sqrt(variance + float(attrs.get("eps", 1e-3)))
    if not flag(attrs, "fix_gamma", default=True):
        scale *= gamma
    axis, ndim = int(attrs.get("axis", 1)), int(attrs[RANK])
    shape = (-1, *(1,) * (ndim - 1 - axis % ndim))
    for suffix, values in (("scale", scale), ("shift", beta - mean * scale)):
        array = values.astype(inputs[0].dtype).reshape(shape)
        context["initializer"].append(numpy_helper.from_array(array, f"{name}_{suffix}"))
    return [
        helper.make_node(
            "Mul", [inputs[0].name, f"{name}_scale"], [f"{name}_scaled"], name=f"{name}_scaled"
        ),
        helper.make_node("Add", [f"{name}_scaled", f"{name}_shift"], [name], name=name),
    ]


for _name in LAYERS:
    MXNetGraph.register(_name)(_convert_layers)
MXNetGraph.register("BatchNorm", OPSET)(_convert_batch_norm)
