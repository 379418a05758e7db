"""An LSTM that shows its cell states."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet.util import is_np_array

from fused_rnn import ndarray as nd
from fused_rnn import symbol as sym
from fused_rnn.gluon.layer import LSTM

__all__ = ["CellStateLSTM"]


class CellStateLSTM(LSTM):
    """An `LSTM` of one layer and direction that also returns the cell state after every step.

    It calls the operator once per step, and so is slower than `LSTM`, which reads and writes the
    same parameters.

    Parameters
    ----------
    hidden_size : int
        H.
    **kwargs
        As for `LSTM`, but num_layers and bidirectional.

    Call
    ----
    Takes what `LSTM` does. Returns (output, cells), or, if states were given, (output, cells,
    [hN, cN]); cells are [T, N, H], or [N, T, H] with layout "NTC", and 0 beyond a sequence's
    length.

    Examples
    --------
    >>> layer = fused_rnn.gluon.CellStateLSTM(100)
    >>> layer.initialize()
    >>> output, cells = layer(mx.nd.ones((5, 2, 10)))
    """

    def __init__(self, hidden_size: int, **kwargs: Any) -> None:
        for name in ("num_layers", "bidirectional"):
            if kwargs.get(name, 1) != 1 and kwargs[name]:
                raise ValueError(f"{name}: expected one layer and direction, found {kwargs[name]}")
        super().__init__(hidden_size, **kwargs)

    def hybrid_forward(
        self,
        F: Any,
        inputs: Any,
        states: list | None = None,
        sequence_length: Any = None,
        *,
        parameters: Any,
    ) -> Any:
        if self._weight_drop:
            parameters = self._drop_weights(F, parameters)
        to_result = mx.nd.NDArray.as_np_ndarray if F is mx.nd else mx.sym.Symbol.as_np_ndarray
        if is_np_array():
            inputs, parameters = inputs.as_nd_ndarray(), parameters.as_nd_ndarray()
            sequence_length = sequence_length and sequence_length.as_nd_ndarray()
            states = states and [state.as_nd_ndarray() for state in states]
        else:
            to_result = _unchanged
        if self._layout == "NTC":
            inputs = F.swapaxes(inputs, 0, 1)
        steps = [inputs]
        first_channel = F.slice_axis(inputs, axis=2, begin=0, end=1)
        if sequence_length is not None:
            ones = F.squeeze(F.ones_like(first_channel), axis=2)
            # [T, N]: each step is a sequence of length 1, or 0 beyond the end, which leaves the
            # states as they are.
            steps.append(F.SequenceMask(ones, sequence_length, use_sequence_length=True))
        begin = states
        if begin is None:
            zero = F.zeros_like(F.slice_axis(first_channel, axis=0, begin=0, end=1))
            sizes = (self._projection_size or self._hidden_size, self._hidden_size)
            begin = [F.broadcast_axis(zero, axis=2, size=size) for size in sizes]
