"""Trains a language model on sentences of different lengths with BucketingModule.

    python examples/bucketing.py

The model is one for MXNet as it is: `mx.rnn.FusedRNNCell`, on our kernels through `install`.
--native leaves `install` out.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import mxnet as mx
import numpy as np
import text
from tqdm import tqdm

import fused_rnn


def batches(args: argparse.Namespace) -> tuple[mx.rnn.BucketSentenceIter, int]:
    """Sentences, each in the smallest bucket that holds it, and the number of words."""
    found = text.sentences(text.read(args.text))[: args.sentences]
    vocabulary = text.Vocabulary([word for s in found for word in s], args.vocabulary)
    encoded = [list(vocabulary.encode([*words, "<eos>"])) for words in found]
    iterator = mx.rnn.BucketSentenceIter(
        encoded, args.batch, buckets=args.buckets, invalid_label=-1, layout="TN"
    )
    return iterator, len(vocabulary)


def train(args: argparse.Namespace) -> list[float]:
    """Trains and prints; the perplexity of each epoch."""
    for seed in (random.seed, np.random.seed, mx.random.seed):  # the iterator uses the first two
        seed(args.seed)
    if not args.native:
        fused_rnn.install()
    iterator, words = batches(args)
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
    parser.add_argument("--sentences", type=int, help="sentences of the text to use (all)")
    buckets = [10, 20, 40, 80]
    parser.add_argument("--buckets", type=int, nargs="+", default=buckets, help=f"({buckets})")
    for name, default in (
        ("vocabulary", 5000),
        ("hidden", 256),
        ("layers", 2),
        ("batch", 32),
        ("epochs", 5),
        ("seed", 0),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"({default})")
    parser.add_argument("--rate", type=float, default=1e-3, help="(0.001)")
    parser.add_argument("--native", action="store_true", help="MXNet's own operator")
    return parser.parse_args(given)


if __name__ == "__main__":
    train(arguments())
