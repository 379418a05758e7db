"""Export of models with fused layers, by MXNet's own exporter."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from types import ModuleType
from typing import Any, Iterator, Mapping

import mxnet as mx
import numpy as np
import onnx
from mxnet.onnx.mx2onnx._export_onnx import MXNetGraph
from mxnet.util import is_np_array
from onnx import helper

from fused_rnn.convert import convert
from fused_rnn.onnx.graph import Prepared, restore, unlabelled
from fused_rnn.onnx.operators import OPSET
from fused_rnn.onnx.verify import find_runtime, verify

__all__ = ["export"]

_IR_VERSION = 8  # of the time of OPSET, so that older runtimes read the file


def export(
    model: mx.sym.Symbol | mx.gluon.HybridBlock,
    params: Mapping[str, mx.nd.NDArray] | None,
    inputs: Mapping[str, tuple[int, ...]],
    path: str | os.PathLike[str],
    *,
    dtypes: Mapping[str, Any] | None = None,
    dynamic_axes: Mapping[str, Mapping[int, str]] | None = None,
    check: bool | None = None,
) -> None:
    """Writes a model as an ONNX file.

    Recurrent layers, FusedRNN and RNN alike, become nodes LSTM, GRU or RNN, one for each layer:
    all modes, both directions, initial and final states, and lengths. Other operators are
    converted by mx.onnx, BatchNorm by a product and a sum. The final states of a sequence of length
    0 are zero in ONNX Runtime, and not the initial ones.

    Inputs and parameters have their own names in the file. An output is named after its node,
    "rnn", and those behind it "rnn1", "rnn2". A name that is taken by then gets _2, _3 and so on at
    its end: inputs and parameters come first, then outputs in their order, then what is within in
    the order of the graph. So ``layer(layer(x))`` gives its layer's name to the outer call.

    ONNX Runtime, where it is installed, runs the model on random inputs before the file is written,
    and MXNet runs it too. Inputs that are lengths or indices (of Embedding, take) are whole numbers
    in their range, other integers 0 and 1. Outputs may differ by
    32 * (eps * max|y| + max|y' - y|), where y' are MXNet's when all inputs and parameters are wrong
    by the rounding eps of their type.

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
    check : bool, optional
        Whether to run and compare the model before it is written; by default, if onnxruntime is
        installed. Without a check go models that ONNX Runtime has no kernels for (float64), with a
        warning, or, with True, an error. False is for models that draw random numbers, or whose
        inputs must be of a kind that this does not know.

    Raises
    ------
    ValueError
        If an input or parameter is missing or unknown, two variables have one name, or the
        parameters of a layer do not follow from params alone.
    NotImplementedError
        For what ONNX's nodes do not have: projections and clipping of the cell state. With
        check=True also for what ONNX Runtime does not run.
    RuntimeError
        If the check failed. There is no file then, or the one that was there before.
    ImportError
        For check=True without onnxruntime.

    Examples
    --------
    >>> symbol, arg_params, aux_params = mx.model.load_checkpoint("model", 10)
    >>> fused_rnn.onnx.export(
    ...     symbol, {**arg_params, **aux_params}, {"data": (35, 32)}, "model.onnx"
    ... )
    """
    runtime = None if check is False else find_runtime(required=bool(check))
    if isinstance(model, mx.gluon.HybridBlock):
        if params is not None:
            raise ValueError("params: expected None with a block, whose own are taken")
        model, params = (
            _traced(model, inputs),
            {name: p.data() for name, p in model.collect_params().items()},
        )
    elif params is None:
        raise ValueError("params: expected a dictionary with a symbol, found None")
    # Legacy semantics for all that follows: in a graph of NumPy's a size of 0 is still unknown.
    with mx.util.np_array(False), mx.util.np_shape(False):
        onnx_model = _made(model, params, inputs, dtypes, dynamic_axes, runtime, bool(check))
    onnx.save(onnx_model, os.fspath(path))


def _traced(block: mx.gluon.HybridBlock, inputs: Mapping[str, Any]) -> mx.sym.Symbol:
    symbols = [mx.sym.var(name) for name in inputs]
    outputs = block(*(s.as_np_ndarray() if is_np_array() else s for s in symbols))
    flat, _ = mx.gluon.block._flatten(outputs, "output")
    return mx.sym.Group([output.as_nd_ndarray() for output in flat])


def _made(
    model: mx.sym.Symbol,
    params: Mapping[str, mx.nd.NDArray],
    inputs: Mapping[str, tuple[int, ...]],
    dtypes: Mapping[str, Any] | None,
    dynamic_axes: Mapping[str, Mapping[int, str]] | None,
    runtime: ModuleType | None,
    required: bool,
) -> onnx.ModelProto:
    """The ONNX model of a symbol, checked if there is a runtime."""
    symbol = convert(model.as_nd_ndarray() if isinstance(model, mx.sym.np._Symbol) else model)
    arrays = {
        name.split(":", 1)[-1]: value.as_nd_ndarray().as_in_context(mx.cpu())
        for name, value in params.items()
    }
    prepared = Prepared.of(symbol, arrays)
    names = _input_names(prepared, inputs, unlabelled(symbol))
    given = {name: value.shape for name, value in prepared.params.items()}
    inferred, _, _ = prepared.symbol.infer_shape(**given, **inputs)
    known = {**dict(zip(prepared.symbol.list_arguments(), inferred)), **inputs}
    shapes = {name: tuple(known[name]) for name in names}
    types = {name: np.dtype((dtypes or {}).get(name, np.float32)) for name in names}
    prepared.note_ranks({**given, **shapes})
    onnx_model = helper.make_model(
        _exported(prepared, inputs, shapes, types, dynamic_axes),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
        producer_name="fused_rnn",
    )
    onnx.checker.check_model(onnx_model)
    if runtime is not None:
        verify(runtime, onnx_model, symbol, arrays, shapes, types, required)
    return onnx_model


def _input_names(
    model: Prepared, inputs: Mapping[str, tuple[int, ...]], optional: set[str]
) -> list[str]:
    """The inputs in the symbol's order."""
    names = [name for name in model.symbol.list_inputs() if name not in model.params]
    missing = sorted(set(names) - set(inputs) - optional)
    unknown = sorted(set(inputs) - set(names))
    if missing or unknown:
        raise ValueError(
            f"inputs: expected a shape for each input that is not in params; {missing} are "
            f"missing, {unknown} are unknown"
        )
    return names


def _exported(
    model: Prepared,
    inputs: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    types: Mapping[str, np.dtype],
    dynamic_axes: Mapping[str, Mapping[int, str]] | None,
) -> onnx.GraphProto:
    """The graph that MXNet's exporter makes of a model, under the model's own names."""
    free = {"dynamic": dynamic_axes is not None}
    if dynamic_axes is not None:
        free["dynamic_input_shapes"] = [
            tuple(dynamic_axes.get(name, {}).get(axis, size) for axis, size in enumerate(shape))
            for name, shape in shapes.items()
        ]
    kinds = [helper.np_dtype_to_tensor_dtype(dtype) for dtype in types.values()]
    try:
        with _old_opset(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # mx.onnx uses onnx.mapping
            graph = MXNetGraph().create_onnx_graph_proto(
                model.symbol,
                model.params,
                list(shapes.values()),
                kinds,
                opset_version=OPSET,
                **free,
            )
    except Exception as error:
        error.args = tuple(model.plain(a) if isinstance(a, str) else a for a in error.args)
        raise
    restore(graph, model, inputs)
    return graph


# ---- The context by which the check within MXNet's exporter judges; the process has but one

_context = onnx.checker.DEFAULT_CONTEXT
_exporting = threading.Lock()
_opsets = _context.opset_imports


@contextlib.contextmanager
def _old_opset() -> Iterator[None]:
    """Lets that check judge by the opset that is written."""
    global _opsets
    with _exporting:
        _opsets = _context.opset_imports
        _context.opset_imports = {"": OPSET}
        try:
            yield
        finally:
            _context.opset_imports = _opsets


def _forget_exports() -> None:
    """In a forked child, where the thread that was exporting is no more."""
    global _exporting
    if _exporting.locked():
        _context.opset_imports = _opsets
        _exporting = threading.Lock()


os.register_at_fork(after_in_child=_forget_exports)
