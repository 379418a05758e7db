"""The network: convolutions over the spectrogram, recurrent layers, characters."""

from __future__ import annotations

import dataclasses
from typing import Any

import mxnet as mx
from mxnet.gluon import nn

from examples.deepspeech2.audio import BANDS
from fused_rnn import gluon
from fused_rnn.gluon.block import RecurrentBlock

CELLS = ("gru", "lstm", "rnn_tanh", "rnn_relu")


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes. Kernels and strides of the convolutions are pairs (time, frequency)."""

    hop: int = 160  # samples from frame to frame
    channels: tuple[int, ...] = (32, 32)
    kernels: tuple[tuple[int, int], ...] = ((11, 41), (11, 21))
    strides: tuple[tuple[int, int], ...] = ((2, 2), (1, 2))
    cell: str = "gru"
    layers: int = 5
    hidden: int = 800
    norm: bool = True
    dropout: float = 0.0
    native: bool = False  # recurrent layers of mx.gluon.rnn

    def __post_init__(self) -> None:
        if self.cell not in CELLS:
            raise ValueError(f"cell: expected one of {CELLS}, found {self.cell!r}")
        for name in ("channels", "kernels", "strides"):  # lists when they come from JSON
            value = tuple(
                tuple(item) if isinstance(item, list) else item for item in getattr(self, name)
            )
            object.__setattr__(self, name, value)

    def bands(self) -> list[int]:
        """Frequencies after each convolution."""
        result, size = [], BANDS
        for _, stride in self.strides:
            size = (size - 1) // stride + 1
            result.append(size)
        return result

    def steps(self, frames: int) -> int:
        """Time steps of the recurrent layers."""
        for stride, _ in self.strides:
            frames = (frames - 1) // stride + 1
        return frames


PRESETS = {
    "ds2": Config(),
    "small": Config(
        hop=240,
        channels=(16, 16),
        kernels=((5, 11), (5, 11)),
        strides=((2, 4), (1, 2)),
        layers=3,
        hidden=192,
    ),
    "tiny": Config(
        hop=240,
        channels=(4,),
        kernels=((5, 11),),
        strides=((2, 8),),
        layers=2,
        hidden=32,
    ),
}


class DeepSpeech2(mx.gluon.HybridBlock):
    """net(features, frames): [N, T, BANDS] and [N] to scores [T', N, characters] and steps [N].

    Results do not depend on padding.
    """

    def __init__(self, config: Config, characters: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        with self.name_scope():
            self.convolutions = []
            for k, bands in enumerate(config.bands()):
                block = _Convolution(
                    config.channels[k], config.kernels[k], config.strides[k], bands, config.norm
                )
                self.convolutions.append(block)
                self.register_child(block, f"convolution{k}")
            make = _NativeBidirectional if config.native else _fused
            between = gluon.SequenceBatchNorm if config.norm else None
            self.recurrent = gluon.Stack(
                *(make(config.cell, config.hidden) for _ in range(config.layers)), between=between
            )
            self.norm = gluon.SequenceBatchNorm() if config.norm else None
            self.dropout = gluon.LockedDropout(config.dropout)
            self.scores = nn.Dense(characters, flatten=False)

    def prepare(self) -> None:
        """Gives all parameters shapes, which come with a call, and first values."""
        self.initialize(mx.init.Xavier())
        self(mx.nd.zeros((1, 1, BANDS)), mx.nd.ones(1))

    def hybrid_forward(self, F: Any, features: Any, frames: Any) -> Any:
        x = F.SequenceMask(features, frames, use_sequence_length=True, axis=1)
        x, lengths = F.expand_dims(x, axis=3), frames  # [N, T, bands, channels]
        for block in self.convolutions:
            x, lengths = block(x, lengths)
        x = F.reshape(F.transpose(x, axes=(1, 0, 2, 3)), shape=(0, 0, -1))
        x = self.recurrent(x, None, lengths)
        x = x if self.norm is None else self.norm(x, lengths)
        return self.scores(self.dropout(x)), lengths


class _Convolution(mx.gluon.HybridBlock):
    """Convolution, batch normalisation of each channel, clipped ReLU; padding stays 0."""

    def __init__(
        self, channels: int, kernel: tuple, stride: tuple, bands: int, norm: bool, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._bands, self._stride = bands, stride[0]
        with self.name_scope():
            padding = tuple(size // 2 for size in kernel)
            self.convolution = nn.Conv2D(channels, kernel, stride, padding, use_bias=not norm)
            self.norm = gluon.SequenceBatchNorm("NTC") if norm else None

    def hybrid_forward(self, F: Any, x: Any, lengths: Any) -> Any:
        x = self.convolution(F.transpose(x, axes=(0, 3, 1, 2)))
        lengths = F.floor((lengths - 1) / self._stride) + 1
        # A frame's bands one after another make a sequence whose steps are all values of a channel.
        x = F.reshape(F.transpose(x, axes=(0, 2, 3, 1)), shape=(0, -3, 0))
        values = lengths * self._bands
        if self.norm is None:
            x = F.SequenceMask(x, values, use_sequence_length=True, axis=1)
        else:
            x = self.norm(x, values)
        return F.reshape(F.clip(x, 0, 20), shape=(0, -4, -1, self._bands, 0)), lengths


def _fused(cell: str, hidden: int) -> RecurrentBlock:
    options = {"bidirectional": True, "use_sequence_length": True}
    if cell == "gru":
        return gluon.GRU(hidden, **options)
    if cell == "lstm":
        return gluon.LSTM(hidden, **options)
    return gluon.RNN(hidden, activation=cell[len("rnn_") :], **options)


class _NativeBidirectional(RecurrentBlock):
    """Both directions by MXNet's own layers.

    Its CPU operator knows no lengths: the reverse direction is a second layer that is given each
    sequence reversed.
    """

    _layout = "TNC"

    def __init__(self, cell: str, hidden: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        kinds = {"gru": mx.gluon.rnn.GRU, "lstm": mx.gluon.rnn.LSTM}
        options = {} if cell in kinds else {"activation": cell[len("rnn_") :]}
        with self.name_scope():
            for name in ("forth", "back"):
                setattr(self, name, kinds.get(cell, mx.gluon.rnn.RNN)(hidden, **options))

    def hybrid_forward(self, F: Any, x: Any, states: None, lengths: Any) -> Any:
        def reverse(values: Any) -> Any:
            return F.SequenceReverse(values, lengths, use_sequence_length=True)

        y = F.concat(self.forth(x), reverse(self.back(reverse(x))), dim=2)
        return F.SequenceMask(y, lengths, use_sequence_length=True)
