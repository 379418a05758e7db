"""Recurrent layers as `mx.sym.RNN` offers them."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet.base import _Null
from mxnet.name import NameManager

from fused_rnn._cells import operator_attributes
from fused_rnn._descriptions import OPERATOR, described

__all__ = ["RNN"]


@described(OPERATOR, tensor="Symbol")
def RNN(
    data: mx.sym.Symbol | None = None,
    parameters: mx.sym.Symbol | None = None,
    state: mx.sym.Symbol | None = None,
    state_cell: mx.sym.Symbol | None = None,
    sequence_length: mx.sym.Symbol | None = None,
    state_size: int = _Null,
    num_layers: int = _Null,
    bidirectional: bool = _Null,
    mode: str = _Null,
    p: float = _Null,
    state_outputs: bool = _Null,
    projection_size: int | None = _Null,
    lstm_state_clip_min: float | None = _Null,
    lstm_state_clip_max: float | None = _Null,
    lstm_state_clip_nan: bool = _Null,
    use_sequence_length: bool = _Null,
    name: str | None = None,
    attr: dict[str, str] | None = None,
    out: Any = None,
    **kwargs: Any,
) -> mx.sym.Symbol:
    """Applies recurrent layers to a symbol: `mx.sym.RNN` on the fused kernels.

    Inputs that are not given become variables NAME_parameters, NAME_state and so on.

    Parameters
    ----------
    {arguments}
    name : str, optional
        Name of the node; rnn0, rnn1 and so on by default.
    attr : dict, optional
        Attributes of the node and of its automatic variables.
    out : optional
        Has no effect, as in mx.sym.RNN.

    Returns
    -------
    Symbol
        Output [T, N, D*H] (or D*P), with state_outputs followed by the final states.
    """
    arguments = locals()
    if not hasattr(NameManager._current, "value"):  # a thread's first symbol
        NameManager._current.value = NameManager()
    # The counted name only: the generated function lets the manager add its prefix.
    name = NameManager.get(NameManager._current.value, name, "rnn")
    arguments.update(arguments.pop("kwargs"), name=name, **operator_attributes(mode))
    return mx.sym.FusedRNN(**arguments)
