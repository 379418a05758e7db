"""The cells that the kernels have, each described once. Imports nothing of the package."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

__all__ = ["CELLS", "CELL_ATTRIBUTE", "VARIANTS", "Cell", "Onnx", "mode_of", "operator_attributes"]

# MXNet's parser of attributes knows its own modes; it lets names of this form through.
CELL_ATTRIBUTE = "__fused_rnn_cell__"


@dataclasses.dataclass(frozen=True)
class Onnx:
    """The node of ONNX that computes a cell."""

    node: str
    gates: tuple[str, ...]  # of its W, R and B in their order, by our names
    activations: tuple[str, ...]  # of one direction
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    peephole: tuple[str, ...] = ()  # gates of its P


@dataclasses.dataclass(frozen=True)
class Cell:
    """One mode of the operator."""

    gates: tuple[str, ...]  # what the rows of weights and biases are grouped by, in their order
    onnx: Onnx
    torch: str | None  # the class of torch.nn
    has_cell_state: bool = False
    projects: bool = False  # whether h may be projected
    clips: bool = False  # whether the cell state may be clipped
    # Further parameters, by kind: one number for each of these gates and each unit.
    units: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    native: str | None = None  # the mode of MXNet that this is a variant of

    @property
    def states(self) -> tuple[str, ...]:
        """What goes from step to step."""
        return ("h", "c") if self.has_cell_state else ("h",)


CELLS: Mapping[str, Cell] = {
    "rnn_relu": Cell(("h",), Onnx("RNN", ("h",), ("Relu",)), "RNN"),
    "rnn_tanh": Cell(("h",), Onnx("RNN", ("h",), ("Tanh",)), "RNN"),
    "lstm": Cell(
        ("i", "f", "g", "o"),
        Onnx("LSTM", ("i", "o", "f", "g"), ("Sigmoid", "Tanh", "Tanh")),
        "LSTM",
        has_cell_state=True,
        projects=True,
        clips=True,
    ),
    "gru": Cell(
        ("r", "z", "n"),
        Onnx("GRU", ("z", "r", "n"), ("Sigmoid", "Tanh"), {"linear_before_reset": 1}),
        "GRU",
    ),
    "lstm_peephole": Cell(
        ("i", "f", "g", "o"),
        Onnx(
            "LSTM",
            ("i", "o", "f", "g"),
            ("Sigmoid", "Tanh", "Tanh"),
            peephole=("i", "o", "f"),
        ),
        None,
        has_cell_state=True,
        projects=True,
        clips=True,
        units={"peephole": ("i", "f", "o")},
        native="lstm",
    ),
    "gru_reset_before": Cell(
        ("r", "z", "n"),
        Onnx("GRU", ("z", "r", "n"), ("Sigmoid", "Tanh"), {"linear_before_reset": 0}),
        None,
        native="gru",
    ),
}


# Modes that MXNet lacks, and its own that the operator has for them.
VARIANTS = {mode: cell.native for mode, cell in CELLS.items() if cell.native is not None}


def operator_attributes(mode: Any) -> dict[str, Any]:
    """The attributes of the operator that stand for a mode; an unknown mode is left to MXNet."""
    if mode in VARIANTS:
        return {"mode": VARIANTS[mode], CELL_ATTRIBUTE: mode}
    return {"mode": mode}


def mode_of(attributes: Mapping[str, str]) -> str:
    """The mode that a node's attributes stand for."""
    return attributes.get(CELL_ATTRIBUTE) or attributes["mode"]
