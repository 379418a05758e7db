"""Loss and error rates of a network on utterances."""

from __future__ import annotations

from typing import Callable, NamedTuple

import jiwer
import mxnet as mx
import numpy as np

from examples.deepspeech2 import data, decode
from examples.deepspeech2.data import OnError, Utterance
from examples.deepspeech2.model import DeepSpeech2


class Scores(NamedTuple):
    """Mean loss of an utterance; character and word error rates."""

    loss: float
    cer: float
    wer: float


def losses(net: DeepSpeech2, batch: data.Batch) -> tuple[mx.nd.NDArray, mx.nd.NDArray]:
    """The CTC loss of each utterance, and the scores of the network, [T', N, characters]."""
    scores, steps = net(mx.nd.array(batch.features), mx.nd.array(batch.frames))
    ctc = mx.gluon.loss.CTCLoss(layout="TNC", label_layout="NT")
    return ctc(scores, mx.nd.array(batch.labels), steps, mx.nd.array(batch.characters)), scores


def evaluate(
    net: DeepSpeech2,
    utterances: list[Utterance],
    batch_size: int,
    on_error: OnError,
    decoder: Callable[[np.ndarray], str] = decode.greedy,
) -> Scores:
    """The scores of the network in prediction mode."""
    total, expected, found = 0.0, [], []
    batches = data.epoch_batches(utterances, batch_size, 0, 0)
    for batch in data.prefetched(batches, lambda b: data.load(b, net.config, on_error)):
        loss, scores = losses(net, batch)
        total += float(loss.sum().asscalar())
        expected += batch.texts
        found += texts(scores.asnumpy(), batch.frames, net, decoder)
    cer, wer = jiwer.cer(expected, found), jiwer.wer(expected, found)
    return Scores(total / len(expected), cer, wer)


def texts(
    scores: np.ndarray,
    frames: np.ndarray,
    net: DeepSpeech2,
    decoder: Callable[[np.ndarray], str],
) -> list[str]:
    """What the decoder makes of each sequence without its padding."""
    steps = [net.config.steps(int(count)) for count in frames]
    return [decoder(scores[:count, n]) for n, count in enumerate(steps)]
