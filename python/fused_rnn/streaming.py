"""Sequences that arrive step by step: recurrent layers that keep their states between calls."""

from __future__ import annotations

from typing import Any, Sequence

import mxnet as mx
import numpy as np
from mxnet.gluon import rnn as stock

from fused_rnn import _core
from fused_rnn._arrays import as_numpy
from fused_rnn.weights import Layout

__all__ = ["Stream"]


class Stream:
    """Recurrent layers, one direction, whose states and packed weights stay between calls.

    For predictions on NumPy arrays. A stream is not to be used by two threads at a time; `another`
    makes one for each.

    Parameters
    ----------
    mode : str
        As for `fused_rnn.sym.RNN`.
    params : array
        All weights, then all biases, as one vector; float16, float32 or float64. The stream keeps a
        copy: later changes of the array do not reach it.
    hidden_size : int
        H.
    num_layers : int
        L.
    projection_size : int
        P, for an lstm; 0 is none. S is P then, else H.
    batch_size : int
        N, the number of sequences that advance together.
    clip_min, clip_max, clip_nan : float, float, bool
        Clipping of the cell state of an lstm.

    Raises
    ------
    ValueError
        If the parameters do not fit the sizes, or an option does not fit the mode.

    Examples
    --------
    >>> stream = fused_rnn.Stream("gru", params, hidden_size=256)
    >>> for frame in frames:  # each [1, I]
    ...     features = stream(frame)  # [1, 256]
    >>> stream.reset()
    """

    def __init__(
        self,
        mode: str,
        params: np.ndarray,
        *,
        hidden_size: int,
        num_layers: int = 1,
        projection_size: int = 0,
        batch_size: int = 1,
        clip_min: float | None = None,
        clip_max: float | None = None,
        clip_nan: bool = False,
    ) -> None:
        self._params = np.array(as_numpy("params", params))
        self._layout = Layout.of_params(
            self._params, mode, hidden_size, num_layers, projection_size=projection_size
        )
        self._options = {
            "num_layers": num_layers,
            "projection_size": projection_size,
            "clip_min": clip_min,
            "clip_max": clip_max,
            "clip_nan": clip_nan,
        }
        self._pack()
        self._make_states(batch_size)
        self(np.zeros((0, batch_size, self.input_size), self._params.dtype))  # checks the rest

    @property
    def input_size(self) -> int:
        """I, which the number of parameters tells."""
        return self._layout.input_size

    def _pack(self) -> None:
        layout = self._layout
        self._packed = _core.PackedWeights(
            layout.mode,
            self._params,
            layout.input_size,
            layout.hidden_size,
            num_layers=layout.num_layers,
            projection_size=layout.projection_size,
        )

    def __getstate__(self) -> dict[str, Any]:
        """For copy and pickle: packed weights are of this process and are made anew."""
        return {name: value for name, value in self.__dict__.items() if name != "_packed"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._h = self._h.copy()
        self._c = None if self._c is None else self._c.copy()
        self._pack()

    def _make_states(self, batch_size: int) -> None:
        layout, dtype = self._layout, self._params.dtype
        rows = (layout.num_layers, batch_size)
        self._h = np.zeros((*rows, layout.state_size), dtype)
        cells = np.zeros((*rows, layout.hidden_size), dtype)
        self._c = cells if layout.cell.has_cell_state else None

    @classmethod
    def from_layer(cls, layer: mx.gluon.rnn.rnn_layer._RNNLayer, batch_size: int = 1) -> Stream:
        """A stream with the present parameters of a layer of fused_rnn.gluon or mx.gluon.rnn.

        Raises ValueError for a bidirectional layer, which needs the end of a sequence first.
        """
        if not isinstance(layer, stock.rnn_layer._RNNLayer):
            raise TypeError(f"layer: expected a recurrent layer, found {type(layer).__name__}")
        if layer._dir == 2:
            raise ValueError("layer: expected one direction, found a bidirectional layer")
        arrays = {name: param.data().asnumpy() for name, param in layer._reg_params.items()}
        sizes = {
            "hidden_size": layer._hidden_size,
            "num_layers": layer._num_layers,
            "projection_size": layer._projection_size or 0,
        }
        if "parameters" in arrays:
            params = arrays["parameters"]
        else:
            input_size = arrays["l0_i2h_weight"].shape[1]
            params = Layout(layer._mode, input_size, **sizes).join(arrays)
        return cls(
            layer._mode,
            params,
            **sizes,
            batch_size=batch_size,
            clip_min=layer._lstm_state_clip_min,
            clip_max=layer._lstm_state_clip_max,
            clip_nan=layer._lstm_state_clip_nan,
        )

    def another(self, batch_size: int = 1) -> Stream:
        """A stream with the same weights, which both share, and zero states of its own."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._make_states(batch_size)
        return other

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Advances all sequences.

        Parameters
        ----------
        x : array
            One step, [N, I], or some, [T, N, I]; of the parameters' dtype.

        Returns
        -------
        array
            Output of the last layer, [N, S] or [T, N, S].

        Raises
        ------
        ValueError
            For another shape or dtype; the states are as before then.
        """
        x = as_numpy("x", x)
        if x.dtype != self._params.dtype:
            raise ValueError(
                f"x: expected dtype {self._params.dtype}, that of the stream's parameters, found "
                f"{x.dtype}; cast it with x.astype('{self._params.dtype}')"
            )
        steps = x[np.newaxis] if x.ndim == 2 else x
        if steps.ndim != 3 or steps.shape[1:] != (self._h.shape[1], self.input_size):
            raise ValueError(
                f"x: expected shape [N, I] or [T, N, I] with N = {self._h.shape[1]} and "
                f"I = {self.input_size}, found {x.shape}"
            )
        y, self._h, self._c, _ = _core.forward(
            self._layout.mode,
            steps,
            self._params,
            self._h,
            self._c,
            packed=self._packed,
            **self._options,
        )
        return y[0] if x.ndim == 2 else y

    @property
    def states(self) -> tuple[np.ndarray, ...]:
        """Copies of the states: h [L, N, S] and, for an lstm, c [L, N, H]. May be assigned."""
        return tuple(state.copy() for state in (self._h, self._c) if state is not None)

    @states.setter
    def states(self, states: Sequence[np.ndarray]) -> None:
        present = [state for state in (self._h, self._c) if state is not None]
        if len(states) != len(present):
            raise ValueError(f"states: expected {len(present)}, found {len(states)}")
        states = [as_numpy("states", state) for state in states]
        for state, own in zip(states, present):
            if np.shape(state) != own.shape:
                raise ValueError(f"states: expected shape {own.shape}, found {np.shape(state)}")
        for state, own in zip(states, present):
            own[...] = state

    def reset(self, rows: Any = slice(None)) -> None:
        """Sets states to zero, as at the beginning of a sequence.

        Parameters
        ----------
        rows : index of the batch axis
            Which sequences begin anew: a number, a list, a slice or a mask; all by default.
        """
        for state in (self._h, self._c):
            if state is not None:
                state[:, rows] = 0
