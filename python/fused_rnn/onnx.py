"""Export of models with fused layers to ONNX files, by MXNet's own exporter.

Needs the package onnx: ``pip install 'fused-rnn[onnx]'``.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from typing import Any, Iterator, Mapping

import mxnet as mx
import numpy as np
import onnx
from mxnet.onnx.mx2onnx._export_onnx import MXNetGraph
from onnx import helper, numpy_helper

from fused_rnn import weights
from fused_rnn.convert import convert

__all__ = ["export"]

_OPSET = 13  # the newest that MXNet's converters of other operators know
_IR_VERSION = 8  # of the same time, so that older runtimes read the file
_CONVERTED = ("FusedRNN", "_npx_fused_rnn")
_ZEROS = ("_zeros", "_npi_zeros")
_NODES = {  # kind, attributes, activations of one direction
    "lstm": ("LSTM", {}, ("Sigmoid", "Tanh", "Tanh")),
    "gru": ("GRU", {"linear_before_reset": 1}, ("Sigmoid", "Tanh")),
    "rnn_tanh": ("RNN", {}, ("Tanh",)),
    "rnn_relu": ("RNN", {}, ("Relu",)),
}


def export(
    model: mx.sym.Symbol | mx.gluon.HybridBlock,
    params: Mapping[str, mx.nd.NDArray] | None,
    inputs: Mapping[str, tuple[int, ...]],
    path: str | os.PathLike[str],
    *,
    dtypes: Mapping[str, Any] | None = None,
    dynamic_axes: Mapping[str, Mapping[int, str]] | None = None,
) -> None:
    """Writes a model as an ONNX file.

    Recurrent layers, FusedRNN and RNN alike, become nodes LSTM, GRU or RNN, one for each layer:
    all modes, both directions, initial and final states, and lengths. Other operators are
    converted by mx.onnx. The final states of a sequence of length 0 are zero in ONNX Runtime, and
    not the initial ones.

    Parameters
    ----------
    model : Symbol or HybridBlock
        What to export.
    params : dict of str to NDArray, or None
        All parameters and auxiliary states, as `mx.nd.load` or {**arg_params, **aux_params} give
        them; None for a block, whose own are taken.
    inputs : dict of str to tuple
        Names and shapes of the other inputs. A label may be left out. A block is called with them
        in this order.
    path : str or path
        Name of the file.
    dtypes : dict of str to dtype, optional
        Types of inputs; float32 by default.
    dynamic_axes : dict of str to dict, optional
        Axes of inputs that are free in the file, and names for them:
        ``{"data": {0: "time", 1: "batch"}}``.

    Raises
    ------
    ValueError
        If an input or parameter is missing or unknown, or the parameters of a layer do not follow
        from params alone.
    NotImplementedError
        For what ONNX's nodes do not have: projections and clipping of the cell state.

    Examples
    --------
    >>> symbol, arg_params, aux_params = mx.model.load_checkpoint("model", 10)
    >>> fused_rnn.onnx.export(
    ...     symbol, {**arg_params, **aux_params}, {"data": (35, 32)}, "model.onnx"
    ... )
    """
    if isinstance(model, mx.gluon.HybridBlock):
        if params is not None:
            raise ValueError("params: expected None with a block, whose own are taken")
        symbol = _traced(model, inputs)
        params = {name: p.data() for name, p in model.collect_params().items()}
    else:
        symbol = model
        if params is None:
            raise ValueError("params: expected a dictionary with a symbol, found None")
    arrays = {
        name.split(":", 1)[-1]: value.as_in_context(mx.cpu()) for name, value in params.items()
    }
    symbol, arrays = _with_constant_parameters(convert(symbol), arrays)
    symbol, label = _with_free_label(symbol, inputs)
    names = _input_names(symbol, arrays, inputs, label)
    given = {name: value.shape for name, value in arrays.items()}
    inferred, _, _ = symbol.infer_shape(**given, **inputs)
    known = {**dict(zip(symbol.list_arguments(), inferred)), **inputs}
    shapes = [tuple(known[name]) for name in names]
    types = [
        helper.np_dtype_to_tensor_dtype(np.dtype((dtypes or {}).get(name, np.float32)))
        for name in names
    ]
    free = {
        "dynamic": dynamic_axes is not None,
        "dynamic_input_shapes": dynamic_axes
        and [
            tuple(dynamic_axes.get(name, {}).get(axis, size) for axis, size in enumerate(shape))
            for name, shape in zip(names, shapes)
        ],
    }
    with _old_opset(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # mx.onnx uses onnx.mapping
        graph = MXNetGraph().create_onnx_graph_proto(
            symbol, arrays, shapes, types, opset_version=_OPSET, **free
        )
        _, outputs = MXNetGraph.get_outputs(symbol, arrays, shapes, "", types)
    _keep_what_is_used(graph, list(inputs), list(outputs))
    onnx_model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="fused_rnn",
    )
    onnx.checker.check_model(onnx_model)
    onnx.save(onnx_model, os.fspath(path))


def _traced(block: mx.gluon.HybridBlock, inputs: Mapping[str, Any]) -> mx.sym.Symbol:
    outputs = block(*map(mx.sym.var, inputs))
    flat, _ = mx.gluon.block._flatten(outputs, "output")
    return mx.sym.Group(flat)


def _with_free_label(
    symbol: mx.sym.Symbol, inputs: Mapping[str, Any]
) -> tuple[mx.sym.Symbol, str | None]:
    """Renames a label that is not among the inputs: the exporter of MXNet 1.9.1 leaves it out by
    its name, and then fails on the loss that takes it. As another input it is simply not used.
    """
    internals = symbol.get_internals()
    label = internals[len(internals) - 1].name + "_label"
    if label in inputs or label not in symbol.list_arguments():
        return symbol, None
    return symbol(**{label: mx.sym.var(f"unused_{label}")}), f"unused_{label}"


def _input_names(
    symbol: mx.sym.Symbol, params: Mapping[str, Any], inputs: Mapping[str, Any], label: str | None
) -> list[str]:
    """The inputs in the symbol's order."""
    names = [name for name in symbol.list_inputs() if name not in params]
    expected = set(names) - {label}
    missing, unknown = sorted(expected - set(inputs)), sorted(set(inputs) - expected)
    if missing or unknown:
        raise ValueError(
            f"inputs: expected a shape for each input that is not in params; {missing} are "
            f"missing, {unknown} are unknown"
        )
    return names


def _with_constant_parameters(
    symbol: mx.sym.Symbol, params: Mapping[str, mx.nd.NDArray]
) -> tuple[mx.sym.Symbol, dict[str, mx.nd.NDArray]]:
    """Makes the parameters of each layer a variable: they may be put together from many, as
    mx.gluon.rnn does.
    """
    graph = json.loads(symbol.tojson())
    nodes, values = graph["nodes"], dict(params)
    for node in nodes:
        if node["op"] not in _CONVERTED:
            continue
        index, output, _ = node["inputs"][1]
        source = nodes[index]
        if source["op"] == "null" and source["name"] in values:
            continue
        part = mx.sym.load_json(json.dumps({**graph, "heads": [[index, output, 0]]}))
        missing = sorted(set(part.list_inputs()) - set(params))
        if missing or output:
            raise ValueError(
                f"params: expected all that the parameters of '{node['name']}' follow from, "
                f"{missing} are missing"
            )
        (values[source["name"]],) = part.eval(
            ctx=mx.cpu(), **{name: params[name] for name in part.list_inputs()}
        )
        nodes[index] = {"op": "null", "name": source["name"], "inputs": []}
    graph["arg_nodes"] = [k for k, node in enumerate(nodes) if node["op"] == "null"]
    folded = mx.sym.load_json(json.dumps(graph))
    used = set(folded.list_inputs())
    return folded, {name: value for name, value in values.items() if name in used}


@contextlib.contextmanager
def _old_opset() -> Iterator[None]:
    """Lets the check within MXNet's exporter judge by the opset that it writes."""
    context = onnx.checker.DEFAULT_CONTEXT
    before = context.opset_imports
    context.opset_imports = {"": _OPSET}
    try:
        yield
    finally:
        context.opset_imports = before


def _keep_what_is_used(graph: onnx.GraphProto, inputs: list[str], outputs: list[str]) -> None:
    """Drops nodes and constants that no output needs, and constants from among the inputs; brings
    the outputs into order.
    """
    found = {output.name: output for output in graph.output}
    needed = set(outputs)
    nodes = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            nodes.append(node)
    given = [value for value in graph.input if value.name in inputs]
    constants = [tensor for tensor in graph.initializer if tensor.name in needed]
    for field, kept in (
        (graph.node, nodes[::-1]),
        (graph.input, given),
        (graph.initializer, constants),
        (graph.output, [found[name] for name in outputs]),
    ):
        del field[:]
        field.extend(kept)


# ---- The converter that MXNet's exporter calls for each of our nodes


def _flag(attrs: Mapping[str, str], name: str) -> bool:
    return attrs.get(name, "False") in ("True", "true", "1")


def _layout(name: str, attrs: Mapping[str, str], params: np.ndarray) -> weights.Layout:
    """The layout of the layers' parameters; refuses what ONNX lacks."""
    for option in ("projection_size", "lstm_state_clip_min", "lstm_state_clip_max"):
        none = ("None", "0") if option == "projection_size" else ("None",)
        if attrs.get(option, "None") not in none:
            raise NotImplementedError(f"'{name}' has {option}, which ONNX's recurrent nodes lack")
    return weights.Layout.of_params(
        params,
        attrs["mode"],
        int(attrs["state_size"]),
        int(attrs["num_layers"]),
        _flag(attrs, "bidirectional"),
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
    kind, options, activations = _NODES[layout.mode]
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
    if _flag(attrs, "use_sequence_length"):
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

    states = ["h", "c"] if layout.mode == "lstm" else ["h"]
    below = inputs[0]
    for l, layer in enumerate(weights.to_onnx(layout, params)):
        last = l == layout.num_layers - 1
        arrays = [constant(f"{key}_{l}", array, dtype) for key, array in layer._asdict().items()]
        sides = add(
            kind,
            [below, *arrays, lengths, *(initial(2 + k, l) for k in range(len(states)))],
            [f"{name}_Y_{l}", *(f"{name}_Y_{state}_{l}" for state in states)],
            hidden_size=H,
            direction="bidirectional" if D == 2 else "forward",
            activations=list(activations) * D,
            **options,
        )
        # [T, D, N, H] to [T, N, D*H]
        swapped = add("Transpose", [sides], [f"{name}_swapped_{l}"], perm=[0, 2, 1, 3])
        below = add("Reshape", [swapped, merged], [name if last else f"{name}_below_{l}"])
    if _flag(attrs, "state_outputs"):
        for k, state in enumerate(states):
            parts = [f"{name}_Y_{state}_{l}" for l in range(layout.num_layers)]
            add("Concat", parts, [f"{name}{k + 1}"], axis=0)
        return nodes, (dtype,) * (1 + len(states))
    return nodes, (dtype,)


for _name in _CONVERTED:
    MXNetGraph.register(_name)(_convert_layers)
