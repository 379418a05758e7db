"""fused_rnn.Stream: ours on NumPy arrays, with packed weights and states kept between calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from worker import serve

import fused_rnn


class Model:
    """Begins with the given states and goes on from there, call by call."""

    def __init__(self, problem: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        dtype = problem["dtype"]
        self.stream = fused_rnn.Stream(
            problem["mode"],
            arrays["w:params"].astype(dtype),
            hidden_size=problem["H"],
            num_layers=problem["L"],
            batch_size=problem["N"],
        )
        self.stream.states = [arrays[name] for name in ("h0", "c0") if name in arrays]
        self.x = arrays["x"].astype(dtype)

    def run(self, training: bool) -> None:
        self.outputs = self.stream(self.x)

    def results(self, training: bool) -> dict[str, np.ndarray]:
        arrays = (self.outputs, *self.stream.states)
        # 16 bits are compared in 32.
        return {
            name: array.astype(np.promote_types(array.dtype, np.float32))
            for name, array in zip(("y", "hN", "cN"), arrays)
        }


if __name__ == "__main__":
    serve(Model)
