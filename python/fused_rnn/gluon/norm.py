"""Batch normalisation of sequences."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np

from fused_rnn.gluon.block import Copyable, from_legacy, to_legacy

__all__ = ["SequenceBatchNorm"]


class SequenceBatchNorm(Copyable, mx.gluon.nn.BatchNorm):
    """Batch normalisation over all steps of all sequences, padding left out.

    The normalisation between the layers of Deep Speech 2 (Amodei et al. 2015, section 3.2): mean
    and variance of a channel are those of all its steps in the batch.

    Parameters
    ----------
    layout : {"TNC", "NTC"}
        Order of time, batch and channel.
    **kwargs
        As for mx.gluon.nn.BatchNorm, without `axis`.

    Call
    ----
    block(x, sequence_length=None): x and the result are [T, N, C] or [N, T, C]; steps beyond a
    sequence's length do not count in the statistics and are 0 in the result.

    Examples
    --------
    >>> norm = fused_rnn.gluon.SequenceBatchNorm()
    >>> norm.initialize()
    >>> norm(mx.nd.ones((5, 2, 10)), mx.nd.array([5, 3])).shape
    (5, 2, 10)
    """

    def __init__(self, layout: str = "TNC", **kwargs: Any) -> None:
        if layout not in ("TNC", "NTC"):
            raise ValueError(f"layout: expected 'TNC' or 'NTC', found {layout!r}")
        super().__init__(axis=2, **kwargs)
        self._time = layout.find("T")
        self._type = np.dtype("float32")

    def cast(self, dtype: Any) -> None:
        """Casts the parameters; for float16, statistics and parameters are float32."""
        super().cast(dtype)
        self._type = np.dtype(dtype)

    def __call__(self, x: Any, sequence_length: Any = None) -> Any:
        return super().__call__(x, sequence_length)

    def hybrid_forward(self, F: Any, x: Any, sequence_length: Any = None, **params: Any) -> Any:
        if sequence_length is None:
            return super().hybrid_forward(F, x, **params)
        # SequenceMask leaves the gradient of lengths unwritten.
        x, sequence_length = to_legacy(x), F.BlockGrad(to_legacy(sequence_length))

        half = self._type == np.float16
        if half or (self._type == np.float32 and (F is mx.sym or x.dtype != np.float32)):
            x = F.amp_cast(x, dtype="float32")  # mixed precision may bring it in another type
        # What padding holds, NaN included, ends here.
        x = F.SequenceMask(x, sequence_length, use_sequence_length=True, axis=self._time)
        ones = F.ones_like(F.slice_axis(x, axis=2, begin=0, end=1))
        ones = F.SequenceMask(ones, sequence_length, use_sequence_length=True, axis=self._time)
        # Sums over steps and their gradients as matrix products: MXNet's reductions and broadcasts
        # of such shapes take many times longer.
        rows, valid = F.reshape(x, shape=(-3, 0)), F.reshape(ones, shape=(-3, 0))

        def mean(values: Any) -> Any:
            return F.broadcast_div(F.dot(valid, values, transpose_a=True), count)

        def spread_out(values: Any) -> Any:
            return F.dot(valid, values)

        count = F.maximum(F.dot(valid, valid, transpose_a=True), 1)
        center = mean(rows)
        centered = rows - spread_out(center)
        spread = F.sqrt(mean(F.square(centered)) + 1e-12)
        # BatchNorm sees two values per channel that have this mean and variance. What it makes of
        # them, with its statistics or the running ones, is a line; all values go the same way.
        ends = F.stack(F.concat(center - spread, center + spread, dim=0), axis=1)
        ends = to_legacy(super().hybrid_forward(F, from_legacy(ends), **params))
        low = F.reshape(F.slice_axis(ends, axis=0, begin=0, end=1), shape=(0, -1))
        high = F.reshape(F.slice_axis(ends, axis=0, begin=1, end=2), shape=(0, -1))
        slope, middle = (high - low) / (2 * spread), (low + high) / 2
        result = F.reshape_like(centered * spread_out(slope) + spread_out(middle), x)
        return from_legacy(F.cast(result, dtype="float16") if half else result)
