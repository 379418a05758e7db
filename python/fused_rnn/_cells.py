"""The cells that the kernels have, each described once. Imports nothing of the package."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

__all__ = ["CELLS", "Cell", "Onnx"]


@dataclasses.dataclass(frozen=True)
class Onnx:
    """The node of ONNX that computes a cell."""

    node: str
    gates: tuple[str, ...]  # of its W, R and B in their order, by our names
    activations: tuple[str, ...]  # of one direction
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One mode of the operator."""

    gates: tuple[str, ...]  # what the rows of weights and biases are grouped by, in their order
    onnx: Onnx
    torch: str  # the class of torch.nn
    has_cell_state: bool = False
    projects: bool = False  # whether h may be projected
    clips: bool = False  # whether the cell state may be clipped
    units: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Further parameters: one number for each unit and each of these gates, by kind."""

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
}
