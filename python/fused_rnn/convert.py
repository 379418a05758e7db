"""Moves loaded models to the fused operator and back, without `install`."""

from __future__ import annotations

import json
from typing import Any, Mapping, TypeVar

import mxnet as mx
from mxnet.gluon import rnn as stock

from fused_rnn import ndarray as fused_nd
from fused_rnn import symbol as fused_sym
from fused_rnn._amp import exact_lengths
from fused_rnn._cells import CELL_ATTRIBUTE
from fused_rnn.gluon.base import FusedLayer

__all__ = ["convert"]

Model = TypeVar("Model", mx.sym.Symbol, mx.gluon.Block)


def convert(model: Model, reverse: bool = False) -> Model:
    """Makes the recurrent layers of a model run on the fused operator.

    Names, shapes and parameters stay as they are, so the model's parameter files fit before and
    after.

    Parameters
    ----------
    model : Symbol or Block
        A symbol gives a new symbol, in which each RNN is a FusedRNN, also within control flow
        operators. A block is changed and returned: the graph of a SymbolBlock is rewritten, and the
        layers of mx.gluon.rnn in it call the other operator from now on. Blocks that were
        hybridized are traced again at the next call. A block whose own code calls F.RNN is out of
        reach: use `fused_rnn.install` for it. Where mx.contrib.amp cast lengths of sequences, which
        float16 does not hold beyond 2048, the casts are taken out.
    reverse : bool
        Moves FusedRNN to RNN instead. A cell that MXNet lacks, a peephole LSTM or a GRU that resets
        before the product, is refused. Layers of `fused_rnn.gluon` have no native counterpart and
        stay: load their parameters into one of mx.gluon.rnn.

    Returns
    -------
    Symbol or Block
        The new symbol, or the same block.

    Raises
    ------
    TypeError
        If the model is neither a symbol nor a block.
    ValueError
        If reverse meets a cell that MXNet lacks; the message names the node.

    Examples
    --------
    >>> symbol, args, aux = mx.model.load_checkpoint("model", 10)
    >>> module = mx.mod.Module(fused_rnn.convert(symbol))

    >>> net = mx.gluon.SymbolBlock.imports("net-symbol.json", ["data"], "net-0000.params")
    >>> net = fused_rnn.convert(net)
    """
    if isinstance(model, mx.sym.Symbol):
        return _converted_symbol(model, reverse)
    if isinstance(model, mx.gluon.Block):
        if reverse:
            model.apply(_check_block)  # before any is changed
        model.apply(lambda block: _convert_block(block, reverse))
        return model
    raise TypeError(f"model: expected a Symbol or a Block, found {type(model).__name__}")


def flag(attrs: Mapping[str, str], name: str, default: bool = False) -> bool:
    """A boolean attribute of a node."""
    return attrs.get(name, str(default)) in ("True", "true", "1")


def _converted_symbol(symbol: mx.sym.Symbol, reverse: bool) -> mx.sym.Symbol:
    graph = json.loads(symbol.tojson(remove_amp_cast=False))
    if reverse:
        _check_cells(graph)
        _rename(graph, "FusedRNN", "RNN")
    else:
        _rename(graph, "RNN", "FusedRNN")
        _take_casts_from_lengths(graph)
    converted = mx.sym.load_json(json.dumps(graph, ensure_ascii=False))  # it knows no \u escapes
    return converted.as_np_ndarray() if isinstance(symbol, mx.sym.np._Symbol) else converted


def _check_block(block: mx.gluon.Block) -> None:
    if isinstance(block, mx.gluon.SymbolBlock):
        _check_cells(json.loads(block._cached_graph[1].tojson()))


def _check_cells(graph: dict[str, Any]) -> None:
    """Raises ValueError for a cell that the native operator lacks."""
    for node in graph["nodes"]:
        cell = node.get("attrs", {}).get(CELL_ATTRIBUTE) if node["op"] == "FusedRNN" else None
        if cell is not None:
            raise ValueError(
                f"model: expected cells that MXNet's RNN has, found '{cell}' in '{node['name']}'"
            )
        for subgraph in node.get("subgraphs", ()):
            _check_cells(subgraph)


def _rename(graph: dict[str, Any], before: str, after: str) -> None:
    for node in graph["nodes"]:
        if node["op"] == before:
            node["op"] = after
        for subgraph in node.get("subgraphs", ()):
            _rename(subgraph, before, after)


def _take_casts_from_lengths(graph: dict[str, Any]) -> None:
    """Undoes what mx.contrib.amp did to lengths: in float16 2501 is 2500."""
    nodes = graph["nodes"]
    for node in nodes:
        if node["op"] == "FusedRNN" and flag(node.get("attrs", {}), "use_sequence_length"):
            while nodes[node["inputs"][-1][0]]["op"] == "amp_cast":
                node["inputs"][-1] = nodes[node["inputs"][-1][0]]["inputs"][0]
        for subgraph in node.get("subgraphs", ()):
            _take_casts_from_lengths(subgraph)


def _convert_block(block: mx.gluon.Block, reverse: bool) -> None:
    if not isinstance(block, mx.gluon.HybridBlock):
        return
    if isinstance(block, mx.gluon.SymbolBlock):
        inputs, outputs = block._cached_graph
        block._cached_graph = inputs, _converted_symbol(outputs, reverse)
    elif isinstance(block, _OnFused):
        if reverse:
            block.__class__ = type(block).__bases__[1]
    elif isinstance(block, stock.rnn_layer._RNNLayer) and not isinstance(block, FusedLayer):
        kind = type(block)
        if not reverse:
            block.__class__ = type(kind.__name__, (_OnFused, kind), {})
    block._clear_cached_op()


class _OnFused:
    """Comes before a layer class of mx.gluon.rnn."""

    def _forward_kernel(
        self, F: Any, inputs: Any, states: Any, sequence_length: Any, **kwargs: Any
    ) -> Any:
        lengths = exact_lengths(F, sequence_length)
        return super()._forward_kernel(_Functions(F), inputs, states, lengths, **kwargs)


class _Functions:
    """mx.nd or mx.sym with the fused operator in place of the native one."""

    def __init__(self, F: Any) -> None:
        self._F = F
        self.RNN = fused_nd.RNN if F is mx.nd else fused_sym.RNN
        self.rnn = F.npx.fused_rnn
        self.npx = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._F, name)
