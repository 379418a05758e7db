"""ONNX Runtime on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_model
import onnxruntime
from worker import serve


class Model:
    def __init__(self, problem: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = problem["threads"]
        options.inter_op_num_threads = 1
        # No spinning after a call, which would take a core from whoever is timed next.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self.session = onnxruntime.InferenceSession(
            onnx_model.build(problem, arrays), options, providers=["CPUExecutionProvider"]
        )
        self.feeds = onnx_model.feeds(arrays)

    def run(self, training: bool) -> None:
        self.outputs = self.session.run(None, self.feeds)

    def results(self, training: bool) -> dict[str, np.ndarray]:
        return dict(zip(("y", "hN", "cN"), self.outputs))


if __name__ == "__main__":
    serve(Model)
