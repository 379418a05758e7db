"""PyTorch: torch.nn.LSTM, GRU and RNN on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn.utils import rnn
from worker import serve, weights


class Model:
    def __init__(self, problem: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        torch.set_num_threads(problem["threads"])
        mode = problem["mode"]
        options = {} if mode in ("lstm", "gru") else {"nonlinearity": mode[len("rnn_") :]}
        self.module = getattr(torch.nn, mode.split("_")[0].upper())(
            problem["I"],
            problem["H"],
            problem["L"],
            bidirectional=problem["D"] == 2,
            dtype=getattr(torch, problem["dtype"]),
            **options,
        )
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        self.module.load_state_dict({k: torch.from_numpy(v) for k, v in weights(arrays).items()})
        self.x = tensors["x"]
        self.state = (tensors["h0"], tensors["c0"]) if mode == "lstm" else tensors["h0"]
        self.heads = [tensors[name] for name in ("dy", "dhN", "dcN") if name in tensors]
        self.lengths = tensors.get("lengths")

    def forward(self) -> list[torch.Tensor]:
        x = self.x
        if self.lengths is not None:
            x = rnn.pack_padded_sequence(x, self.lengths, enforce_sorted=False)
        y, state = self.module(x, self.state)
        if self.lengths is not None:
            y, _ = rnn.pad_packed_sequence(y, total_length=len(self.x))
        return [y, *state] if isinstance(state, tuple) else [y, state]

    def run(self, training: bool) -> None:
        if training:
            self.x.requires_grad_()
            self.x.grad = None
            self.module.zero_grad()
            self.outputs = self.forward()
            torch.autograd.backward(self.outputs, self.heads)
        else:
            self.x.requires_grad_(False)
            with torch.inference_mode():
                self.outputs = self.forward()

    def results(self, training: bool) -> dict[str, np.ndarray]:
        named = dict(zip(("y", "hN", "cN"), (o.detach().numpy() for o in self.outputs)))
        if training:
            named["dx"] = self.x.grad.numpy()
            named.update({f"d:{k}": p.grad.numpy() for k, p in self.module.named_parameters()})
        return named


if __name__ == "__main__":
    serve(Model)
