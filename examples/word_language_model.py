"""Trains a word-level language model with a Gluon LSTM, and plots its loss.

    python examples/word_language_model.py

reads Python's own help texts; --text names another file. --native trains with MXNet's operator
instead, whose CPU version leaves the dropout between layers out.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import matplotlib
import mxnet as mx
import numpy as np
import text
from inputs import SEED, InputError, named_errors, real, whole, writable
from tqdm import tqdm

import fused_rnn

matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402


class LanguageModel(mx.gluon.HybridBlock):
    """Words to scores of the next word: [T, N] to [T, N, words]."""

    def __init__(self, recurrent: mx.gluon.HybridBlock, words: int, size: int, dropout: float):
        super().__init__()
        with self.name_scope():
            self.embedding = mx.gluon.nn.Embedding(words, size)
            self.dropout = mx.gluon.nn.Dropout(dropout)
            self.recurrent = recurrent
            self.scores = mx.gluon.nn.Dense(words, flatten=False)

    def hybrid_forward(self, F, x, states):
        y, states = self.recurrent(self.dropout(self.embedding(x)), states)
        return self.scores(self.dropout(y)), states


def columns(numbers: np.ndarray, batch: int) -> mx.nd.NDArray:
    """One long text as `batch` texts side by side: [time, batch]."""
    length = len(numbers) // batch
    return mx.nd.array(numbers[: length * batch].reshape(batch, length).T)


def pieces(data: mx.nd.NDArray, steps: int):
    """Inputs and targets, at most `steps` time steps at a time."""
    for begin in range(0, len(data) - 1, steps):
        end = min(begin + steps, len(data) - 1)
        yield data[begin:end], data[begin + 1 : end + 1]


def evaluate(net, loss, data: mx.nd.NDArray, steps: int) -> float:
    states = net.recurrent.begin_state(data.shape[1])
    losses = []
    for x, target in pieces(data, steps):
        scores, states = net(x, states)
        losses.append(loss(scores, target).mean().asscalar())
    return float(np.mean(losses))


def perplexity(loss: float) -> float:
    """That of a mean loss; infinite where training has failed."""
    return math.exp(loss) if loss < 700 else math.inf


def train(args: argparse.Namespace) -> list[float]:
    """Trains, prints perplexities, draws; the losses of all steps."""
    writable(args.output)
    mx.random.seed(args.seed)
    np.random.seed(args.seed)
    sentences = [[*words, "<eos>"] for words in text.sentences(text.read(args.text))]
    sentences = sentences[: args.sentences]
    words = [word for sentence in sentences for word in sentence]
    vocabulary = text.Vocabulary(words, args.vocabulary)
    held_out = [word for sentence in sentences[::10] for word in sentence]
    del sentences[::10]
    training = [word for sentence in sentences for word in sentence]
    for part, found in (("training", training), ("the held-out tenth", held_out)):
        if len(found) < 2 * args.batch:
            raise InputError(
                f"{args.text or 'the text'}: too short: expected at least {2 * args.batch} words "
                f"for {part} with --batch {args.batch}, found {len(found)}"
            )
    training, held_out = (
        columns(vocabulary.encode(part), args.batch) for part in (training, held_out)
    )
    print(f"{len(words)} words, {len(vocabulary)} different ones")

    module = mx.gluon.rnn if args.native else fused_rnn.gluon
    recurrent = module.LSTM(args.hidden, args.layers, dropout=args.dropout, input_size=args.hidden)
    net = LanguageModel(recurrent, len(vocabulary), args.hidden, args.dropout)
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True)
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": args.rate})

    losses: list[float] = []
    parameters = [p for p in net.collect_params().values() if p.grad_req != "null"]
    for epoch in range(args.epochs):
        states = recurrent.begin_state(args.batch)
        begin = time.perf_counter()
        bar = tqdm(list(pieces(training, args.steps)), desc=f"epoch {epoch + 1}", unit="step")
        for x, target in bar:
            states = [state.detach() for state in states]
            with mx.autograd.record():
                scores, states = net(x, states)
                value = loss(scores, target).mean()
            value.backward()
            gradients = [p.grad() for p in parameters]
            mx.gluon.utils.clip_global_norm(gradients, args.clip)
            trainer.step(1)
            losses.append(value.asscalar())
            bar.set_postfix(perplexity=f"{perplexity(losses[-1]):.1f}")
        speed = training.size / (time.perf_counter() - begin)
        result = perplexity(evaluate(net, loss, held_out, args.steps))
        print(f"epoch {epoch + 1}: {speed:.0f} words/s, perplexity held out {result:.1f}")
    plot(losses, args.output / "word_language_model.png")
    return losses


def plot(losses: list[float], path: Path) -> None:
    figure, axes = pyplot.subplots()
    axes.plot(losses)
    axes.set(xlabel="step", ylabel="loss (nats per word)", title="Word language model")
    figure.savefig(path)
    pyplot.close(figure)
    print(path)


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="a text file (Python's help texts)")
    parser.add_argument("--sentences", type=whole(1, SEED), help="sentences to use (all)")
    for name, kind, default in (
        ("vocabulary", whole(3, 10**7), 5000),
        ("hidden", whole(1, 10**5), 256),
        ("layers", whole(1, 100), 2),
        ("batch", whole(1, 10**6), 20),
        ("steps", whole(1, 10**5), 35),
        ("epochs", whole(1, 10**6), 5),
        ("seed", whole(0, SEED), 0),
        ("dropout", real(0, 0.99), 0.3),
        ("rate", real(1e-12, 10**6), 1e-3),
        ("clip", real(1e-12, 10**6), 5.0),
    ):
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"({default})")
    parser.add_argument("--native", action="store_true", help="MXNet's own operator")
    parser.add_argument("--output", type=Path, default=Path("example_results"), metavar="DIR")
    return parser.parse_args(given)


if __name__ == "__main__":
    with named_errors():
        train(arguments())
