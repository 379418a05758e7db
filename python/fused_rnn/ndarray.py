"""Recurrent layers as `mx.nd.RNN` offers them."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet.base import _Null

from fused_rnn._cells import operator_attributes

__all__ = ["RNN"]


def RNN(
    data: mx.nd.NDArray | None = None,
    parameters: mx.nd.NDArray | None = None,
    state: mx.nd.NDArray | None = None,
    state_cell: mx.nd.NDArray | None = None,
    sequence_length: mx.nd.NDArray | None = None,
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
    out: mx.nd.NDArray | list[mx.nd.NDArray] | None = None,
    name: str | None = None,
    **kwargs: Any,
) -> mx.nd.NDArray | list[mx.nd.NDArray]:
    """Applies recurrent layers to an array: `mx.nd.RNN` on the fused kernels.

    Parameters
    ----------
    data : NDArray
        Input, [T, N, I].
    parameters : NDArray
        All weights, then all biases, as one vector.
    state : NDArray
        Initial hidden state, [L*D, N, H], or [L*D, N, P] with a projection.
    state_cell : NDArray, optional
        Initial cell state, [L*D, N, H]; only for mode "lstm". Other modes take sequence_length
        in this position too.
    sequence_length : NDArray, optional
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
    out : NDArray or list of NDArray, optional
        Where the outputs go; may be inputs.

    Returns
    -------
    NDArray or list of NDArray
        Output [T, N, D*H] (or D*P); with state_outputs a list of it and the final states.
    """
    return mx.nd.FusedRNN(
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
        out=out,
        name=name,
        **kwargs,
    )
