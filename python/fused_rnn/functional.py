"""Recurrent layers as functions of NumPy arrays, with gradients.

Shapes: input [T, N, I]; states [L*D, N, S] and, for the cell state of an lstm, [L*D, N, H]; output
[T, N, D*S]. D is 2 if bidirectional, S is P if projected, else H. All arrays of a call have one
dtype, float16, float32 or float64; float16 is computed in float32. `fused_rnn.weights.Layout` says
what is where in the vector of parameters.
"""

from __future__ import annotations

from typing import Any, Callable, Collection, NamedTuple, Sequence

import numpy as np

from fused_rnn import _core
from fused_rnn._arguments import check_sizes
from fused_rnn._arrays import as_numpy, check_one_dtype
from fused_rnn._cells import CELLS
from fused_rnn._descriptions import FUNCTIONS, described
from fused_rnn._recording import Recording

__all__ = ["Gradients", "LSTMOutputs", "Outputs", "gru", "lstm", "rnn"]


class Gradients(NamedTuple):
    """Gradients of what their names say; None for those that were not wanted or do not exist."""

    x: np.ndarray | None
    params: np.ndarray | None
    h0: np.ndarray | None
    c0: np.ndarray | None


class _Differentiable:
    """Adds the backward pass to a tuple of outputs."""

    _recording: Recording | None = None

    def _backward(self, heads: Sequence[Any], wanted: str | Collection[str]) -> Gradients:
        if self._recording is None:
            raise ValueError("backward: expected outputs of a call with training=True")
        return Gradients(*self._recording.backward(heads, wanted))


class _Pair(NamedTuple):
    y: np.ndarray
    hN: np.ndarray


class Outputs(_Differentiable, _Pair):
    """Output y [T, N, D*H] and final states hN [L*D, N, H]; unpacks as ``y, hN``.

    After a call with ``training=True``, y also serves `backward`, which refuses a changed one.
    """

    def backward(
        self,
        dy: np.ndarray | None = None,
        dhN: np.ndarray | None = None,
        wanted: str | Collection[str] = Gradients._fields,
    ) -> Gradients:
        """Gradients of a loss, from its gradients by the outputs.

        The call may be repeated. The arrays that the forward call was given and the output y must
        hold what they held at its end: a changed one is refused, and a loss is to be computed in
        another array, as in ``backward(y - target)``.

        Parameters
        ----------
        dy, dhN : array, optional
            Gradients by y and hN, in their shapes; zero if not given.
        wanted : str or collection of str
            Which gradients to compute: one name or some among "x", "params" and "h0".

        Returns
        -------
        Gradients
            Each in the shape of what it is a gradient of.

        Raises
        ------
        ValueError
            If the forward call was not for training, an argument does not fit, or x, params, h0,
            lengths or y was changed since; the message names it.
        """
        return self._backward((dy, dhN), wanted)


class _Triple(NamedTuple):
    y: np.ndarray
    hN: np.ndarray
    cN: np.ndarray


class LSTMOutputs(_Differentiable, _Triple):
    """Output y [T, N, D*S], final states hN [L*D, N, S] and cN [L*D, N, H]; unpacks so.

    After a call with ``training=True``, y also serves `backward`, which refuses a changed one.
    """

    def backward(
        self,
        dy: np.ndarray | None = None,
        dhN: np.ndarray | None = None,
        dcN: np.ndarray | None = None,
        wanted: str | Collection[str] = Gradients._fields,
    ) -> Gradients:
        """Gradients of a loss, from its gradients by the outputs.

        The call may be repeated. The arrays that the forward call was given and the output y must
        hold what they held at its end: a changed one is refused, and a loss is to be computed in
        another array, as in ``backward(y - target)``.

        Parameters
        ----------
        dy, dhN, dcN : array, optional
            Gradients by y, hN and cN, in their shapes; zero if not given.
        wanted : str or collection of str
            Which gradients to compute: one name or some among "x", "params", "h0" and "c0".

        Returns
        -------
        Gradients
            Each in the shape of what it is a gradient of.

        Raises
        ------
        ValueError
            If the forward call was not for training, an argument does not fit, or x, params, h0,
            c0, lengths or y was changed since; the message names it.
        """
        return self._backward((dy, dhN, dcN), wanted)


def _hidden_size(
    h0: np.ndarray | None, c0: np.ndarray | None, projection: int, hidden_size: int | None
) -> int:
    """H, from an initial state of that width or from the argument; both must agree."""
    name, state = ("c0", c0) if c0 is not None or projection else ("h0", h0)
    if state is None:
        if hidden_size is None:
            raise ValueError(f"hidden_size: expected a number when {name} is not given, found None")
        return hidden_size
    if hidden_size is not None and state.shape[-1:] != (hidden_size,):
        raise ValueError(
            f"{name}: expected a last size of {hidden_size} (hidden_size), found shape "
            f"{state.shape}"
        )
    return state.shape[-1]


def _run(
    outputs: Callable[..., Any],
    mode: str,
    x: np.ndarray,
    params: np.ndarray,
    h0: np.ndarray | None,
    c0: np.ndarray | None = None,
    *,
    hidden_size: int | None,
    lengths: np.ndarray | Sequence[int] | None,
    dropout_seed: int,
    training: bool,
    **options: Any,
) -> Any:
    options["lengths"] = None if lengths is None else as_numpy("lengths", lengths)
    x, params = as_numpy("x", x), as_numpy("params", params)
    h0 = None if h0 is None else as_numpy("h0", h0)
    c0 = None if c0 is None else as_numpy("c0", c0)
    if x.ndim != 3:
        raise ValueError(f"x: expected shape [T, N, I], found {x.shape}")
    check_one_dtype({"x": x, "params": params, "h0": h0, "c0": c0})
    projection = options.get("projection_size", 0)
    check_sizes(num_layers=options["num_layers"])
    check_sizes(0, projection_size=projection)
    if hidden_size is not None:
        check_sizes(hidden_size=hidden_size)
    H = _hidden_size(h0, c0, projection, hidden_size)
    states = (options["num_layers"] * (2 if options["bidirectional"] else 1), x.shape[1])
    if h0 is None:
        h0 = np.zeros((*states, projection or H), x.dtype)
    if c0 is None and CELLS[mode].has_cell_state:
        c0 = np.zeros((*states, H), x.dtype)
    inputs = (x, params, h0, c0)
    if training:
        recording = Recording(mode, inputs, options, dropout_seed=dropout_seed)
        result = outputs(*recording.outputs)
        result._recording = recording
        return result
    *found, _ = _core.forward(mode, *inputs, dropout_seed=dropout_seed, **options)
    return outputs(*(array for array in found if array is not None))


@described(FUNCTIONS, outputs="LSTMOutputs")
def lstm(
    x: np.ndarray,
    params: np.ndarray,
    h0: np.ndarray | None = None,
    c0: np.ndarray | None = None,
    *,
    hidden_size: int | None = None,
    num_layers: int = 1,
    bidirectional: bool = False,
    projection_size: int = 0,
    lengths: np.ndarray | Sequence[int] | None = None,
    clip_min: float | None = None,
    clip_max: float | None = None,
    clip_nan: bool = False,
    dropout: float = 0.0,
    dropout_seed: int = 0,
    training: bool = False,
    peephole: bool = False,
) -> LSTMOutputs:
    """Applies LSTM layers.

    Parameters
    ----------
    {arguments}
    peephole : bool
        The gates see the cell state too: i and f that of the step before, o the new one.

    Returns
    -------
    LSTMOutputs
        y [T, N, D*S], hN [L*D, N, S], cN [L*D, N, H].

    Raises
    ------
    ValueError
        If an argument does not fit; the message names it.

    Examples
    --------
    >>> x, target, params = np.ones((5, 2, 3)), np.zeros((5, 2, 4)), np.full(144, 0.1)
    >>> outputs = fused_rnn.functional.lstm(x, params, hidden_size=4, training=True)
    >>> y, hN, cN = outputs
    >>> gradients = outputs.backward(dy=y - target)
    >>> params -= 0.1 * gradients.params
    """
    options = locals()
    mode = "lstm_peephole" if options.pop("peephole") else "lstm"
    return _run(LSTMOutputs, mode, **options)


@described(FUNCTIONS, outputs="Outputs")
def gru(
    x: np.ndarray,
    params: np.ndarray,
    h0: np.ndarray | None = None,
    *,
    hidden_size: int | None = None,
    num_layers: int = 1,
    bidirectional: bool = False,
    lengths: np.ndarray | Sequence[int] | None = None,
    dropout: float = 0.0,
    dropout_seed: int = 0,
    training: bool = False,
    reset_after: bool = True,
) -> Outputs:
    """Applies GRU layers.

    Parameters
    ----------
    {arguments}
    reset_after : bool
        The reset gate acts after the recurrent product, as in MXNet; if False before it, on h.

    Returns
    -------
    Outputs
        y [T, N, D*H], hN [L*D, N, H].

    Raises
    ------
    ValueError
        If an argument does not fit; the message names it.
    """
    options = locals()
    mode = "gru" if options.pop("reset_after") else "gru_reset_before"
    return _run(Outputs, mode, **options)


@described(FUNCTIONS, outputs="Outputs")
def rnn(
    x: np.ndarray,
    params: np.ndarray,
    h0: np.ndarray | None = None,
    *,
    activation: str = "tanh",
    hidden_size: int | None = None,
    num_layers: int = 1,
    bidirectional: bool = False,
    lengths: np.ndarray | Sequence[int] | None = None,
    dropout: float = 0.0,
    dropout_seed: int = 0,
    training: bool = False,
) -> Outputs:
    """Applies vanilla RNN layers.

    Parameters
    ----------
    {arguments}
    activation : {"tanh", "relu"}
        Activation of the units.

    Returns
    -------
    Outputs
        y [T, N, D*H], hN [L*D, N, H].

    Raises
    ------
    ValueError
        If an argument does not fit; the message names it.
    """
    options = locals()
    if options.pop("activation") not in ("tanh", "relu"):
        raise ValueError(f"activation: expected 'tanh' or 'relu', found {activation!r}")
    return _run(Outputs, f"rnn_{activation}", **options)
