"""What the arguments mean that several functions take, in the form of their docstrings.

`described` writes it into a docstring in place of {arguments}. The API reference, which is made
from sources without running them, does the same by tools/described.py; so this imports nothing that
needs MXNet.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, Callable, Iterable, TypeVar

from fused_rnn._cells import CELLS

__all__ = ["FUNCTIONS", "OPERATOR", "described", "describe"]

Function = TypeVar("Function", bound=Callable[..., Any])


def _listed(modes: Iterable[str]) -> str:
    *some, last = (f'"{mode}"' for mode in modes)
    return f"{', '.join(some)} or {last}" if some else last


def _where(feature: str) -> str:
    return _listed(mode for mode, cell in CELLS.items() if getattr(cell, feature))


# Arguments of nd.RNN and sym.RNN, which are those of MXNet's RNN; {tensor} is NDArray or Symbol.
OPERATOR = f"""
data : {{tensor}}
    Input, [T, N, I].
parameters : {{tensor}}
    All weights, then all biases, then peepholes, as one vector.
state : {{tensor}}
    Initial hidden state, [L*D, N, H], or [L*D, N, P] with a projection.
state_cell : {{tensor}}, optional
    Initial cell state, [L*D, N, H]; only for mode {_where("has_cell_state")}.
    Other modes take sequence_length in this position too.
sequence_length : {{tensor}}, optional
    Length of each sequence, [N]; only if use_sequence_length.
state_size, num_layers : int
    H and L.
mode : str
    {_listed(CELLS)}.
bidirectional : bool, default False
    D is 2 instead of 1.
p : float, default 0
    Probability that an element of the output of a layer but the last is dropped in training.
state_outputs : bool, default False
    The final states are outputs as well.
projection_size : int, optional
    P; only for mode {_where("projects")}.
lstm_state_clip_min, lstm_state_clip_max : float, optional
    Range into which the cell state is clipped; only for mode {_where("clips")}.
lstm_state_clip_nan : bool, default False
    NaN in the cell state is clipped too.
use_sequence_length : bool, default False
    Sequences end at their own lengths.
"""

# Arguments of the functions of NumPy arrays; {outputs} is what they return.
FUNCTIONS = """
x : array [T, N, I]
    Input.
params : array
    All weights, then all biases, then peepholes, as one vector.
h0 : array [L*D, N, S], optional
    Initial hidden states; zeros by default.
c0 : array [L*D, N, H], optional
    Initial cell states; zeros by default.
hidden_size : int, optional
    H; needed if no initial state tells it.
num_layers : int
    L.
bidirectional : bool
    D is 2 instead of 1.
projection_size : int
    P; 0 is none.
lengths : integers [N], optional
    Length of each sequence, 0 to T; beyond it y is 0.
clip_min, clip_max : float, optional
    Range into which cell states are clipped; both or neither.
clip_nan : bool
    NaN in cell states is clipped too.
dropout : float
    Probability that an element of the output of a layer but the last is dropped; acts only in
    training.
dropout_seed : int
    The same seed drops the same elements.
training : bool
    Keeps what `{outputs}.backward` needs. The arrays given here and y are part of it: they
    must not be changed before the last backward call.
"""


def describe(docstring: str, names: Iterable[str], description: str, **words: str) -> str:
    """A docstring with the entries of these parameters in place of {arguments}.

    An entry of several parameters is taken if all of them are among the names; words replace those
    in braces.
    """
    taken = []
    for entry in re.split(r"\n(?=\S)", description.strip()):
        if set(entry.split(" : ")[0].split(", ")) <= set(names):
            taken.append(entry.format(**words))
    return inspect.cleandoc(docstring).replace("{arguments}", "\n".join(taken))


def described(description: str, **words: str) -> Callable[[Function], Function]:
    """A decorator that completes a function's docstring by `describe`."""

    def complete(function: Function) -> Function:
        if function.__doc__:  # there is none under python -OO
            names = inspect.signature(function).parameters
            function.__doc__ = describe(function.__doc__, names, description, **words)
        return function

    return complete
