"""Recurrent layers as `mx.nd.RNN` offers them."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet.base import _Null

from fused_rnn._cells import CELL_ATTRIBUTE, VARIANTS
from fused_rnn._descriptions import OPERATOR, described

__all__ = ["RNN"]


@described(OPERATOR, tensor="NDArray")
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
    {arguments}
    out : NDArray or list of NDArray, optional
        Where the outputs go; may be inputs.
    name : str, optional
        Has no effect, as in mx.nd.RNN.

    Returns
    -------
    NDArray or list of NDArray
        Output [T, N, D*H] (or D*P); with state_outputs a list of it and the final states.
    """
    if mode in VARIANTS:
        kwargs[CELL_ATTRIBUTE], mode = mode, VARIANTS[mode]
    # One by one: by way of a dictionary they would take twice as long, almost a microsecond.
    return mx.nd.FusedRNN(
        data,
        parameters,
        state,
        state_cell,
        sequence_length,
        state_size=state_size,
        num_layers=num_layers,
        bidirectional=bidirectional,
        mode=mode,
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
