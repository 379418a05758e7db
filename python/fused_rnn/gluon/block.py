"""What blocks have in common that are called with states and lengths."""

from __future__ import annotations

import copy
from typing import Any

import mxnet as mx
from mxnet.gluon.parameter import DeferredInitializationError
from mxnet.util import is_np_array

__all__ = ["Copyable", "RecurrentBlock", "are_arrays", "from_legacy", "to_legacy"]

# What HybridBlock keeps of a traced call.
_TRACE = ("_cached_graph", "_cached_op", "_cached_op_args", "_in_format", "_out_format")
_NO_TRACE = ((), None, [], None, None)


class Copyable:
    """For copy and pickle: a block without its traces, which hold handles of MXNet's.

    A copy that is hybridized is traced at its next call.
    """

    def __getstate__(self) -> dict[str, Any]:
        empty = {name: copy.copy(value) for name, value in zip(_TRACE, _NO_TRACE)}
        state = {**self.__dict__, **empty}
        return {**state, "_traces": {}} if "_traces" in state else state


class RecurrentBlock(Copyable, mx.gluon.HybridBlock):
    """Called as block(inputs, states=None, sequence_length=None), hybridized or not.

    `hybrid_forward` takes these arguments, states as a list or None, and returns the output, or
    (output, states) if it was given states.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._traces: dict[bool, tuple] = {}
        super().__init__(*args, **kwargs)

    def __call__(
        self,
        inputs: mx.nd.NDArray | mx.sym.Symbol,
        states: Any = None,
        sequence_length: mx.nd.NDArray | mx.sym.Symbol | None = None,
    ) -> Any:
        if states is not None:
            states = list(states) if isinstance(states, (list, tuple)) else [states]
        self._use_trace(states is not None)
        return mx.gluon.HybridBlock.__call__(self, inputs, states, sequence_length)

    def forward(self, inputs: Any, states: list | None = None, sequence_length: Any = None) -> Any:
        """What HybridBlock.forward does, quicker if all inputs are arrays.

        That asks each input for its context, which takes a tenth of a call with one step. Here it
        is that of the first.
        """
        lengths = () if sequence_length is None else (sequence_length,)
        if are_arrays(inputs, *(states or ()), *lengths):
            with inputs.ctx as ctx:
                if self._active:
                    return self._call_cached_op(inputs, states, sequence_length)
                try:
                    params = {name: p.data(ctx) for name, p in self._reg_params.items()}
                except DeferredInitializationError:
                    pass
                else:
                    return self.hybrid_forward(mx.nd, inputs, states, sequence_length, **params)
        return super().forward(inputs, states, sequence_length)

    def _use_trace(self, with_states: bool) -> None:
        """Calls with and without states are two graphs; HybridBlock has room for one."""
        if self._in_format is not None and with_states != (self._in_format[1] != -1):
            self._traces[not with_states] = tuple(getattr(self, name) for name in _TRACE)
            for name, value in zip(_TRACE, self._traces.get(with_states, _NO_TRACE)):
                setattr(self, name, value)

    def _clear_cached_op(self) -> None:
        super()._clear_cached_op()
        self._traces.clear()


def are_arrays(*values: Any) -> bool:
    """Whether all are arrays, neither symbols nor lists."""
    return all(isinstance(value, mx.nd.NDArray) for value in values)


def to_legacy(value: Any) -> Any:
    """Arrays or symbols, also None or in lists, as those of mx.nd or mx.sym."""
    if value is None or not is_np_array():
        return value
    return [to_legacy(v) for v in value] if isinstance(value, list) else value.as_nd_ndarray()


def from_legacy(value: Any) -> Any:
    """The inverse of `to_legacy`."""
    if not is_np_array():
        return value
    return [from_legacy(v) for v in value] if isinstance(value, list) else value.as_np_ndarray()
