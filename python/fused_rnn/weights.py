"""Weights of recurrent layers in the forms of MXNet, PyTorch and ONNX."""

from __future__ import annotations

import dataclasses
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from fused_rnn._arguments import check_sizes
from fused_rnn._arrays import as_numpy

__all__ = ["Layout", "OnnxLayer", "from_onnx", "from_torch", "to_onnx", "to_torch"]

_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
# Where ONNX's gates (lstm: i, o, f, g; gru: z, r, n) are among ours (i, f, g, o; r, z, n).
_ONNX_ORDER = {"rnn_relu": [0], "rnn_tanh": [0], "lstm": [0, 3, 1, 2], "gru": [1, 0, 2]}


@dataclasses.dataclass(frozen=True)
class Layout:
    """The sizes that say what is where in the operator's flat vector of parameters.

    The vector holds all weights, then all biases. Within each half layers follow each other, in a
    layer its directions, and in those ``i2h`` (of the input), ``h2h`` (of the previous hidden
    state) and the weight ``h2r`` of a projection. Rows are grouped by gates: i, f, g, o for an
    lstm; r, z, n for a gru.

    Parameters
    ----------
    mode : str
        "rnn_relu", "rnn_tanh", "lstm" or "gru".
    input_size, hidden_size : int
        I and H.
    num_layers : int
        L.
    bidirectional : bool
        D is 2 instead of 1.
    projection_size : int
        P, for an lstm; 0 is none.

    Examples
    --------
    >>> layout = fused_rnn.weights.Layout("gru", input_size=3, hidden_size=4)
    >>> layout.size
    108
    >>> parts = layout.split(np.zeros(108))
    >>> parts["l0_i2h_weight"].shape
    (12, 3)
    """

    mode: str
    input_size: int
    hidden_size: int
    num_layers: int = 1
    bidirectional: bool = False
    projection_size: int = 0

    def __post_init__(self) -> None:
        if self.mode not in _GATES:
            raise ValueError(f"mode: expected one of {', '.join(_GATES)}, found {self.mode!r}")
        check_sizes(hidden_size=self.hidden_size, num_layers=self.num_layers)
        check_sizes(0, input_size=self.input_size)
        most = self.hidden_size if self.mode == "lstm" else 0
        if not 0 <= self.projection_size <= most:
            raise ValueError(
                f"projection_size: expected 0 to {most} in mode '{self.mode}' with hidden_size "
                f"{self.hidden_size}, found {self.projection_size}"
            )

    @classmethod
    def of_params(
        cls,
        params: np.ndarray,
        mode: str,
        hidden_size: int,
        num_layers: int = 1,
        bidirectional: bool = False,
        projection_size: int = 0,
    ) -> Layout:
        """The layout of a vector, from whose length the input size follows.

        Raises ValueError if no input size gives that length.
        """
        params = as_numpy("params", params)
        bare = cls(mode, 0, hidden_size, num_layers, bidirectional, projection_size)
        rows = bare.directions * bare.gates * hidden_size
        input_size, rest = divmod(np.size(params) - bare.size, rows)
        if np.ndim(params) != 1 or input_size < 0 or rest:
            raise ValueError(
                f"params: expected a vector of {bare.size} + {rows} * (input size) elements for "
                f"mode '{mode}', hidden_size {hidden_size}, num_layers {num_layers}, "
                f"bidirectional {bidirectional}, projection_size {projection_size}; found shape "
                f"{np.shape(params)}"
            )
        return dataclasses.replace(bare, input_size=input_size)

    @property
    def gates(self) -> int:
        """G: 4 for an lstm, 3 for a gru, else 1."""
        return _GATES[self.mode]

    @property
    def directions(self) -> int:
        """D."""
        return 2 if self.bidirectional else 1

    @property
    def state_size(self) -> int:
        """S, the width of a hidden state and of the output of one direction."""
        return self.projection_size or self.hidden_size

    @property
    def size(self) -> int:
        """Length of the vector."""
        return sum(int(np.prod(shape, dtype=np.int64)) for shape in self.shapes().values())

    def cells(self) -> Iterator[tuple[int, int]]:
        """(layer, direction) in the operator's order."""
        return ((l, d) for l in range(self.num_layers) for d in range(self.directions))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all parts in the order of the vector, under the names of mx.gluon.rnn.

        The names are ``l0_i2h_weight``, ``l0_h2h_weight``, ``l0_h2r_weight``, ``l0_i2h_bias`` and
        ``l0_h2h_bias``, with r for l in the reverse direction and the layer's number for 0.
        """
        rows = self.gates * self.hidden_size
        result: dict[str, tuple[int, ...]] = {}
        for l, d in self.cells():
            width = self.directions * self.state_size if l else self.input_size
            result[f"{'lr'[d]}{l}_i2h_weight"] = (rows, width)
            result[f"{'lr'[d]}{l}_h2h_weight"] = (rows, self.state_size)
            if self.projection_size:
                result[f"{'lr'[d]}{l}_h2r_weight"] = (self.projection_size, self.hidden_size)
        for l, d in self.cells():
            for kind in ("i2h", "h2h"):
                result[f"{'lr'[d]}{l}_{kind}_bias"] = (rows,)
        return result

    def split(self, params: np.ndarray) -> dict[str, np.ndarray]:
        """The parts of a vector [size], as windows into it.

        Raises ValueError if the vector has another shape.
        """
        params = as_numpy("params", params)
        if params.shape != (self.size,):
            raise ValueError(f"params: expected shape ({self.size},), found {params.shape}")
        result = {}
        begin = 0
        for name, shape in self.shapes().items():
            end = begin + int(np.prod(shape, dtype=np.int64))
            result[name] = params[begin:end].reshape(shape)
            begin = end
        return result

    def join(self, parts: Mapping[str, np.ndarray]) -> np.ndarray:
        """The vector [size] of these parts; the inverse of `split`.

        Raises ValueError for missing, unknown or misshapen parts.
        """
        shapes = self.shapes()
        if set(parts) != set(shapes):
            missing, unknown = sorted(set(shapes) - set(parts)), sorted(set(parts) - set(shapes))
            raise ValueError(f"parts: {missing} are missing, {unknown} are unknown")
        parts = {name: as_numpy(f"parts['{name}']", part) for name, part in parts.items()}
        for name, shape in shapes.items():
            if np.shape(parts[name]) != shape:
                found = np.shape(parts[name])
                raise ValueError(f"parts['{name}']: expected shape {shape}, found {found}")
        return np.concatenate([np.ravel(parts[name]) for name in shapes])


# ---- PyTorch

_TORCH_PARTS = {
    "i2h_weight": "weight_ih",
    "h2h_weight": "weight_hh",
    "h2r_weight": "weight_hr",
    "i2h_bias": "bias_ih",
    "h2h_bias": "bias_hh",
}


def _torch_name(part: str) -> str:
    cell, kind = part.split("_", 1)
    reverse = "_reverse" if cell[0] == "r" else ""
    return f"{_TORCH_PARTS[kind]}_l{cell[1:]}{reverse}"


def to_torch(layout: Layout, params: np.ndarray) -> dict[str, np.ndarray]:
    """The state dictionary of `torch.nn.LSTM`, `GRU` or `RNN` for parameters of the operator.

    Gates have the same order in both, so that only names and places change.

    Parameters
    ----------
    layout : Layout
        What the parameters are of.
    params : array [layout.size]
        Parameters.

    Returns
    -------
    dict
        Arrays that share the memory of params.

    Examples
    --------
    >>> layout = fused_rnn.weights.Layout("gru", input_size=3, hidden_size=4)
    >>> arrays = fused_rnn.weights.to_torch(layout, np.zeros(108))
    >>> list(arrays)
    ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """
    return {_torch_name(name): part for name, part in layout.split(params).items()}


def from_torch(
    state_dict: Mapping[str, Any], mode: str, prefix: str = ""
) -> tuple[Layout, np.ndarray]:
    """Parameters of the operator from a module `torch.nn.LSTM`, `GRU` or `RNN`.

    Parameters
    ----------
    state_dict : mapping of names to tensors or arrays
        As `module.state_dict()` gives it, on the CPU. Biases may be missing (``bias=False``); they
        are zeros then.
    mode : str
        "lstm", "gru", "rnn_tanh" or "rnn_relu": shapes do not tell the last two apart.
    prefix : str
        What names begin with if the module is part of another one, such as "encoder."; other
        names are left out.

    Returns
    -------
    layout : Layout
        Found from names and shapes.
    params : array [layout.size]
        Parameters.

    Raises
    ------
    ValueError
        If the dictionary does not fit the mode.
    """
    found = {
        name[len(prefix) :]: as_numpy(f"state_dict['{name}']", value)
        for name, value in state_dict.items()
        if name.startswith(prefix)
    }
    if "weight_ih_l0" not in found:
        raise ValueError(f"state_dict: expected '{prefix}weight_ih_l0', found {list(state_dict)}")
    first = found["weight_ih_l0"]
    num_layers = 0
    while f"weight_ih_l{num_layers}" in found:
        num_layers += 1
    projection = found.get("weight_hr_l0")
    layout = Layout(
        mode,
        first.shape[1],
        len(first) // _GATES.get(mode, 1),
        num_layers,
        "weight_ih_l0_reverse" in found,
        0 if projection is None else len(projection),
    )
    parts = {}
    for name, shape in layout.shapes().items():
        zeros = np.zeros(shape, first.dtype) if name.endswith("bias") else None
        part = found.pop(_torch_name(name), zeros)
        if part is None:
            raise ValueError(f"state_dict: expected '{prefix}{_torch_name(name)}', found none")
        if part.shape != shape:
            raise ValueError(
                f"state_dict['{prefix}{_torch_name(name)}']: expected shape {shape} in mode "
                f"'{mode}', found {part.shape}"
            )
        parts[name] = part
    if found:
        raise ValueError(f"state_dict: unknown names {sorted(found)}")
    return layout, layout.join(parts)


# ---- ONNX


class OnnxLayer(NamedTuple):
    """Inputs of one ONNX node LSTM, GRU (with linear_before_reset=1) or RNN."""

    W: np.ndarray  # [D, G*H, I]
    R: np.ndarray  # [D, G*H, H]
    B: np.ndarray  # [D, 2*G*H]: biases of the input, then those of the hidden state


def _reordered(mode: str, rows: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """The rows of a weight or bias with their gates in another order."""
    gates = rows.reshape(_GATES[mode], -1, *rows.shape[1:])
    return gates[order].reshape(rows.shape)


def to_onnx(layout: Layout, params: np.ndarray) -> list[OnnxLayer]:
    """Inputs of ONNX's recurrent nodes, one node for each layer.

    Parameters
    ----------
    layout : Layout
        What the parameters are of; ONNX has no projection.
    params : array [layout.size]
        Parameters.

    Returns
    -------
    list of OnnxLayer
        Gates in ONNX's order: i, o, f, c for an LSTM; z, r, h for a GRU.
    """
    if layout.projection_size:
        raise ValueError(
            f"layout: expected no projection, which ONNX's LSTM lacks, found projection_size "
            f"{layout.projection_size}"
        )
    parts = layout.split(params)
    order = _ONNX_ORDER[layout.mode]

    def stack(l: int, kind: str) -> np.ndarray:
        sides = (parts[f"{'lr'[d]}{l}_{kind}"] for d in range(layout.directions))
        return np.stack([_reordered(layout.mode, side, order) for side in sides])

    return [
        OnnxLayer(
            stack(l, "i2h_weight"),
            stack(l, "h2h_weight"),
            np.concatenate([stack(l, "i2h_bias"), stack(l, "h2h_bias")], axis=1),
        )
        for l in range(layout.num_layers)
    ]


def from_onnx(layers: Sequence[Sequence[Any]], mode: str) -> tuple[Layout, np.ndarray]:
    """Parameters of the operator from the inputs of ONNX's recurrent nodes.

    Parameters
    ----------
    layers : sequence of (W, R, B)
        For each layer; W [D, G*H, I], R [D, G*H, H], B [D, 2*G*H] or None for zeros.
    mode : str
        "lstm", "gru" (of nodes with linear_before_reset=1), "rnn_tanh" or "rnn_relu".

    Returns
    -------
    layout : Layout
        Found from the shapes.
    params : array [layout.size]
        Parameters.

    Raises
    ------
    ValueError
        If shapes do not fit the mode or each other.
    """
    if not layers:
        raise ValueError("layers: expected at least one, found none")
    layers = [
        [
            None if part is None and name == "B" else as_numpy(f"layers[{l}].{name}", part)
            for name, part in zip("WRB", layer)
        ]
        for l, layer in enumerate(layers)
    ]
    W, R = layers[0][:2]
    if W.ndim != 3 or R.ndim != 3 or W.shape[0] not in (1, 2):
        raise ValueError(
            f"layers[0]: expected W [D, G*H, I] and R [D, G*H, H] with D 1 or 2, found {W.shape} "
            f"and {R.shape}"
        )
    layout = Layout(mode, W.shape[2], R.shape[2], len(layers), W.shape[0] == 2)
    D, rows = layout.directions, layout.gates * layout.hidden_size
    ours = np.argsort(_ONNX_ORDER[mode])
    parts = {}
    for l, (W, R, B) in enumerate(layers):
        B = np.zeros((D, 2 * rows), W.dtype) if B is None else B
        if B.shape != (D, 2 * rows):
            raise ValueError(f"layers[{l}].B: expected shape {(D, 2 * rows)}, found {B.shape}")
        sides = {"i2h_weight": W, "h2h_weight": R, "i2h_bias": B[:, :rows], "h2h_bias": B[:, rows:]}
        for kind, side in sides.items():
            shape = (D, *layout.shapes()[f"l{l}_{kind}"])
            if side.shape != shape:
                name = "W" if kind == "i2h_weight" else "R"
                raise ValueError(
                    f"layers[{l}].{name}: expected shape {shape} in mode '{mode}', "
                    f"found {side.shape}"
                )
            for d in range(D):
                parts[f"{'lr'[d]}{l}_{kind}"] = _reordered(mode, side[d], ours)
    return layout, layout.join(parts)
