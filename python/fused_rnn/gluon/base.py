"""What the layers of this package have in common."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

import mxnet as mx
import numpy as np
from mxnet.gluon import rnn as stock
from mxnet.gluon.parameter import ParameterDict
from mxnet.util import is_np_array

from fused_rnn import ndarray as nd
from fused_rnn import symbol as sym
from fused_rnn._amp import exact_lengths
from fused_rnn._arguments import check_probability, check_sizes
from fused_rnn._cells import VARIANTS, operator_attributes
from fused_rnn.gluon.block import RecurrentBlock, are_arrays
from fused_rnn.gluon.dropout import drop_recurrent_weights
from fused_rnn.gluon.parameter import FusedParameter, split_params
from fused_rnn.weights import Layout

__all__ = ["FusedLayer"]


class FusedLayer(RecurrentBlock, stock.rnn_layer._RNNLayer):
    """What the three layers share; the base supplies the options and the form of the states."""

    def __init__(
        self,
        *args: Any,
        weight_drop: float,
        variant: str | None = None,
        unit_initializers: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """variant is a mode that MXNet lacks, in place of the one that the base gives;
        unit_initializers are those of its further parameters, by kind.
        """
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
        self._initializers: dict[str, Any] = {}
        super().__init__(*args, **kwargs)
        self._mode = variant or self._mode
        layout = Layout(
            self._mode,
            self._input_size,
            self._hidden_size,
            self._num_layers,
            self._dir == 2,
            self._projection_size or 0,
        )
        for name, part in layout.parts.items():
            if part.kind in layout.cell.units:
                self._initializers[name] = unit_initializers[part.kind]
        self.parameters = self._shared_or_new_parameter(layout)

    def _register_param(self, name: str, shape: tuple[int, ...], init: Any, dtype: Any) -> None:
        """Called by the base for each of its parameters, which are parts of one here."""
        self._initializers[name] = init

    def _shared_or_new_parameter(self, layout: Layout) -> FusedParameter:
        name = self.params.prefix + "parameters"
        shared = self.params._get_impl(name)
        if shared is None:
            separate = self.params.prefix + next(iter(self._initializers))
            if self.params._shared is not None and separate in self.params._shared:
                raise ValueError(
                    f"params: expected '{name}' of a fused layer, found '{separate}' of a layer "
                    "with separate parameters, which a fused layer cannot share"
                )
            parameter = FusedParameter(name, layout, self._initializers, dtype=self._dtype)
            self.params.update({name: parameter})
            return parameter
        found, expected = list(shared.layout.shapes().items()), list(layout.shapes().items())
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
        for name, place in self.parameters.layout.parts.items():
            cell = f"{'lr'[place.direction]}_cell." if self._dir == 2 else ""
            key = f"{dot}_unfused.{place.layer}.{cell}{place.kind}"
            result[key] = self.parameters.parts[name]
        return result

    def cast(self, dtype: Any) -> None:
        """Casts the parameter and the default states; states and inputs must follow."""
        super().cast(dtype)

    def _unfuse(self) -> stock.HybridSequentialRNNCell:
        """A stack of cells that share the parameter."""
        if self._mode in VARIANTS:
            raise NotImplementedError(f"_unfuse: mx.gluon.rnn has no cell '{self._mode}'")
        own = self._params
        self._params = split_params(self)  # where the base looks for what the cells shall share
        try:
            return super()._unfuse()
        finally:
            self._params = own

    def __repr__(self) -> str:
        described = super().__repr__()
        return f"{described[:-1]}, {self._mode})" if self._mode in VARIANTS else described

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
            **operator_attributes(self._mode),
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
        return drop_recurrent_weights(F, parameters, self._weight_drop, self.parameters.layout)


def _compatible(expected: Sequence[tuple], found: Sequence[tuple]) -> bool:
    """Whether names are the same and shapes agree where both are known."""
    return len(expected) == len(found) and all(
        a_name == b_name and all(0 in (a, b) or a == b for a, b in zip(a_shape, b_shape))
        for (a_name, a_shape), (b_name, b_shape) in zip(expected, found)
    )
