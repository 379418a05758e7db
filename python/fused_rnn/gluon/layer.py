"""The layers of mx.gluon.rnn on the fused kernels."""

from __future__ import annotations

import re
from typing import Any, Sequence

import mxnet as mx
import numpy as np
from mxnet.gluon import rnn as stock
from mxnet.gluon.parameter import ParameterDict
from mxnet.util import is_np_array

from fused_rnn import ndarray as nd
from fused_rnn import symbol as sym
from fused_rnn._amp import exact_lengths
from fused_rnn._arguments import check_probability, check_sizes
from fused_rnn.gluon.block import RecurrentBlock, are_arrays
from fused_rnn.gluon.dropout import drop_recurrent_weights
from fused_rnn.gluon.parameter import FusedParameter, Part, split_params

__all__ = ["GRU", "LSTM", "RNN"]


class _FusedLayer(RecurrentBlock, stock.rnn_layer._RNNLayer):
    """What the three layers share; the base supplies the options and the form of the states."""

    def __init__(self, *args: Any, weight_drop: float, **kwargs: Any) -> None:
        if not 0 <= weight_drop < 1:
            raise ValueError(f"weight_drop: expected a number in [0, 1), found {weight_drop}")
        check_probability("dropout", kwargs["dropout"])
        check_sizes(hidden_size=kwargs["hidden_size"], num_layers=kwargs["num_layers"])
        check_sizes(0, input_size=kwargs["input_size"])
        projection, most = kwargs.get("projection_size") or 0, kwargs["hidden_size"]
        if not 0 <= projection <= most:
            raise ValueError(
                f"projection_size: expected at most hidden_size, {most}, found {projection}"
            )
        self._weight_drop = weight_drop
        self._parts: list[Part] = []
        super().__init__(*args, **kwargs)
        self.parameters = self._shared_or_new_parameter()

    def _register_param(self, name: str, shape: tuple[int, ...], init: Any, dtype: Any) -> None:
        """Called by the base for each of its parameters, which are parts of one here."""
        self._parts.append(Part(name, shape, init))

    def _shared_or_new_parameter(self) -> FusedParameter:
        name = self.params.prefix + "parameters"
        shared = self.params._get_impl(name)
        if shared is None:
            separate = self.params.prefix + self._parts[0].name
            if self.params._shared is not None and separate in self.params._shared:
                raise ValueError(
                    f"params: expected '{name}' of a fused layer, found '{separate}' of a layer "
                    "with separate parameters, which a fused layer cannot share"
                )
            parameter = FusedParameter(name, self._parts, dtype=self._dtype)
            self.params.update({name: parameter})
            return parameter
        found = [(part.spec.name, part._shape) for part in shared.parts.values()]
        expected = [(part.name, part.shape) for part in self._parts]
        if not _compatible(expected, found) or np.dtype(self._dtype) != np.dtype(shared.dtype):
            raise ValueError(
                f"params: '{name}' belongs to another kind of layer: expected {expected} of "
                f"{self._dtype}, found {found} of {shared.dtype}"
            )
        if self._input_size:
            shared.set_input_size(self._input_size)
        return shared

    def __getattr__(self, name: str) -> Any:
        """The parts under the names they have in mx.gluon.rnn: layer.l0_i2h_weight."""
        parameters = self.__dict__.get("_reg_params", {}).get("parameters")
        if parameters is not None and name in parameters.parts:
            return parameters.parts[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """The layer's one parameter; with `select`, also parts of it.

        `select` matches the whole if it matches its name, PREFIXparameters, or those of all parts;
        else it selects the matching parts.
        """
        chosen = super().collect_params(select)
        if select is None or list(chosen):
            return chosen
        pattern = re.compile(select)
        parts = [part for part in self.parameters.parts.values() if pattern.match(part.name)]
        if len(parts) == len(self.parameters.parts):
            parts = [self.parameters]
        chosen.update({part.name: part for part in parts})
        return chosen

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Any]:
        """Names and parameters as files of mx.gluon.rnn have them."""
        dot = prefix and prefix + "."
        result = {}
        for name, part in self.parameters.parts.items():
            direction, layer, kind = re.fullmatch(r"([lr])(\d+)_(.*)", name).groups()
            cell = f"{direction}_cell." if self._dir == 2 else ""
            result[f"{dot}_unfused.{layer}.{cell}{kind}"] = part
        return result

    def cast(self, dtype: Any) -> None:
        """Casts the parameter and the default states; states and inputs must follow."""
        super().cast(dtype)

    def _unfuse(self) -> stock.HybridSequentialRNNCell:
        """A stack of cells that share the parameter."""
        own = self._params
        self._params = split_params(self)  # where the base looks for what the cells shall share
        try:
            return super()._unfuse()
        finally:
            self._params = own

    def __call__(
        self,
        inputs: mx.nd.NDArray | mx.sym.Symbol,
        states: Any = None,
        sequence_length: mx.nd.NDArray | mx.sym.Symbol | None = None,
    ) -> Any:
        if states is not None:
            states = states if isinstance(states, (list, tuple)) else [states]
            expected = len(self.state_info())
            if len(states) != expected:
                raise ValueError(f"states: expected {expected}, found {len(states)}")
        if (sequence_length is not None) != self._use_sequence_length:
            found = "none" if sequence_length is None else "one"
            raise ValueError(
                f"sequence_length: the layer was made with use_sequence_length="
                f"{self._use_sequence_length}, found {found}"
            )
        try:
            return super().__call__(inputs, states, sequence_length)
        except (ValueError, mx.MXNetError):
            # The operator checks shapes; to ask for them before each call takes time.
            self._check_states(inputs, states)
            raise

    def _check_states(self, inputs: Any, states: Sequence | None) -> None:
        """Says in the words of mx.gluon.rnn what is wrong with the shapes of states, if it is."""
        if states is None or not are_arrays(inputs, *states) or inputs.ndim != 3:
            return
        batch = inputs.shape[self._layout.find("N")]
        for state, info in zip(states, self.state_info(batch)):
            if state.shape != info["shape"]:
                raise ValueError(
                    f"Invalid recurrent state shape. Expecting {info['shape']}, got {state.shape}."
                )

    def _zero_states(self, F: Any, inputs: Any) -> list:
        dtype = self.parameters.dtype
        if F is mx.nd:
            batch = inputs.shape[self._layout.find("N")]
            return self.begin_state(batch, func=F.zeros, ctx=inputs.ctx, dtype=dtype)
        return self.begin_state(-1, func=F.zeros, dtype=dtype)  # -1: follows from the inputs

    def hybrid_forward(
        self,
        F: Any,
        inputs: Any,
        states: list | None = None,
        sequence_length: Any = None,
        *,
        parameters: Any,
    ) -> Any:
        begin = self._zero_states(F, inputs) if states is None else states
        swapaxes = F.np.swapaxes if is_np_array() else F.swapaxes
        rnn = F.npx.fused_rnn if is_np_array() else (nd if F is mx.nd else sym).RNN
        parameters = self._dropped(F, parameters)
        if self._layout == "NTC":
            inputs = swapaxes(inputs, 0, 1)
        results = rnn(
            inputs,
            parameters,
            **dict(zip(("state", "state_cell"), begin)),
            sequence_length=exact_lengths(F, sequence_length),
            state_outputs=states is not None,
            **self._operator_options(),
        )
        output = results if states is None else results[0]
        if self._layout == "NTC":
            output = swapaxes(output, 0, 1)
        return output if states is None else (output, [results[k + 1] for k in range(len(begin))])

    def _operator_options(self) -> dict[str, Any]:
        options = {
            "state_size": self._hidden_size,
            "num_layers": self._num_layers,
            "bidirectional": self._dir == 2,
            "mode": self._mode,
            "p": self._dropout or None,
            "projection_size": self._projection_size,
            "lstm_state_clip_min": self._lstm_state_clip_min,
            "lstm_state_clip_max": self._lstm_state_clip_max,
            "lstm_state_clip_nan": self._lstm_state_clip_nan,
            "use_sequence_length": self._use_sequence_length,
        }
        # The rest are the operator's defaults; an imperative call spends a microsecond on each.
        return {k: v for k, v in options.items() if v is not None and v is not False}

    def _dropped(self, F: Any, parameters: Any) -> Any:
        """The parameters with the layer's weight_drop."""
        if not self._weight_drop:
            return parameters
        return drop_recurrent_weights(
            F,
            parameters,
            self._weight_drop,
            layers=self._num_layers,
            directions=self._dir,
            rows=self._gates * self._hidden_size,
            H=self._hidden_size,
            P=self._projection_size or 0,
        )


def _compatible(expected: Sequence[tuple], found: Sequence[tuple]) -> bool:
    """Whether names are the same and shapes agree where both are known."""
    return len(expected) == len(found) and all(
        a_name == b_name and all(0 in (a, b) or a == b for a, b in zip(a_shape, b_shape))
        for (a_name, a_shape), (b_name, b_shape) in zip(expected, found)
    )


class LSTM(_FusedLayer, stock.LSTM):
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
    ) -> None:
        super().__init__(**_arguments(locals()))


class GRU(_FusedLayer, stock.GRU):
    """`mx.gluon.rnn.GRU` on the fused kernels, with one flat parameter.

    Parameters, call and errors are those of `LSTM`, but that there is one state, h0 [L*D, N, H],
    which may be given without a list, and neither projection nor clipping.

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
    ) -> None:
        super().__init__(**_arguments(locals()))


class RNN(_FusedLayer, stock.RNN):
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
