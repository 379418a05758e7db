"""Dropout that stays the same over the steps of a sequence, or over a whole call."""

from __future__ import annotations

import math
from typing import Any

import mxnet as mx
from mxnet.util import is_np_array

from fused_rnn.gluon.block import Copyable, RecurrentBlock, from_legacy, to_legacy
from fused_rnn.weights.layout import Layout, part_name

__all__ = ["LockedDropout", "VariationalDropout"]


class LockedDropout(Copyable, mx.gluon.HybridBlock):
    """Dropout with one mask for all steps of a sequence (Gal and Ghahramani 2016).

    Parameters
    ----------
    rate : float
        Probability that a channel of a sequence is dropped in training; the others grow by
        1 / (1 - rate).
    layout : {"TNC", "NTC"}
        Order of time, batch and channel.

    Call
    ----
    block(x): x and the result are [T, N, C] or [N, T, C].

    Examples
    --------
    >>> net = mx.gluon.nn.HybridSequential()
    >>> net.add(fused_rnn.gluon.LSTM(100), fused_rnn.gluon.LockedDropout(0.4))
    """

    def __init__(self, rate: float, layout: str = "TNC", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise ValueError(f"rate: expected a number in [0, 1), found {rate}")
        if layout not in ("TNC", "NTC"):
            raise ValueError(f"layout: expected 'TNC' or 'NTC', found {layout!r}")
        self._rate = rate
        self._axis = layout.find("T")

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        if not self._rate:
            return x
        dropout = F.npx.dropout if is_np_array() else F.Dropout
        return dropout(x, p=self._rate, axes=(self._axis,))

    def __repr__(self) -> str:
        return f"LockedDropout(rate={self._rate})"


class VariationalDropout(RecurrentBlock):
    """A recurrent layer with locked dropout on what goes in and what comes out.

    The recurrent connections take the layer's own `weight_drop`; a mask on the states at each step
    would need another operator.

    Parameters
    ----------
    layer : Block
        A layer of fused_rnn.gluon; it is called, and calls are passed on, with states and lengths.
    inputs, outputs : float
        Rates as for `LockedDropout`.

    Examples
    --------
    >>> layer = fused_rnn.gluon.LSTM(1150, weight_drop=0.5)
    >>> layer = fused_rnn.gluon.VariationalDropout(layer, inputs=0.65, outputs=0.3)
    """

    def __init__(
        self, layer: RecurrentBlock, inputs: float = 0, outputs: float = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.layer = layer
        with self.name_scope():
            self.before = LockedDropout(inputs, layer._layout)
            self.after = LockedDropout(outputs, layer._layout)
        self._layout = layer._layout

    def begin_state(self, *args: Any, **kwargs: Any) -> list:
        """The layer's."""
        return self.layer.begin_state(*args, **kwargs)

    def hybrid_forward(
        self, F: Any, inputs: Any, states: list | None = None, sequence_length: Any = None
    ) -> Any:
        result = self.layer(self.before(inputs), states, sequence_length)
        if states is None:
            return self.after(result)
        return self.after(result[0]), result[1]


def drop_recurrent_weights(F: Any, parameters: Any, rate: float, layout: Layout) -> Any:
    """Dropout on the recurrent matrices within a layer's flat parameter.

    Offsets count from the end, where they do not depend on the input size: a graph may have to do
    without it.
    """
    parameters = to_legacy(parameters)
    parts = layout.parts

    def from_end(name: str) -> int:
        return parts[name].begin - layout.size

    biases = from_end("l0_i2h_bias")
    projected = "l0_h2r_weight" in parts
    # Where the recurrent matrix is in the weights of one direction.
    before = -sum(
        math.prod(parts[name].shape) for name in ("l0_h2h_weight", "l0_h2r_weight") if name in parts
    )
    after = -math.prod(parts["l0_h2r_weight"].shape) if projected else None
    pieces = []
    for l in range(layout.num_layers):
        begin = from_end(part_name(l, 0, "i2h_weight")) if l else 0
        above = l + 1 < layout.num_layers
        end = from_end(part_name(l + 1, 0, "i2h_weight")) if above else biases
        weights = F.slice_axis(parameters, axis=0, begin=begin, end=end)
        weights = F.reshape(weights, shape=(layout.directions, -1))
        sides = [
            F.slice_axis(weights, axis=1, begin=0, end=before),
            F.Dropout(F.slice_axis(weights, axis=1, begin=before, end=after), p=rate),
        ]
        if projected:
            sides.append(F.slice_axis(weights, axis=1, begin=after, end=None))
        pieces.append(F.reshape(F.concat(*sides, dim=1), shape=(-1,)))
    pieces.append(F.slice_axis(parameters, axis=0, begin=biases, end=None))
    # The last operator gives the result the shape of the parameters, in both directions: what the
    # recurrent operator expects of it tells theirs.
    result = F._internal._identity_with_attr_like_rhs(F.concat(*pieces, dim=0), parameters)
    return from_legacy(result)
