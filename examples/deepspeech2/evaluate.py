"""Loss and error rates of a network on utterances.

python -m examples.deepspeech2.evaluate FOLDER --checkpoint runs/small/best.zip
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Callable, NamedTuple

import jiwer
import mxnet as mx
import numpy as np

from examples.deepspeech2 import checkpoint, data, decode
from examples.deepspeech2.data import OnError, Utterance
from examples.deepspeech2.model import DeepSpeech2
from examples.inputs import InputError, named_errors, whole


class Scores(NamedTuple):
    """How many utterances; their mean loss; character and word error rates."""

    utterances: int
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
        if batch is None:
            continue
        loss, scores = losses(net, batch)
        total += float(loss.sum().asscalar())
        expected += batch.texts
        found += texts(scores.asnumpy(), batch.frames, net, decoder)
    if not expected:
        raise InputError(f"none of the {len(utterances)} utterances can be read")
    cer, wer = jiwer.cer(expected, found), jiwer.wer(expected, found)
    return Scores(len(expected), total / len(expected), cer, wer)


def texts(
    scores: np.ndarray,
    frames: np.ndarray,
    net: DeepSpeech2,
    decoder: Callable[[np.ndarray], str],
) -> list[str]:
    """What the decoder makes of each sequence without its padding."""
    steps = [net.config.steps(int(count)) for count in frames]
    return [decoder(scores[:count, n]) for n, count in enumerate(steps)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="utterances in LibriSpeech's layout")
    parser.add_argument("--checkpoint", type=Path, default=Path("runs/small/best.zip"))
    parser.add_argument("--batch", type=whole(1, 10**6), default=32, help="(32)")
    decode.add_argument(parser, default=0)
    parser.add_argument("--on-error", choices=("skip", "stop"), default="skip")
    args = parser.parse_args()
    on_error = OnError(args.on_error == "stop")
    with named_errors():
        net = checkpoint.load_network(args.checkpoint)
        utterances = data.scan(args.folder, net.config, on_error)
        decoder = decode.decoder(args.beam)
        scores = evaluate(net, utterances, args.batch, on_error, decoder)
    left_out = f" {on_error.skipped} left out," if on_error.skipped else ""
    print(
        f"{args.folder}: {scores.utterances} utterances,{left_out} loss {scores.loss:.3f}, "
        f"CER {scores.cer:.2%}, WER {scores.wer:.2%}"
    )


if __name__ == "__main__":
    main()
