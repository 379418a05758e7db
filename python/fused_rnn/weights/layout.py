"""What is where in the operator's flat vector of parameters."""

from __future__ import annotations

import dataclasses
import math
from typing import Iterator, Mapping, NamedTuple

import numpy as np

from fused_rnn._arguments import check_sizes
from fused_rnn._arrays import as_numpy
from fused_rnn._cells import CELLS, Cell

__all__ = ["Layout", "Part", "part_name"]


def part_name(layer: int, direction: int, kind: str) -> str:
    """The name that mx.gluon.rnn gives to a part: l0_i2h_weight, or r0_ in the reverse."""
    return f"{'lr'[direction]}{layer}_{kind}"


class Part(NamedTuple):
    """An array of one layer and direction, and where it is in the vector."""

    layer: int
    direction: int
    kind: str  # "i2h_weight" and so on
    shape: tuple[int, ...]
    begin: int

    @property
    def name(self) -> str:
        return part_name(self.layer, self.direction, self.kind)

    @property
    def end(self) -> int:
        return self.begin + math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Layout:
    """The sizes that say what is where in the operator's flat vector of parameters.

    The vector holds all weights, then all biases. Within each half layers follow each other, in a
    layer its directions, and in those ``i2h`` (of the input), ``h2h`` (of the previous hidden
    state) and the weight ``h2r`` of a projection. Rows are grouped by gates: i, f, g, o for an
    lstm; r, z, n for a gru. Mode "lstm_peephole" has, after all biases, for each layer and
    direction the weights [3*H] by which its gates i, f and o see the cell state.

    Parameters
    ----------
    mode : str
        As for `fused_rnn.sym.RNN`.
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
        if self.mode not in CELLS:
            raise ValueError(f"mode: expected one of {', '.join(CELLS)}, found {self.mode!r}")
        check_sizes(hidden_size=self.hidden_size, num_layers=self.num_layers)
        check_sizes(0, input_size=self.input_size)
        most = self.hidden_size if self.cell.projects else 0
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
        input_size = bare.input_size_for(np.size(params))
        if np.ndim(params) != 1 or input_size is None:
            raise ValueError(
                f"params: expected a vector of {bare.size} + {bare.input_rows} * (input size) "
                f"elements for mode '{mode}', hidden_size {hidden_size}, num_layers {num_layers}, "
                f"bidirectional {bidirectional}, projection_size {projection_size}; found shape "
                f"{np.shape(params)}"
            )
        return dataclasses.replace(bare, input_size=input_size)

    @property
    def cell(self) -> Cell:
        """The description of the mode."""
        return CELLS[self.mode]

    @property
    def gates(self) -> int:
        """G, the number of gates: 4 for an lstm, 3 for a gru, else 1."""
        return len(self.cell.gates)

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
        return max(part.end for part in self.parts.values())

    @property
    def input_rows(self) -> int:
        """By how much the vector grows with the input size: D*G*H."""
        return self.directions * self.gates * self.hidden_size

    def input_size_for(self, size: int) -> int | None:
        """The input size that gives a vector of this length to layers like these; None if none."""
        bare = dataclasses.replace(self, input_size=0)
        input_size, rest = divmod(size - bare.size, self.input_rows)
        return None if input_size < 0 or rest else input_size

    def cells(self) -> Iterator[tuple[int, int]]:
        """(layer, direction) in the operator's order."""
        return ((l, d) for l in range(self.num_layers) for d in range(self.directions))

    @property
    def parts(self) -> dict[str, Part]:
        """What the vector consists of, by name and in its order."""
        # Not a functools.cached_property, whose lock a child of fork() may find held for ever.
        kept = self.__dict__.get("_parts")
        if kept is None:
            kept = self.__dict__["_parts"] = self._make_parts()
        return kept

    def _make_parts(self) -> dict[str, Part]:
        rows = self.gates * self.hidden_size

        def weights(l: int) -> dict[str, tuple[int, ...]]:
            width = self.directions * self.state_size if l else self.input_size
            shapes = {"i2h_weight": (rows, width), "h2h_weight": (rows, self.state_size)}
            if self.projection_size:
                shapes["h2r_weight"] = (self.projection_size, self.hidden_size)
            return shapes

        def biases(_: int) -> dict[str, tuple[int, ...]]:
            return {"i2h_bias": (rows,), "h2h_bias": (rows,)}

        def units(_: int) -> dict[str, tuple[int, ...]]:
            return {kind: (len(g) * self.hidden_size,) for kind, g in self.cell.units.items()}

        result, begin = {}, 0
        for shapes_of in (weights, biases, units):
            for l, d in self.cells():
                for kind, shape in shapes_of(l).items():
                    part = Part(l, d, kind, shape, begin)
                    result[part.name], begin = part, part.end
        return result

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all parts in the order of the vector, under the names of mx.gluon.rnn.

        The names are ``l0_i2h_weight``, ``l0_h2h_weight``, ``l0_h2r_weight``, ``l0_i2h_bias`` and
        ``l0_h2h_bias``, with r for l in the reverse direction and the layer's number for 0; mode
        "lstm_peephole" also has ``l0_peephole``.
        """
        return {name: part.shape for name, part in self.parts.items()}

    def split(self, params: np.ndarray) -> dict[str, np.ndarray]:
        """The parts of a vector [size], as windows into it.

        Raises ValueError if the vector has another shape.
        """
        params = as_numpy("params", params)
        if params.shape != (self.size,):
            raise ValueError(f"params: expected shape ({self.size},), found {params.shape}")
        return {
            name: params[part.begin : part.end].reshape(part.shape)
            for name, part in self.parts.items()
        }

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
