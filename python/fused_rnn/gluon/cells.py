"""An LSTM that shows its cell states."""

from __future__ import annotations

from typing import Any

import mxnet as mx

from fused_rnn import ndarray as nd
from fused_rnn.gluon.block import from_legacy, to_legacy
from fused_rnn.gluon.layer import LSTM

__all__ = ["CellStateLSTM"]


class CellStateLSTM(LSTM):
    """An `LSTM` of one layer and direction that also returns the cell state after every step.

    It calls the operator once per step, and so is slower than `LSTM`, with which it can share its
    parameters. It works on arrays alone: `hybridize` leaves it as it is, and a hybridized block
    cannot hold it.

    Parameters
    ----------
    hidden_size : int
        H.
    **kwargs
        As for `LSTM`, without num_layers and bidirectional.

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
        super().__init__(hidden_size, **kwargs)
        if self._num_layers != 1 or self._dir != 1:
            raise ValueError(
                f"num_layers, bidirectional: expected one layer and direction, found "
                f"{self._num_layers} and {self._dir}"
            )

    def hybridize(self, *_: Any, **__: Any) -> None:
        """Does nothing: the number of steps is not known to a graph."""

    def infer_shape(self, inputs: mx.nd.NDArray, *_: Any) -> None:
        """Takes the input size from the inputs."""
        self.parameters.set_input_size(inputs.shape[2])

    def hybrid_forward(
        self,
        F: Any,
        inputs: Any,
        states: list | None = None,
        sequence_length: Any = None,
        *,
        parameters: Any,
    ) -> Any:
        if F is not mx.nd:
            raise NotImplementedError("CellStateLSTM: expected arrays, found symbols")
        begin = self._zero_states(F, inputs) if states is None else states
        inputs, state, sequence_length, parameters = map(
            to_legacy, (inputs, begin, sequence_length, self._dropped(F, parameters))
        )
        if self._layout == "NTC":
            inputs = F.swapaxes(inputs, 0, 1)
        # Each step is a sequence of length 1, or 0 beyond the end, which leaves the states alone.
        valid = F.ones(inputs.shape[:2], ctx=inputs.ctx, dtype=inputs.dtype)
        if sequence_length is not None:
            valid = F.SequenceMask(valid, sequence_length, use_sequence_length=True)
        outputs, cells = [], []
        for t in range(inputs.shape[0]):
            output, *state = nd.RNN(
                inputs[t : t + 1],
                parameters,
                *state,
                valid[t],
                state_outputs=True,
                **{**self._operator_options(), "use_sequence_length": True},
            )
            outputs.append(output)
            cells.append(state[1])
        axis = self._layout.find("T")
        if axis:
            outputs, cells = ([F.swapaxes(a, 0, 1) for a in arrays] for arrays in (outputs, cells))
            valid = F.swapaxes(valid, 0, 1)
        output = F.concat(*outputs, dim=axis)
        cells = F.broadcast_mul(F.concat(*cells, dim=axis), F.expand_dims(valid, axis=2))
        results = [output, cells] if states is None else [output, cells, state]
        return tuple(from_legacy(results))
