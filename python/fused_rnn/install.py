"""Makes MXNet's own operator RNN run on the fused kernels."""

from __future__ import annotations

from fused_rnn import _library


def install() -> None:
    """Makes RNN run as FusedRNN does, on CPU contexts and until the process ends.

    This reaches mx.sym.RNN, mx.nd.RNN, npx.rnn, gluon.rnn layers, mx.rnn.FusedRNNCell, Module and
    loaded symbols. Graphs that were bound, or recorded, before keep the operator they began with.
    Installing again does nothing. GPU contexts keep the native operator.
    """
    _library.check(_library.load().fused_rnn_install())


def installed() -> bool:
    """Whether `install` was called in this process."""
    return bool(_library.load().fused_rnn_installed())
