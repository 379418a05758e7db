"""Recurrent layers on top of each other that one operator cannot hold."""

from __future__ import annotations

from typing import Any, Callable

import mxnet as mx

from fused_rnn.gluon.block import RecurrentBlock
from fused_rnn.gluon.norm import SequenceBatchNorm

__all__ = ["Stack"]


class Stack(RecurrentBlock):
    """Layers of any widths and modes, with other blocks between them.

    Parameters
    ----------
    *layers : Block
        Layers of fused_rnn.gluon, of one layout.
    between : callable, optional
        Makes the block that follows a layer but the last, for instance
        lambda: fused_rnn.gluon.LockedDropout(0.3). A `SequenceBatchNorm` is given the lengths.

    Call
    ----
    stack(inputs, states=None, sequence_length=None), as for a layer; states are a list with the
    list of states of each layer. The lengths go to all layers, which must all expect them or none.

    Examples
    --------
    The recurrent part of Deep Speech 2:

    >>> rnn = fused_rnn.gluon
    >>> net = rnn.Stack(
    ...     rnn.GRU(800, bidirectional=True, use_sequence_length=True),
    ...     rnn.GRU(600, bidirectional=True, use_sequence_length=True),
    ...     between=rnn.SequenceBatchNorm,
    ... )
    >>> net.initialize()
    >>> net(mx.nd.ones((50, 2, 161)), sequence_length=mx.nd.array([50, 30])).shape
    (50, 2, 1200)
    """

    def __init__(
        self,
        *layers: RecurrentBlock,
        between: Callable[[], mx.gluon.HybridBlock] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        layouts = sorted({layer._layout for layer in layers})
        if len(layouts) != 1:
            raise ValueError(f"layers: expected one layout, found {layouts}")
        self._layout = layouts[0]
        self._layers = list(layers)
        self._between: list[mx.gluon.HybridBlock] = []
        with self.name_scope():
            for k, layer in enumerate(layers):
                self.register_child(layer, f"layer{k}")
                if between is not None and k + 1 < len(layers):
                    self._between.append(between())
                    self.register_child(self._between[-1], f"between{k}")

    def begin_state(self, *args: Any, **kwargs: Any) -> list[list]:
        """Initial states of each layer; arguments as for a layer's begin_state."""
        return [layer.begin_state(*args, **kwargs) for layer in self._layers]

    def hybrid_forward(
        self, F: Any, inputs: Any, states: list | None = None, sequence_length: Any = None
    ) -> Any:
        output, finals = inputs, []
        for k, layer in enumerate(self._layers):
            if states is None:
                output = layer(output, None, sequence_length)
            else:
                output, final = layer(output, states[k], sequence_length)
                finals.append(final)
            if k < len(self._between):
                block = self._between[k]
                lengths = (sequence_length,) if isinstance(block, SequenceBatchNorm) else ()
                output = block(output, *lengths)
        return output if states is None else (output, finals)
