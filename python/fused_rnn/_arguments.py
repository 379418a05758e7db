"""Arguments: checks, and what MXNet's generated functions of symbols lack."""

from __future__ import annotations

import functools
import inspect
import operator
from typing import Any, Callable

from fused_rnn._cells import CELLS

__all__ = ["check_probability", "check_sizes", "take_lengths"]

_MOST = {"num_layers": 1 << 16}  # others: 1 << 28, whose products fit in 64 bits


def check_probability(name: str, value: float) -> None:
    """Raises ValueError for what is not in [0, 1], NaN included."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name}: expected a number in [0, 1], found {value}")


def check_sizes(least: int = 1, **sizes: Any) -> None:
    """Raises ValueError for what is not a whole number from `least` to what makes sense."""
    for name, value in sizes.items():
        most = _MOST.get(name, 1 << 28)
        try:
            fits = least <= operator.index(value) <= most
        except TypeError:
            fits = False
        if not fits:
            raise ValueError(
                f"{name}: expected a whole number from {least} to {most}, found {value!r}"
            )


def take_lengths(
    function: Callable[..., Any], signature: inspect.Signature | None = None
) -> Callable[..., Any]:
    """A symbol function `RNN` that takes lengths as the fourth input in modes without a cell state.

    There they are the fourth input, and arrays are passed on in order. Symbols are passed on by
    name, so that the generated function, which is the same for all modes, calls them state_cell.
    `signature` is for a function that was wrapped in one of (*args, **kwargs), as AMP does.
    """
    signature = signature or inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        given = bound.arguments
        cell = CELLS.get(given.get("mode"))
        has_cell_state = cell is not None and cell.has_cell_state
        if not has_cell_state and given.get("sequence_length") is None:
            given["sequence_length"] = given.pop("state_cell", None)
        return function(*bound.args, **bound.kwargs)

    return call
