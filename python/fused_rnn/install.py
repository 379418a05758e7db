"""Makes MXNet's own operator RNN run on the fused kernels."""

from __future__ import annotations

import inspect

from mxnet import symbol

from fused_rnn import _library
from fused_rnn._arguments import take_lengths


def install() -> None:
    """Makes RNN run as FusedRNN does, on CPU contexts and until the process ends.

    This reaches mx.sym.RNN, mx.nd.RNN, npx.rnn, gluon.rnn layers, mx.rnn.FusedRNNCell, Module and
    loaded symbols. Graphs that were bound, or recorded, before keep the operator they began with.
    Installing again does nothing. GPU contexts keep the native operator.

    Waits until MXNet has computed what it was asked for and all threads of the process sleep, for
    ten seconds at most.
    """
    library = _library.load()
    with _library.lock:
        if installed():
            return
        _library.check(_library.change_tables(library.fused_rnn_install))
        npx = symbol.numpy_extension
        # The arguments are the same, and AMP leaves npx alone.
        symbol.RNN = symbol.op.RNN = take_lengths(symbol.RNN, inspect.signature(npx.rnn))
        npx.rnn = npx._op.rnn = take_lengths(npx.rnn)


def installed() -> bool:
    """Whether `install` was called in this process."""
    return bool(_library.load().fused_rnn_installed())
