"""Export of models with fused layers to ONNX files, by MXNet's own exporter.

Needs the package onnx: ``pip install 'fused-rnn[onnx]'``.
"""

from fused_rnn.onnx.exporter import export

__all__ = ["export"]
