"""oneDNN's RNN primitive, through the library that src/bench/onednn_rnn.cc becomes."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
from worker import serve, weights

CELLS = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}


def pointer(array: np.ndarray | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


def pointers(arrays: dict[str, np.ndarray], layers: int) -> ctypes.Array:
    """W, R and B of each layer."""
    ordered = [arrays[f"{part}{l}"].ctypes.data for l in range(layers) for part in "WRB"]
    return (ctypes.c_void_p * len(ordered))(*ordered)


class Model:
    """Two stacks, because a pass for inference is another primitive than one for training."""

    def __init__(self, problem: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        self.library = ctypes.CDLL(sys.argv[1])
        self.library.OnednnRnnError.restype = ctypes.c_char_p
        self.problem, self.arrays = problem, arrays
        self.weights = weights(arrays)
        self.gradients = {name: np.zeros_like(value) for name, value in self.weights.items()}
        T, N, H, D = (problem[letter] for letter in "TNHD")
        self.buffers = {"y": np.zeros((T, N, D * H), np.float32)}
        for state in "hc":
            if f"{state}0" in arrays:
                self.buffers[f"{state}N"] = np.zeros_like(arrays[f"{state}0"])
        self.dx = np.zeros_like(arrays["x"])
        self.stacks: dict[bool, ctypes.c_void_p] = {}

    def check(self, code: int) -> None:
        if code != 0:
            raise RuntimeError(self.library.OnednnRnnError().decode())

    def stack(self, training: bool) -> ctypes.c_void_p:
        if training not in self.stacks:
            sizes = (ctypes.c_int64 * 6)(*(self.problem[letter] for letter in "TNIHLD"))
            stack = ctypes.c_void_p()
            self.check(
                self.library.OnednnRnnOpen(
                    CELLS[self.problem["mode"]],
                    sizes,
                    int(training),
                    pointers(self.weights, self.problem["L"]),
                    ctypes.byref(stack),
                )
            )
            self.stacks[training] = stack
        return self.stacks[training]

    def run(self, training: bool) -> None:
        stack = self.stack(training)
        inputs = [pointer(self.arrays.get(name)) for name in ("x", "h0", "c0")]
        outputs = [pointer(self.buffers.get(name)) for name in ("y", "hN", "cN")]
        self.check(self.library.OnednnRnnForward(stack, *inputs, *outputs))
        if training:
            heads = [pointer(self.arrays.get(name)) for name in ("dy", "dhN", "dcN")]
            gradients = pointers(self.gradients, self.problem["L"])
            self.check(self.library.OnednnRnnBackward(stack, *heads, pointer(self.dx), gradients))

    def results(self, training: bool) -> dict[str, np.ndarray]:
        if not training:
            return self.buffers
        gradients = {f"d:{name}": value for name, value in self.gradients.items()}
        return {**self.buffers, "dx": self.dx, **gradients}


if __name__ == "__main__":
    serve(Model)
