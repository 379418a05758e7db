"""A model as MXNet's exporter takes it, and the names in what that makes of it.

The exporter tells values apart by the names of nodes, and makes further names from them (output 1
of "rnn" is "rnn1"), so that nodes of one name, or unlucky ones, are mixed up. Here each operator is
given a token for a name while the exporter works. No token is the beginning of another one or
occurs in the name of a variable. Names come back when it is done.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from typing import Any, Iterable, Mapping

import mxnet as mx
import onnx

__all__ = ["LAYERS", "RANK", "Prepared", "evaluate", "restore", "shapes_of", "unlabelled"]

LAYERS = ("FusedRNN", "_npx_fused_rnn")
RANK = "__ndim__"  # attribute that `Prepared.note_ranks` gives to BatchNorm
_IDENTITY = "_copy"
Graph = dict[str, Any]  # a symbol's JSON


def _load(graph: Graph, heads: list | None = None) -> mx.sym.Symbol:
    """The symbol of a graph, or of those outputs of its nodes."""
    # MXNet's reader knows no \u escapes.
    text = json.dumps(graph if heads is None else {**graph, "heads": heads}, ensure_ascii=False)
    return mx.sym.load_json(text)


def evaluate(symbol: mx.sym.Symbol, values: Mapping[str, mx.nd.NDArray]) -> list[mx.nd.NDArray]:
    """The outputs of a symbol in prediction."""
    names = symbol.list_inputs()
    if not names:  # a graph that CachedOp does not take
        return symbol.eval(ctx=mx.cpu())
    found = mx.nd.CachedOp(symbol)(*(values[name] for name in names))
    return found if isinstance(found, list) else [found]


def shapes_of(graph: Graph, entries: list, shapes: Mapping[str, tuple]) -> list[tuple[int, ...]]:
    """Shapes of outputs of nodes, given those of variables."""
    if not entries:
        return []
    part = _load(graph, entries)
    names = set(part.list_inputs())
    _, found, _ = part.infer_shape(**{n: shape for n, shape in shapes.items() if n in names})
    return found


def unlabelled(symbol: mx.sym.Symbol) -> set[str]:
    """The labels of the losses that a symbol ends in, which predictions do without."""
    graph = json.loads(symbol.tojson())
    labels = {graph["nodes"][index]["name"] + "_label" for index, *_ in graph["heads"]}
    return labels & set(symbol.list_arguments())


def _unique(name: str, taken: set[str]) -> str:
    """The name, or the first of NAME_2, NAME_3 and so on that is free; taken from then on."""
    found, k = name, 1
    while found in taken:
        k += 1
        found = f"{name}_{k}"
    taken.add(found)
    return found


@dataclasses.dataclass
class Prepared:
    """A model on whose graph every operator has a token for a name.

    The parameters of each layer are one variable of it, and each output is an identity of its own.
    """

    symbol: mx.sym.Symbol
    params: dict[str, mx.nd.NDArray]
    tokens: re.Pattern  # finds them, with the number of the node
    names: list[str]  # of the nodes
    heads: list[str]  # tokens of the outputs

    @classmethod
    def of(cls, symbol: mx.sym.Symbol, params: Mapping[str, mx.nd.NDArray]) -> Prepared:
        graph = json.loads(symbol.tojson())
        nodes = graph["nodes"]
        variables = Counter(node["name"] for node in nodes if node["op"] == "null")
        shared = sorted(name for name, count in variables.items() if count > 1)
        if shared:
            raise ValueError(f"model: expected variables of different names, found {shared} twice")
        stem = "node"
        while any(stem in name for name in variables):
            stem += "_"
        names = [node["name"] for node in nodes]
        taken = set(variables)
        # The model's outputs come before what is within.
        for index in dict.fromkeys([*(index for index, *_ in graph["heads"]), *range(len(nodes))]):
            if nodes[index]["op"] != "null":
                names[index] = _unique(names[index], taken)
        for index, output, *_ in graph["heads"]:
            nodes.append({"op": _IDENTITY, "name": "", "inputs": [[index, output, 0]]})
            names.append(names[index])
        for index, node in enumerate(nodes):
            if node["op"] != "null":
                node["name"] = f"{stem}{index}_"
        first = len(nodes) - len(graph["heads"])
        graph["heads"] = [[index, 0, 0] for index in range(first, len(nodes))]
        values = _fold_parameters(graph, names, params)
        graph["arg_nodes"] = [k for k, node in enumerate(nodes) if node["op"] == "null"]
        result = _load(graph)
        used = set(result.list_inputs())
        return cls(
            result,
            {name: value for name, value in values.items() if name in used},
            re.compile(rf"{stem}(\d+)_"),
            names,
            [node["name"] for node in nodes[first:]],
        )

    def plain(self, name: str) -> str:
        """A text with names in place of tokens."""
        return self.tokens.sub(lambda token: self.names[int(token[1])], name)

    def note_ranks(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Tells each BatchNorm how many axes its data have, which its converter asks for."""
        graph = json.loads(self.symbol.tojson())
        norms = [node for node in graph["nodes"] if node["op"] == "BatchNorm"]
        found = shapes_of(graph, [node["inputs"][0] for node in norms], shapes)
        for node, shape in zip(norms, found):
            node.setdefault("attrs", {})[RANK] = str(len(shape))
        self.symbol = _load(graph)


def _fold_parameters(
    graph: Graph, names: list[str], params: Mapping[str, mx.nd.NDArray]
) -> dict[str, mx.nd.NDArray]:
    """Makes the parameters of each layer a variable: they may be put together from many, as
    mx.gluon.rnn does. Returns params with the values of these.
    """
    nodes, values = graph["nodes"], dict(params)
    for layer, node in enumerate(nodes):
        if node["op"] not in LAYERS:
            continue
        index, output, _ = node["inputs"][1]
        source = nodes[index]
        if source["op"] == "null" and source["name"] in values:
            continue
        part = _load(graph, [[index, output, 0]])
        missing = sorted(set(part.list_inputs()) - set(params))
        if missing or output:
            raise ValueError(
                f"params: expected all that the parameters of '{names[layer]}' follow from, "
                f"{missing} are missing"
            )
        (values[source["name"]],) = evaluate(part, params)
        nodes[index] = {"op": "null", "name": source["name"], "inputs": []}
    return values


def restore(graph: onnx.GraphProto, model: Prepared, inputs: Iterable[str]) -> None:
    """Brings names and the order of outputs back; drops nodes and constants that no output needs,
    and constants from among the inputs.
    """
    outputs = _drop_identities(graph, model.heads)
    needed = set(outputs)
    nodes = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            nodes.append(node)
    types = {output.name: output for output in graph.output}
    infos = [types[token] for token in model.heads]
    for info, name in zip(infos, outputs):
        info.name = name
    for field, kept in (
        (graph.node, nodes[::-1]),
        (graph.input, [value for value in graph.input if value.name in set(inputs)]),
        (graph.initializer, [tensor for tensor in graph.initializer if tensor.name in needed]),
        (graph.output, infos),
    ):
        del field[:]
        field.extend(kept)
    _rename(graph, model)


def _drop_identities(graph: onnx.GraphProto, heads: list[str]) -> list[str]:
    """What the outputs are without the identities that `Prepared` added.

    One stays where a value that is no node's or is another output already could not be an output.
    """
    made = {name for node in graph.node for name in node.output}
    identities = {node.output[0]: node for node in graph.node if node.output[0] in set(heads)}
    outputs: list[str] = []
    for head in heads:
        (source,) = identities[head].input
        if source in made and source not in outputs:
            graph.node.remove(identities[head])
            outputs.append(source)
        else:
            outputs.append(head)
    return outputs


def _rename(graph: onnx.GraphProto, model: Prepared) -> None:
    values = [value.name for value in (*graph.input, *graph.initializer)]
    variables = [name for name in values if not model.tokens.search(name)]
    made = (name for node in graph.node for name in node.output)
    names, taken = {"": ""}, set()
    for old in (*variables, *(output.name for output in graph.output), *values, *made):
        if old not in names:
            names[old] = _unique(model.plain(old), taken)
    for value in (*graph.input, *graph.initializer, *graph.output):
        value.name = names[value.name]
    of_nodes: set[str] = set()
    for node in graph.node:
        node.name = _unique(model.plain(node.name), of_nodes)
        for field in (node.input, node.output):
            field[:] = [names[name] for name in field]
