"""Weights of recurrent layers in the forms of MXNet, PyTorch and ONNX."""

from fused_rnn.weights.layout import Layout
from fused_rnn.weights.onnx import OnnxLayer, from_onnx, to_onnx
from fused_rnn.weights.torch import from_torch, to_torch

__all__ = ["Layout", "OnnxLayer", "from_onnx", "from_torch", "to_onnx", "to_torch"]
