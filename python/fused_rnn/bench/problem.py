"""What is computed: sizes, arrays, and the work that it takes."""

from __future__ import annotations

import dataclasses

import numpy as np

from fused_rnn.weights import Layout

ELEMENT_BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}


@dataclasses.dataclass(frozen=True)
class Problem:
    """A stack of recurrent layers; letters as in fused_rnn/rnn.h."""

    mode: str
    T: int
    N: int
    I: int  # noqa: E741
    H: int
    L: int = 1
    D: int = 1
    dtype: str = "float32"
    variable_length: bool = False  # lengths uniform in 1..T, else all T

    @property
    def layout(self) -> Layout:
        """Of the parameters."""
        return Layout(self.mode, self.I, self.H, self.L, self.D == 2)

    @property
    def input_sizes(self) -> list[int]:
        """Of the layers."""
        return [self.D * self.H if layer else self.I for layer in range(self.L)]

    def lengths(self) -> np.ndarray:
        """Of the sequences."""
        if not self.variable_length:
            return np.full(self.N, self.T, np.int64)
        return np.random.RandomState(1).randint(1, self.T + 1, self.N)

    @property
    def rows(self) -> int:
        """Time steps of all sequences together."""
        return int(self.lengths().sum())

    @property
    def _gate_rows(self) -> int:
        return self.D * self.layout.gates * self.H

    def flops(self, training: bool) -> int:
        """Operations of the matrix products; a backward does twice as many as a forward."""
        columns = sum(self.input_sizes) + self.L * self.H
        return 2 * self.rows * self._gate_rows * columns * (3 if training else 1)

    @property
    def recurrent_bytes(self) -> int:
        """Recurrent weights of one layer: what every time step reads."""
        return self._gate_rows * self.H * ELEMENT_BYTES[self.dtype]

    def bytes_read(self, training: bool) -> int:
        """Weights that must be read: the input's once, the recurrent ones at every time step; all
        of it again in a backward.
        """
        once = self._gate_rows * sum(self.input_sizes) * ELEMENT_BYTES[self.dtype]
        steps = int(self.lengths().max(initial=0)) * self.L * self.recurrent_bytes
        return (once + steps) * (2 if training else 1)

    def arrays(self) -> dict[str, np.ndarray]:
        """Inputs, parameters and head gradients, under their names in fused_rnn/rnn.h.

        Values of 16-bit types are rounded to them, but stored wider.
        """
        rng = np.random.RandomState(0)
        states = (self.L * self.D, self.N, self.H)
        real = np.float64 if self.dtype == "float64" else np.float32

        def uniform(limit: float, *shape: int) -> np.ndarray:
            return round_to(rng.uniform(-limit, limit, shape).astype(real), self.dtype)

        result = {
            "x": uniform(1, self.T, self.N, self.I),
            "params": uniform(self.H**-0.5, self.layout.size),  # the usual initialisation
        }
        for state in ("h", "c") if self.mode == "lstm" else ("h",):
            result[f"{state}0"] = uniform(1, *states)
            result[f"d{state}N"] = uniform(1, *states)
        result["dy"] = uniform(1, self.T, self.N, self.D * self.H)
        if self.variable_length:
            result["lengths"] = self.lengths()
        return result


def round_to(array: np.ndarray, dtype: str) -> np.ndarray:
    """The nearest values that the type has, in the array's own type."""
    if dtype == "float16":
        return array.astype(np.float16).astype(array.dtype)
    if dtype == "bfloat16":  # the upper half of a float32, to nearest even
        bits = array.astype(np.float32).view(np.uint32)
        kept = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        return kept.view(np.float32).astype(array.dtype)
    return array
