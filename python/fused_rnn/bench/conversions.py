"""Weights in the forms that peers take, and gradients back from them."""

from __future__ import annotations

from typing import Callable, NamedTuple

import numpy as np

from fused_rnn import weights
from fused_rnn.weights import Layout

Arrays = "dict[str, np.ndarray]"


class Form(NamedTuple):
    """How a peer wants its weights; `restore` is None for peers that only infer."""

    convert: Callable[[Layout, np.ndarray], Arrays]
    restore: Callable[[Layout, Arrays], np.ndarray] | None


def _to_onnx(layout: Layout, params: np.ndarray) -> Arrays:
    layers = weights.to_onnx(layout, params)
    return {
        f"{part}{l}": array for l, layer in enumerate(layers) for part, array in zip("WRB", layer)
    }


# oneDNN's GRU has its gates in ONNX's order (z, r, n); its LSTM has ours.
def _onednn_order(layout: Layout) -> list[int]:
    return [1, 0, 2] if layout.mode == "gru" else list(range(layout.gates))


def _side(direction: int, layer: int, kind: str) -> str:
    return f"{'lr'[direction]}{layer}_{kind}"


def _to_onednn(layout: Layout, params: np.ndarray) -> Arrays:
    """W [D, G, H, I], R [D, G, H, H] and B [D, G, H]: one bias, the sum of both.

    Only the GRU's n gate needs its two apart, and has them in B [D, 4, H].
    """
    parts, order = layout.split(params), _onednn_order(layout)

    def gates(kind: str, l: int, d: int) -> np.ndarray:
        part = parts[_side(d, l, kind)]
        return part.reshape(layout.gates, layout.hidden_size, *part.shape[1:])[order]

    result = {}
    for l in range(layout.num_layers):
        sides: dict[str, list[np.ndarray]] = {"W": [], "R": [], "B": []}
        for d in range(layout.directions):
            sides["W"].append(gates("i2h_weight", l, d))
            sides["R"].append(gates("h2h_weight", l, d))
            inputs, hidden = gates("i2h_bias", l, d), gates("h2h_bias", l, d)
            bias = inputs + hidden
            if layout.mode == "gru":
                bias = np.concatenate([bias[:2], inputs[2:], hidden[2:]])
            sides["B"].append(bias)
        result.update({f"{part}{l}": np.stack(arrays) for part, arrays in sides.items()})
    return result


def _from_onednn(layout: Layout, gradients: Arrays) -> np.ndarray:
    """Gradients of the flat vector; a summed bias hands its gradient to both summands."""
    back = np.argsort(_onednn_order(layout))
    parts = {}
    for l, d in layout.cells():
        W, R, B = (gradients[f"{part}{l}"][d] for part in "WRB")
        hidden = B if layout.mode != "gru" else B[[0, 1, 3]]
        for kind, gates in (
            ("i2h_weight", W),
            ("h2h_weight", R),
            ("i2h_bias", B[: layout.gates]),
            ("h2h_bias", hidden),
        ):
            rows = gates[back]
            parts[_side(d, l, kind)] = rows.reshape(-1, *rows.shape[2:])
    return layout.join(parts)


def _from_torch(layout: Layout, gradients: Arrays) -> np.ndarray:
    return weights.from_torch(gradients, layout.mode)[1]


FORMS = {
    "flat": Form(lambda layout, params: {"params": params}, lambda layout, g: g["params"]),
    "parts": Form(Layout.split, Layout.join),
    "torch": Form(weights.to_torch, _from_torch),
    "onnx": Form(_to_onnx, None),
    "onednn": Form(_to_onednn, _from_onednn),
}
