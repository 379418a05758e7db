"""What `fused_rnn.nd.RNN` and `fused_rnn.sym.RNN` do alike with their arguments."""

from __future__ import annotations

from typing import TypeVar

_Input = TypeVar("_Input")


def split_states(
    mode: str, state_cell: _Input | None, sequence_length: _Input | None
) -> tuple[_Input | None, _Input | None]:
    """Lets modes without a cell state take sequence_length as the fourth positional input."""
    if mode != "lstm" and sequence_length is None:
        return None, state_cell
    return state_cell, sequence_length
