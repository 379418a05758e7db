"""Recurrent layers as `mx.sym.RNN` offers them."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet.base import _Null
from mxnet.name import NameManager

from fused_rnn._cells import operator_attributes

__all__ = ["RNN"]


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
    data : Symbol
        Input, [T, N, I].
    parameters : Symbol
        All weights, then all biases, as one vector.
    state : Symbol
        Initial hidden state, [L*D, N, H], or [L*D, N, P] with a projection.
    state_cell : Symbol, optional
        Initial cell state, [L*D, N, H]; only for mode "lstm". Other modes take sequence_length
        in this position too.
    sequence_length : Symbol, optional
        Length of each sequence, [N]; only if use_sequence_length.
    state_size, num_layers : int
        H and L.
    mode : str
        "rnn_relu", "rnn_tanh", "lstm" or "gru".
    bidirectional : bool, default False
        D is 2 instead of 1.
    p : float, default 0
        Probability that an element of the output of a layer but the last is dropped in training.
    state_outputs : bool, default False
        The final states are outputs as well.
    projection_size : int, optional
        P; only for mode "lstm".
    lstm_state_clip_min, lstm_state_clip_max : float, optional
        Range into which the cell state is clipped.
    lstm_state_clip_nan : bool, default False
        NaN in the cell state is clipped too.
    use_sequence_length : bool, default False
        Sequences end at their own lengths.
    name : str, optional
        Name of the node; rnn0, rnn1 and so on by default.
    attr : dict, optional
        Attributes of the node and of its automatic variables.

    Returns
    -------
    Symbol
        Output [T, N, D*H] (or D*P), with state_outputs followed by the final states.
    """
    if not hasattr(NameManager._current, "value"):  # a thread's first symbol
        NameManager._current.value = NameManager()
    # The counted name only: the generated function lets the manager add its prefix.
    name = NameManager.get(NameManager._current.value, name, "rnn")
    return mx.sym.FusedRNN(
        data,
        parameters,
        state,
        state_cell,
        sequence_length,
        state_size=state_size,
        num_layers=num_layers,
        bidirectional=bidirectional,
        **operator_attributes(mode),
        p=p,
        state_outputs=state_outputs,
        projection_size=projection_size,
        lstm_state_clip_min=lstm_state_clip_min,
        lstm_state_clip_max=lstm_state_clip_max,
        lstm_state_clip_nan=lstm_state_clip_nan,
        use_sequence_length=use_sequence_length,
        name=name,
        attr=attr,
        out=out,
        **kwargs,
    )
