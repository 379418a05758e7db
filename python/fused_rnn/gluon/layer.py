"""The layers of mx.gluon.rnn on the fused kernels."""

from __future__ import annotations

from typing import Any

from mxnet.gluon import rnn as stock
from mxnet.gluon.parameter import ParameterDict

from fused_rnn.gluon.base import FusedLayer

__all__ = ["GRU", "LSTM", "RNN"]


class LSTM(FusedLayer, stock.LSTM):
    """`mx.gluon.rnn.LSTM` on the fused kernels, with one flat parameter.

    Parameters
    ----------
    hidden_size : int
        H, the number of units.
    num_layers : int
        L.
    layout : {"TNC", "NTC"}
        Order of time, batch and channel in inputs and outputs.
    dropout : float
        Probability that an element of the output of a layer but the last is dropped in training.
    bidirectional : bool
        A second set of layers walks from the end to the beginning; D is 2 then, else 1.
    input_size : int
        I; 0 leaves it to the first call.
    i2h_weight_initializer, h2h_weight_initializer : str or Initializer, optional
        For the matrices; the one given to `initialize` by default.
    i2h_bias_initializer, h2h_bias_initializer : str or Initializer
        For the biases; mx.init.LSTMBias() sets those of the forget gate.
    projection_size : int, optional
        P, at most H: h is projected to this size. S is P then, else H.
    h2r_weight_initializer : str or Initializer, optional
        For the projection.
    state_clip_min, state_clip_max : float, optional
        Range into which the cell state is clipped; to be given together.
    state_clip_nan : bool
        NaN in the cell state is clipped too.
    dtype : str or dtype
        "float16", "float32" or "float64".
    use_sequence_length : bool
        Sequences have lengths of their own, which each call gives.
    weight_drop : float
        Probability that a recurrent weight (h2h) is dropped in training, alike for all steps and
        sequences of a call (DropConnect; Merity et al. 2017).
    prefix : str, optional
        Prefix of the names, lstm0_ and so on by default.
    params : ParameterDict, optional
        Those of another fused layer of the same sizes, to share them.
    peephole : bool
        The gates see the cell state too (Gers, Schraudolph and Schmidhuber 2002): i and f that of
        the step before, o the new one. Further parameters l0_peephole [3*H] and so on, in the order
        i, f, o. MXNet has no such layer: neither `_unfuse` nor files of mx.gluon.rnn.
    peephole_initializer : str or Initializer
        For these.

    Call
    ----
    layer(inputs, states=None, sequence_length=None)

    inputs : NDArray or Symbol
        [T, N, I], or [N, T, I] with layout "NTC"; of the layer's dtype.
    states : list of two NDArrays or Symbols, optional
        h0 [L*D, N, S] and c0 [L*D, N, H], whatever the layout; zeros of the layer's dtype by
        default.
    sequence_length : NDArray or Symbol, optional
        Length of each sequence, [N], of any integer or float type; wanted if and only if the layer
        was made with use_sequence_length. Outputs beyond a length are 0, final states are those at
        it.

    Returns the output, [T, N, D*S] or [N, T, D*S]; if states were given, that and the final
    states, (output, [hN, cN]).

    Notes
    -----
    The parameter is named PREFIXparameters; `split_params` and the attributes l0_i2h_weight and so
    on are views of its parts. Files of `save_parameters` are those of mx.gluon.rnn, and from the
    same seed initial values are equal.

    A number cannot be the lr_mult of one part unless the Trainer is made with `split_params`.

    Raises ValueError for states of a wrong shape or number and for lengths that are missing or not
    expected; mx.MXNetError, when the result is waited for, for lengths that are not whole numbers
    in [0, T].

    Examples
    --------
    >>> layer = fused_rnn.gluon.LSTM(100, num_layers=3)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((5, 2, 10))).shape
    (5, 2, 100)
    >>> output, (h, c) = layer(mx.nd.ones((5, 2, 10)), layer.begin_state(2))
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        projection_size: int | None = None,
        h2r_weight_initializer: Any = None,
        state_clip_min: float | None = None,
        state_clip_max: float | None = None,
        state_clip_nan: bool = False,
        dtype: Any = "float32",
        use_sequence_length: bool = False,
        weight_drop: float = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
        peephole: bool = False,
        peephole_initializer: Any = "zeros",
    ) -> None:
        arguments = _arguments(locals())
        variant = "lstm_peephole" if arguments.pop("peephole") else None
        units = {"peephole": arguments.pop("peephole_initializer")}
        super().__init__(variant=variant, unit_initializers=units, **arguments)


class GRU(FusedLayer, stock.GRU):
    """`mx.gluon.rnn.GRU` on the fused kernels, with one flat parameter.

    Parameters, call and errors are those of `LSTM`, but that there is one state, h0 [L*D, N, H],
    which may be given without a list, and neither projection, clipping nor peepholes.

    With reset_after=False the reset gate acts before the recurrent product, on h (Cho et al. 2014,
    first version), as in Keras with reset_after=False. MXNet has no such layer; the parameters are
    those of a GRU.

    Examples
    --------
    >>> layer = fused_rnn.gluon.GRU(100, layout="NTC", bidirectional=True)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((2, 5, 10))).shape
    (2, 5, 200)
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        dtype: Any = "float32",
        use_sequence_length: bool = False,
        weight_drop: float = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
        reset_after: bool = True,
    ) -> None:
        arguments = _arguments(locals())
        variant = None if arguments.pop("reset_after") else "gru_reset_before"
        super().__init__(variant=variant, **arguments)


class RNN(FusedLayer, stock.RNN):
    """`mx.gluon.rnn.RNN` on the fused kernels, with one flat parameter.

    Parameters, call and errors are those of `GRU`, and `activation`: "relu" or "tanh".

    Examples
    --------
    >>> layer = fused_rnn.gluon.RNN(100, activation="tanh", use_sequence_length=True)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((5, 2, 10)), sequence_length=mx.nd.array([5, 3])).shape
    (5, 2, 100)
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        activation: str = "relu",
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        dtype: Any = "float32",
        use_sequence_length: bool = False,
        weight_drop: float = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        if activation not in ("relu", "tanh"):
            raise ValueError(f"activation: expected 'relu' or 'tanh', found {activation!r}")
        super().__init__(**_arguments(locals()))


def _arguments(names: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a constructor from its local names."""
    return {name: value for name, value in names.items() if name not in ("self", "__class__")}
