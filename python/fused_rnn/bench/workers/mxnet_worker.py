"""MXNet: its operator (native), ours (fused), or mx.rnn.LSTMCell unrolled (unfused)."""

from __future__ import annotations

import functools
import sys
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.contrib.amp.amp import bfloat16
from worker import serve, weights


def array(value: np.ndarray, dtype: str) -> mx.nd.NDArray:
    """A value in the row's type."""
    if dtype == "bfloat16":
        return mx.nd.amp_cast(mx.nd.array(value, dtype="float32"), dtype=bfloat16)
    return mx.nd.array(value, dtype=dtype)


def to_numpy(value: mx.nd.NDArray) -> np.ndarray:
    """The values; 16-bit types as float32."""
    if value.dtype not in (np.float32, np.float64):
        value = mx.nd.amp_cast(value, dtype="float32")
    return value.asnumpy()


class Executor:
    """A symbol bound to its arrays: MXNet makes the state of an operator once, and not, as in calls
    on arrays, for each call.
    """

    executor: mx.executor.Executor
    heads: list[mx.nd.NDArray]

    def run(self, training: bool) -> None:
        self.executor.forward(is_train=training)
        if training:
            self.executor.backward(self.heads)
        mx.nd.waitall()


class Operator(Executor):
    """A fused operator, by its name in mx.sym."""

    def __init__(self, name: str, problem: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        dtype = problem["dtype"]
        inputs = {
            "data": array(arrays["x"], dtype),
            "parameters": array(arrays["w:params"], dtype),
            "state": array(arrays["h0"], dtype),
        }
        self.heads = [array(arrays["dy"], dtype), array(arrays["dhN"], dtype)]
        options = {
            "mode": problem["mode"],
            "state_size": problem["H"],
            "num_layers": problem["L"],
            "bidirectional": problem["D"] == 2,
            "state_outputs": True,
        }
        if "c0" in arrays:
            inputs["state_cell"] = array(arrays["c0"], dtype)
            self.heads.append(array(arrays["dcN"], dtype))
        if "lengths" in arrays:
            inputs["sequence_length"] = mx.nd.array(arrays["lengths"], dtype="int32")
            options["use_sequence_length"] = True
        symbol = getattr(mx.sym, name)(**{key: mx.sym.var(key) for key in inputs}, **options)
        self.gradients = {key: mx.nd.zeros_like(inputs[key]) for key in ("data", "parameters")}
        requests = {key: "write" if key in self.gradients else "null" for key in inputs}
        self.executor = symbol.bind(mx.cpu(), inputs, self.gradients, requests)
        mx.nd.waitall()

    def results(self, training: bool) -> dict[str, np.ndarray]:
        named = dict(zip(("y", "hN", "cN"), map(to_numpy, self.executor.outputs)))
        if training:
            named["dx"] = to_numpy(self.gradients["data"])
            named["d:params"] = to_numpy(self.gradients["parameters"])
        return named


class Unrolled(Executor):
    """mx.rnn.LSTMCell, one node of the graph for each operation of each step."""

    def __init__(self, problem: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        stack = mx.rnn.SequentialRNNCell()
        begin, values = [], {"x": arrays["x"], **weights(arrays)}
        for l in range(problem["L"]):
            stack.add(mx.rnn.LSTMCell(problem["H"], prefix=f"l{l}_"))
            for state in ("h0", "c0"):
                begin.append(mx.sym.var(f"{state}_{l}"))
                values[f"{state}_{l}"] = arrays[state][l]
        outputs, states = stack.unroll(
            problem["T"], mx.sym.var("x"), begin_state=begin, layout="TNC", merge_outputs=True
        )
        arguments = {name: mx.nd.array(value) for name, value in values.items()}
        self.gradients = {
            name: mx.nd.zeros(value.shape)
            for name, value in arguments.items()
            if not name.startswith(("h0_", "c0_"))
        }
        requests = {name: "write" if name in self.gradients else "null" for name in arguments}
        self.executor = mx.sym.Group([outputs, *states]).bind(
            mx.cpu(), arguments, self.gradients, requests
        )
        self.heads = [mx.nd.array(arrays["dy"])]
        for l in range(problem["L"]):
            self.heads += [mx.nd.array(arrays[name][l]) for name in ("dhN", "dcN")]
        mx.nd.waitall()

    def results(self, training: bool) -> dict[str, np.ndarray]:
        y, *states = (output.asnumpy() for output in self.executor.outputs)
        named = {"y": y, "hN": np.stack(states[0::2]), "cN": np.stack(states[1::2])}
        if training:
            gradients = {name: value.asnumpy() for name, value in self.gradients.items()}
            named["dx"] = gradients.pop("x")
            named.update({f"d:{name}": value for name, value in gradients.items()})
        return named


if __name__ == "__main__":
    if sys.argv[1] == "fused":
        import fused_rnn  # noqa: F401  makes mx.sym.FusedRNN
    serve(
        {
            "native": functools.partial(Operator, "RNN"),
            "fused": functools.partial(Operator, "FusedRNN"),
            "unfused": Unrolled,
        }[sys.argv[1]]
    )
