"""The operator in MXNet's automatic mixed precision, mx.contrib.amp."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import mxnet as mx
from mxnet.contrib.amp import amp, lists

__all__ = ["exact_lengths", "register"]


def register() -> None:
    """Makes AMP treat FusedRNN as RNN: it computes in float16, or in float32 next to bfloat16.

    npx.fused_rnn needs nothing: in a graph it is FusedRNN, and `amp.init` leaves npx alone.
    """
    _leave_zeros_alone(lists.symbol_bf16)
    for module in (lists.symbol_fp16, lists.symbol_bf16):
        for names in vars(module).values():
            if isinstance(names, list) and "RNN" in names and "FusedRNN" not in names:
                names.append("FusedRNN")
    if amp._amp_initialized:
        warnings.warn(
            "mx.contrib.amp.init() was called before fused_rnn was imported and does not reach its "
            "operator, which will refuse inputs of mixed types: import fused_rnn before amp.init()",
            RuntimeWarning,
            stacklevel=3,
        )


def _leave_zeros_alone(module: ModuleType) -> None:
    """Moves _zeros, which initial states are made with, to the operators of either type: for the
    others `amp.init` casts inputs, and fails on a symbol that has none.
    """
    if "_zeros" in module.FP32_FUNCS:
        module.FP32_FUNCS.remove("_zeros")
        module.BF16_FP32_FUNCS.append("_zeros")


def exact_lengths(F: Any, lengths: Any) -> Any:
    """Lengths in a type that AMP leaves as it is, where it may come to them; None stays.

    It would cast float32 to float16, in which 2501 is 2500. A graph may be given to it later.
    """
    if lengths is None or (F is mx.nd and not amp._amp_initialized):
        return lengths
    return lengths.astype("float64")
