"""Weights in the form of ONNX."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np

from fused_rnn._arrays import as_numpy
from fused_rnn.weights.layout import Layout, part_name

__all__ = ["OnnxLayer", "from_onnx", "to_onnx"]


class OnnxLayer(NamedTuple):
    """Inputs of one ONNX node LSTM, GRU or RNN."""

    W: np.ndarray  # [D, G*H, I]
    R: np.ndarray  # [D, G*H, H]
    B: np.ndarray  # [D, 2*G*H]: biases of the input, then those of the hidden state
    P: np.ndarray | None = None  # [D, 3*H]: peepholes in the order i, o, f


def _reordered(rows: np.ndarray, before: Sequence[str], after: Sequence[str]) -> np.ndarray:
    """The rows of a weight or bias with their gates in another order."""
    gates = rows.reshape(len(before), -1, *rows.shape[1:])
    return gates[[before.index(gate) for gate in after]].reshape(rows.shape)


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
        Gates in ONNX's order: i, o, f, c for an LSTM; z, r, h for a GRU. Its attribute
        linear_before_reset is 1 in mode "gru" and 0 in "gru_reset_before".
    """
    if layout.projection_size:
        raise ValueError(
            f"layout: expected no projection, which ONNX's LSTM lacks, found projection_size "
            f"{layout.projection_size}"
        )
    parts = layout.split(params)
    cell = layout.cell

    def stack(l: int, kind: str, theirs: Sequence[str] = cell.onnx.gates) -> np.ndarray:
        ours = cell.units.get(kind, cell.gates)
        sides = (parts[part_name(l, d, kind)] for d in range(layout.directions))
        return np.stack([_reordered(side, ours, theirs) for side in sides])

    return [
        OnnxLayer(
            stack(l, "i2h_weight"),
            stack(l, "h2h_weight"),
            np.concatenate([stack(l, "i2h_bias"), stack(l, "h2h_bias")], axis=1),
            stack(l, "peephole", cell.onnx.peephole) if cell.onnx.peephole else None,
        )
        for l in range(layout.num_layers)
    ]


def from_onnx(layers: Sequence[Sequence[Any]], mode: str) -> tuple[Layout, np.ndarray]:
    """Parameters of the operator from the inputs of ONNX's recurrent nodes.

    Parameters
    ----------
    layers : sequence of (W, R, B) or (W, R, B, P)
        For each layer; W [D, G*H, I], R [D, G*H, H], B [D, 2*G*H] or None for zeros, and in mode
        "lstm_peephole" P [D, 3*H] or None for zeros.
    mode : str
        As for `fused_rnn.sym.RNN`; "gru" is of nodes with linear_before_reset=1,
        "gru_reset_before" of those with 0, ONNX's default.

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
            None if part is None and name in "BP" else as_numpy(f"layers[{l}].{name}", part)
            for name, part in zip("WRBP", (*layer, None)[:4])
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
    cell = layout.cell
    parts = {}
    for l, (W, R, B, P) in enumerate(layers):
        if P is not None and not cell.onnx.peephole:
            raise ValueError(f"layers[{l}].P: expected none in mode '{mode}', found {P.shape}")
        B = np.zeros((D, 2 * rows), W.dtype) if B is None else B
        if B.shape != (D, 2 * rows):
            raise ValueError(f"layers[{l}].B: expected shape {(D, 2 * rows)}, found {B.shape}")
        sides = {"i2h_weight": W, "h2h_weight": R, "i2h_bias": B[:, :rows], "h2h_bias": B[:, rows:]}
        if cell.onnx.peephole:
            width = len(cell.onnx.peephole) * layout.hidden_size
            sides["peephole"] = np.zeros((D, width), W.dtype) if P is None else P
        for kind, side in sides.items():
            ours = cell.units.get(kind, cell.gates)
            theirs = cell.onnx.peephole if kind == "peephole" else cell.onnx.gates
            shape = (D, *layout.shapes()[part_name(l, 0, kind)])
            if side.shape != shape:
                name = {"i2h_weight": "W", "h2h_weight": "R"}.get(kind, "P")
                raise ValueError(
                    f"layers[{l}].{name}: expected shape {shape} in mode '{mode}', "
                    f"found {side.shape}"
                )
            for d in range(D):
                parts[part_name(l, d, kind)] = _reordered(side[d], theirs, ours)
    return layout, layout.join(parts)
