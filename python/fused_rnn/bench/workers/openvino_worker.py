"""OpenVINO on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_model
import openvino
from worker import serve


class Model:
    def __init__(self, problem: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        core = openvino.Core()
        settings = {
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": problem["threads"],
            "NUM_STREAMS": 1,
        }
        model = core.read_model(onnx_model.build(problem, arrays))
        self.request = core.compile_model(model, "CPU", settings).create_infer_request()
        self.feeds = onnx_model.feeds(arrays)

    def run(self, training: bool) -> None:
        self.request.infer(self.feeds, share_inputs=True)

    def results(self, training: bool) -> dict[str, np.ndarray]:
        outputs = self.request.model_outputs
        return {
            output.get_any_name(): self.request.get_tensor(output).data.copy() for output in outputs
        }


if __name__ == "__main__":
    serve(Model)
