"""The cell of mx.rnn that stands for whole layers, on the fused kernels."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet.rnn.rnn_cell import _normalize_sequence

from fused_rnn import symbol
from fused_rnn._arguments import check_probability, check_sizes
from fused_rnn._cells import VARIANTS

__all__ = ["FusedRNNCell"]


class FusedRNNCell(mx.rnn.FusedRNNCell):
    """`mx.rnn.FusedRNNCell` on the fused kernels.

    Constructor, `begin_state`, `unfuse`, `pack_weights` and `unpack_weights` are those of
    mx.rnn.FusedRNNCell, and so are the names: variable PREFIXparameters, node PREFIXrnn. So
    checkpoints of either are read by the other (with `fused_rnn.convert` for the symbol, or
    `fused_rnn.install`).

    The parameters are initialised by mx.init.FusedRNN, which sets the forget gate's part of both
    biases to forget_bias: the gate starts from twice that value.

    Examples
    --------
    >>> cell = fused_rnn.rnn.FusedRNNCell(256, num_layers=2, prefix="lstm_")
    >>> outputs, states = cell.unroll(20, mx.sym.var("data"), layout="TNC", merge_outputs=True)
    >>> outputs.infer_shape(data=(20, 8, 100))[1]
    [(20, 8, 256)]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        check_sizes(num_hidden=self._num_hidden, num_layers=self._num_layers)
        check_probability("dropout", self._dropout)
        if self._mode in VARIANTS:
            raise ValueError(f"mode: expected one that mx.rnn has, found '{self._mode}'")

    def unroll(
        self,
        length: int,
        inputs: mx.sym.Symbol | list[mx.sym.Symbol],
        begin_state: list[mx.sym.Symbol] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[mx.sym.Symbol | list[mx.sym.Symbol], list[mx.sym.Symbol]]:
        """Applies the layers to a sequence.

        Parameters
        ----------
        length : int
            T.
        inputs : Symbol or list of Symbol
            [N, T, I], or [T, N, I] with layout "TNC"; or T symbols [N, I].
        begin_state : list of Symbol, optional
            States [L*D, N, H], one, or for an lstm two; zeros by default.
        layout : {"NTC", "TNC"}
            Order of time, batch and channel; "TNC" saves two transpositions.
        merge_outputs : bool, optional
            Whether the outputs are one symbol or a list of T; what is faster (one) by default.

        Returns
        -------
        outputs : Symbol or list of Symbol
            [N, T, D*H] or [T, N, D*H]; or T symbols [N, D*H].
        states : list of Symbol
            The final states, if the cell was made with get_next_state; else empty.
        """
        self.reset()
        inputs, axis = _normalize_sequence(length, inputs, layout, True)
        if axis == 1:
            inputs = mx.sym.swapaxes(inputs, dim1=0, dim2=1)
        states = self.begin_state() if begin_state is None else begin_state
        rnn = symbol.RNN(
            data=inputs,
            parameters=self._parameter,
            **dict(zip(("state", "state_cell"), states)),
            state_size=self._num_hidden,
            num_layers=self._num_layers,
            bidirectional=self._bidirectional,
            p=self._dropout,
            state_outputs=self._get_next_state,
            mode=self._mode,
            name=self._prefix + "rnn",
        )
        outputs, finals = rnn[0], list(rnn)[1:]
        for state in finals:
            state._set_attr(__layout__="LNC")
        if axis == 1:
            outputs = mx.sym.swapaxes(outputs, dim1=0, dim2=1)
        outputs, _ = _normalize_sequence(length, outputs, layout, merge_outputs)
        return outputs, finals
