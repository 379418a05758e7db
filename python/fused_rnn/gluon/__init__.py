"""Gluon layers on the fused kernels."""

from fused_rnn.gluon.block import RecurrentBlock
from fused_rnn.gluon.cells import CellStateLSTM
from fused_rnn.gluon.dropout import LockedDropout, VariationalDropout
from fused_rnn.gluon.layer import GRU, LSTM, RNN
from fused_rnn.gluon.norm import SequenceBatchNorm
from fused_rnn.gluon.parameter import FusedParameter, PartParameter, split_params
from fused_rnn.gluon.stack import Stack

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "CellStateLSTM",
    "FusedParameter",
    "LockedDropout",
    "PartParameter",
    "RecurrentBlock",
    "SequenceBatchNorm",
    "Stack",
    "VariationalDropout",
    "split_params",
]
