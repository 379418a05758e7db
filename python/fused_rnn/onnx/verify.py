"""Runs an exported model in ONNX Runtime and compares it with MXNet."""

from __future__ import annotations

import json
import warnings
from types import ModuleType
from typing import Any, Mapping

import mxnet as mx
import numpy as np
import onnx

from fused_rnn.convert import flag
from fused_rnn.onnx.graph import LAYERS, evaluate, shapes_of

__all__ = ["find_runtime", "verify"]

_FACTOR = 32
_MASKS = ("SequenceMask", "SequenceLast", "SequenceReverse")
Arrays = Mapping[str, np.ndarray]


def find_runtime(required: bool) -> ModuleType | None:
    """The module onnxruntime; None without it, or an ImportError if it is required."""
    try:
        import onnxruntime
    except ImportError as error:
        if required:
            raise ImportError(
                "check: expected onnxruntime for check=True, found none; install it with: "
                "pip install onnxruntime"
            ) from error
        return None
    return onnxruntime


def verify(
    runtime: ModuleType,
    model: onnx.ModelProto,
    symbol: mx.sym.Symbol,
    params: Mapping[str, mx.nd.NDArray],
    shapes: Mapping[str, tuple[int, ...]],
    types: Mapping[str, np.dtype],
    required: bool,
) -> None:
    """Raises RuntimeError unless the model's outputs are the symbol's, on random inputs.

    shapes and types are those of all variables that are not in params. What ONNX Runtime has no
    kernels for is a warning, or NotImplementedError if the check is required.
    """
    rng = np.random.default_rng(0)
    graph = json.loads(symbol.tojson())
    known = {**{name: value.shape for name, value in params.items()}, **shapes}
    ranges = _ranges(graph, known)
    inputs = {
        name: _random(rng, shape, types[name], ranges.get(name)) for name, shape in shapes.items()
    }
    try:
        found = _run(runtime, model, inputs)
    except Exception as error:  # ONNX Runtime's own types have no other base
        if "NOT_IMPLEMENTED" not in str(error) and "not support" not in str(error):
            raise RuntimeError(
                f"check: ONNX Runtime does not run the exported model, so it was not written: "
                f"{error} (check=False writes it without a run)"
            ) from error
        if required:
            raise NotImplementedError(f"check: ONNX Runtime cannot run this: {error}") from error
        warnings.warn(f"exported without a check: {error}", RuntimeWarning, stacklevel=4)
        return
    used = set(symbol.list_inputs()) - set(inputs)
    values = {**inputs, **{name: params[name].asnumpy() for name in used}}
    expected = _outputs(symbol, values)
    rough = {
        name: value if name in ranges else _roughly(rng, value) for name, value in values.items()
    }
    for info, actual, wanted, other in zip(
        model.graph.output, found, expected, _outputs(symbol, rough)
    ):
        _compare(info.name, actual, wanted, other)


def _ranges(graph: dict[str, Any], shapes: Mapping[str, tuple]) -> dict[str, tuple[int, int]]:
    """The least and the greatest value of variables that must be whole numbers: those that lengths
    and indices follow from.
    """
    nodes = graph["nodes"]
    limited = []  # entry of the lengths or indices, of what they are for, its axis or size, least
    for node in nodes:
        op, attrs, entries = node["op"], node.get("attrs", {}), node["inputs"]
        if op in LAYERS and flag(attrs, "use_sequence_length"):
            limited.append((entries[-1], entries[0], 0, 1))
        elif op in _MASKS and flag(attrs, "use_sequence_length"):
            limited.append((entries[1], entries[0], int(attrs.get("axis", 0)), 1))
        elif op == "Embedding":
            limited.append((entries[0], entries[1], 0, 0))
        elif op == "take":
            limited.append((entries[1], entries[0], int(attrs.get("axis", 0)), 0))
    ranges: dict[str, tuple[int, int]] = {}
    sizes = shapes_of(graph, [of for _, of, _, _ in limited], shapes)
    for ((index, *_), _, axis, least), shape in zip(limited, sizes):
        while nodes[index]["inputs"]:  # casts and so on
            index = nodes[index]["inputs"][0][0]
        name, greatest = nodes[index]["name"], shape[axis] - (least == 0)
        low, high = ranges.get(name, (least, greatest))
        ranges[name] = max(low, least), min(high, greatest)
    return ranges


def _random(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, limits: Any
) -> np.ndarray:
    if limits is None and dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    low, high = limits or (0, 1)
    values = rng.integers(low, high, shape, endpoint=True)
    values.reshape(-1)[:1] = high
    return values.astype(dtype)


def _roughly(rng: np.random.Generator, value: np.ndarray) -> np.ndarray:
    """The array with each element wrong by a rounding."""
    if value.dtype.kind != "f":
        return value
    signs = rng.integers(0, 1, value.shape, endpoint=True) * 2 - 1
    return value * (1 + signs * np.finfo(value.dtype).eps).astype(value.dtype)


def _run(runtime: ModuleType, model: onnx.ModelProto, inputs: Arrays) -> list[np.ndarray]:
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # what it would log as an error is raised as well
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {value.name: inputs[value.name] for value in model.graph.input})


def _outputs(symbol: mx.sym.Symbol, values: Arrays) -> list[np.ndarray]:
    arrays = {name: mx.nd.array(value, dtype=value.dtype) for name, value in values.items()}
    return [output.asnumpy() for output in evaluate(symbol, arrays)]


def _compare(name: str, actual: np.ndarray, expected: np.ndarray, rough: np.ndarray) -> None:
    if actual.shape != expected.shape:
        raise RuntimeError(
            f"check: output '{name}' has shape {actual.shape} in ONNX Runtime and "
            f"{expected.shape} in MXNet, so the model was not written"
        )
    # What overflowed, or is a rounding away from it, tells nothing.
    finite = np.isfinite(expected) & np.isfinite(rough)
    exact = expected.dtype.kind != "f"
    eps = 0 if exact else np.finfo(expected.dtype).eps
    actual, expected, rough = (
        values[finite].astype(np.float64) for values in (actual, expected, rough)
    )
    scale = np.abs(expected).max(initial=0)
    change = 0 if exact else np.abs(rough - expected).max(initial=0)
    tolerance = _FACTOR * (eps * scale + change)
    difference = np.abs(actual - expected).max(initial=0)
    if not difference <= tolerance:
        raise RuntimeError(
            f"check: output '{name}' of the exported model differs from MXNet's by up to "
            f"{difference:.3g}, where {tolerance:.3g} is allowed, so the model was not written "
            "(check=False writes it unseen)"
        )
