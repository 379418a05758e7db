"""Trains a language model on sentences of different lengths with BucketingModule.

    python examples/bucketing.py

The model is one for MXNet as it is: `mx.rnn.FusedRNNCell`, on our kernels through `install`.
--native leaves `install` out.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from pathlib import Path

import mxnet as mx
import numpy as np
import text
from inputs import SEED, InputError, named_errors, real, whole
from tqdm import tqdm

import fused_rnn


def bucketed(lengths: list[int], buckets: list[int]) -> Counter[int]:
    """How many sentences of these lengths each bucket gets."""
    smallest = (min((size for size in buckets if size >= n), default=None) for n in lengths)
    return Counter(size for size in smallest if size is not None)


def batches(args: argparse.Namespace) -> tuple[mx.rnn.BucketSentenceIter, int]:
    """Sentences, each in the smallest bucket that holds it, and the number of words."""
    found = text.sentences(text.read(args.text))[: args.sentences]
    vocabulary = text.Vocabulary([word for s in found for word in s], args.vocabulary)
    encoded = [list(vocabulary.encode([*words, "<eos>"])) for words in found]
    fitting = bucketed([len(words) for words in encoded], args.buckets)
    if max(fitting.values(), default=0) < args.batch:
        raise InputError(
            f"{args.text or 'the text'}: too short: expected at least {args.batch} sentences for "
            f"one of the buckets {args.buckets}, found {[fitting[size] for size in args.buckets]}"
        )
    iterator = mx.rnn.BucketSentenceIter(
        encoded, args.batch, buckets=args.buckets, invalid_label=-1, layout="TN"
    )
    return iterator, len(vocabulary)


def train(args: argparse.Namespace) -> list[float]:
    """Trains and prints; the perplexity of each epoch."""
    for seed in (random.seed, np.random.seed, mx.random.seed):  # the iterator uses the first two
        seed(args.seed)
    iterator, words = batches(args)
    if not args.native:
        fused_rnn.install()
    cell = mx.rnn.FusedRNNCell(args.hidden, num_layers=args.layers, mode="lstm", prefix="lstm_")

    def graph(length: int):
        data, label = mx.sym.var("data"), mx.sym.var("softmax_label")
        embedded = mx.sym.Embedding(data, input_dim=words, output_dim=args.hidden, name="embed")
        cell.reset()
        y, _ = cell.unroll(length, embedded, layout="TNC", merge_outputs=True)
        flat = mx.sym.reshape(y, shape=(-1, args.hidden))
        scores = mx.sym.FullyConnected(flat, num_hidden=words, name="scores")
        flat_label = mx.sym.reshape(label, shape=(-1,))
        loss = mx.sym.SoftmaxOutput(
            scores,
            flat_label,
            name="softmax",
            use_ignore=True,
            ignore_label=-1,
            normalization="valid",
        )
        return loss, ("data",), ("softmax_label",)

    module = mx.mod.BucketingModule(graph, default_bucket_key=iterator.default_bucket_key)
    module.bind(iterator.provide_data, iterator.provide_label)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": args.rate})
    metric = mx.metric.Perplexity(ignore_label=-1)
    perplexities = []
    for epoch in range(args.epochs):
        iterator.reset()
        metric.reset()
        begin = time.perf_counter()
        bar = tqdm(iterator, desc=f"epoch {epoch + 1}", unit="batch")
        for batch in bar:
            module.forward_backward(batch)
            module.update()
            module.update_metric(metric, batch.label)
            bar.set_postfix(perplexity=f"{metric.get()[1]:.1f}")
        seconds = time.perf_counter() - begin
        perplexities.append(metric.get()[1])
        print(f"epoch {epoch + 1}: {seconds:.1f} s, perplexity {perplexities[-1]:.1f}")
    return perplexities


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="a text file (Python's help texts)")
    parser.add_argument("--sentences", type=whole(1, SEED), help="sentences to use (all)")
    buckets = [10, 20, 40, 80]
    parser.add_argument(
        "--buckets", type=whole(1, 10**4), nargs="+", default=buckets, help=f"({buckets})"
    )
    for name, least, most, default in (
        ("vocabulary", 3, 10**7, 5000),
        ("hidden", 1, 10**5, 256),
        ("layers", 1, 100, 2),
        ("batch", 1, 10**6, 32),
        ("epochs", 1, 10**6, 5),
        ("seed", 0, SEED, 0),
    ):
        kind = whole(least, most)
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"({default})")
    parser.add_argument("--rate", type=real(1e-12, 10**6), default=1e-3, help="(0.001)")
    parser.add_argument("--native", action="store_true", help="MXNet's own operator")
    return parser.parse_args(given)


if __name__ == "__main__":
    with named_errors():
        train(arguments())
