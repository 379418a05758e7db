"""Gluon layers on the fused kernels."""

from fused_rnn.gluon.layer import GRU, LSTM, RNN
from fused_rnn.gluon.parameter import FusedParameter, PartParameter, split_params

__all__ = ["GRU", "LSTM", "RNN", "FusedParameter", "PartParameter", "split_params"]
