"""Arrays of other libraries as those of NumPy."""

from __future__ import annotations

import collections
from typing import Any, Mapping

import mxnet as mx
import numpy as np

__all__ = ["as_numpy", "check_one_dtype"]


def as_numpy(name: str, value: Any) -> np.ndarray:
    """The value of an argument as an array of numbers.

    Takes what NumPy takes, arrays of MXNet, which NumPy would read element by element, and what
    has only `__dlpack__`. Raises ValueError, which names the argument, for anything else.
    """
    try:
        array = _converted(value)
    # A ragged list is a warning of NumPy's, or an error where warnings are; libraries raise what
    # they like, for instance PyTorch a RuntimeError for tensors that require a gradient.
    except (TypeError, ValueError, RuntimeError, BufferError, Warning) as error:
        found = f"a {type(value).__name__}"
        if isinstance(value, (list, tuple)):
            found += " that is ragged or holds other things than numbers"
        raise ValueError(f"{name}: expected an array of numbers, found {found}: {error}") from error
    if array.dtype.kind in "biuf":
        return array
    if "bfloat16" in str(array.dtype):
        hint = f", which NumPy has not; cast it first: {name}.astype('float32')"
        raise ValueError(f"{name}: expected an array of NumPy's numbers, found bfloat16{hint}")
    found = "None" if value is None else f"a {type(value).__name__} of dtype {array.dtype}"
    if isinstance(value, (list, tuple)):
        found += " (ragged?)"
    raise ValueError(f"{name}: expected an array of numbers, found {found}")


def _converted(value: Any) -> np.ndarray:
    if isinstance(value, mx.nd.NDArray):
        return value.asnumpy()
    if isinstance(value, (list, tuple)):
        return np.asarray([v.asnumpy() if isinstance(v, mx.nd.NDArray) else v for v in value])
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        return np.from_dlpack(value)
    return np.asarray(value)


def check_one_dtype(arrays: Mapping[str, np.ndarray | None]) -> None:
    """Raises ValueError for the first that differs from most; of two, the first one is right."""
    dtypes = {name: array.dtype for name, array in arrays.items() if array is not None}
    expected = collections.Counter(dtypes.values()).most_common(1)[0][0]
    for name, dtype in dtypes.items():
        if dtype.kind != "f":
            raise ValueError(f"{name}: expected dtype float16, float32 or float64, found {dtype}")
        if dtype != expected:
            others = ", ".join(n for n, d in dtypes.items() if d == expected)
            raise ValueError(
                f"{name}: expected dtype {expected}, as {others}, found {dtype}; cast it with "
                f"{name}.astype('{expected}')"
            )
