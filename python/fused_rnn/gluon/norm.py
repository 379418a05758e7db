"""Batch normalisation of sequences."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np

from fused_rnn.gluon.block import from_legacy, to_legacy

__all__ = ["SequenceBatchNorm"]


class SequenceBatchNorm(mx.gluon.nn.BatchNorm):
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
        self._half = False

    def cast(self, dtype: Any) -> None:
        """Casts the parameters; for float16, statistics and parameters are float32."""
        super().cast(dtype)
        self._half = np.dtype(dtype) == np.float16

    def __call__(self, x: Any, sequence_length: Any = None) -> Any:
        return super().__call__(x, sequence_length)

    def hybrid_forward(self, F: Any, x: Any, sequence_length: Any = None, **params: Any) -> Any:
        if sequence_length is None:
            return super().hybrid_forward(F, x, **params)
        x, sequence_length = to_legacy(x), to_legacy(sequence_length)

        def mask(values: Any) -> Any:
            return F.SequenceMask(
                values, sequence_length, use_sequence_length=True, axis=self._time
            )

        # What padding holds, NaN included, ends here.
        x = mask(F.cast(x, dtype="float32") if self._half else x)

        def mean(values: Any) -> Any:
            return F.broadcast_div(F.sum(mask(values), axis=(0, 1), keepdims=True), count)

        valid = mask(F.ones_like(F.slice_axis(x, axis=2, begin=0, end=1)))
        count = F.maximum(F.sum(valid, axis=(0, 1), keepdims=True), 1)
        center = mean(x)
        spread = F.sqrt(mean(F.square(F.broadcast_sub(x, center))) + 1e-12)
        # BatchNorm sees two values per channel that have this mean and variance. What it makes of
        # them, with its statistics or the running ones, is a line; all values go the same way.
        low, high = F.broadcast_sub(center, spread), F.broadcast_add(center, spread)
        ends = from_legacy(F.concat(low, high, dim=0))
        ends = to_legacy(super().hybrid_forward(F, ends, **params))
        low = F.slice_axis(ends, axis=0, begin=0, end=1)
        high = F.slice_axis(ends, axis=0, begin=1, end=2)
        slope = F.broadcast_div(F.broadcast_sub(high, low), 2 * spread)
        middle = F.broadcast_add(high, low) / 2
        normalised = F.broadcast_add(F.broadcast_mul(F.broadcast_sub(x, center), slope), middle)
        result = mask(normalised)
        return from_legacy(F.cast(result, dtype="float16") if self._half else result)
