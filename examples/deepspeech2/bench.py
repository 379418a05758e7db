"""Times a training step of the whole model: our layers, MXNet's own, and PyTorch.

    python -m examples.deepspeech2.bench

Each runs in a process of its own, and they take turns, so that all see the same machine. The
recurrent layers are also timed alone. Sequences have full length: where lengths differ, only ours
saves the work on the padding.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, Callable

import numpy as np
from tqdm import tqdm

from examples.deepspeech2.audio import BANDS
from examples.deepspeech2.data import BLANK
from examples.deepspeech2.model import CELLS, PRESETS, Config, DeepSpeech2
from examples.inputs import InputError, named_errors, real, whole, writable
from fused_rnn import environment

NAMES = {"ours": "ours", "native": "mx.gluon.rnn", "torch": "PyTorch"}
RATE = 1e-4
MIN_ROUNDS = 3
Step = Callable[[], None]


def problem(config: Config, T: int, N: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of N sequences, and labels of a third of their T steps."""
    frames = T * int(np.prod([stride for stride, _ in config.strides]))
    rng = np.random.default_rng(0)
    features = rng.standard_normal((N, frames, BANDS), "float32")
    return features, rng.integers(0, BLANK, (N, T // 3)).astype("float32")


def mxnet_steps(config: Config, T: int, N: int) -> tuple[Step, Step, int]:
    """A step of training, one of the recurrent layers alone, and the number of parameters."""
    import mxnet as mx

    features, labels = (mx.nd.array(values) for values in problem(config, T, N))
    frames = mx.nd.full(N, features.shape[1])
    net = DeepSpeech2(config, BLANK + 1)
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True)
    ctc = mx.gluon.loss.CTCLoss(layout="TNC", label_layout="NT")
    parameters = net.collect_params()
    trainer = mx.gluon.Trainer(parameters, "sgd", {"learning_rate": RATE}, kvstore=None)
    inner = mx.nd.random.normal(shape=(T, N, config.bands()[-1] * config.channels[-1]))
    inner.attach_grad()
    steps = mx.nd.full(N, T)

    def whole() -> None:
        with mx.autograd.record():
            scores, lengths = net(features, frames)
            loss = ctc(scores, labels, lengths)
        loss.backward()
        trainer.step(N)
        mx.nd.waitall()

    def recurrent() -> None:
        with mx.autograd.record():
            y = net.recurrent(inner, None, steps)
        y.backward()
        mx.nd.waitall()

    whole()  # gives the parameters their shapes
    learned = [p for p in parameters.values() if p.grad_req != "null"]
    return whole, recurrent, sum(int(np.prod(p.shape)) for p in learned)


def torch_steps(config: Config, T: int, N: int) -> tuple[Step, Step, int]:
    """The same in PyTorch."""
    import torch
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()
            kind = {"gru": nn.GRU, "lstm": nn.LSTM}.get(config.cell, nn.RNN)
            options = {"nonlinearity": config.cell[4:]} if kind is nn.RNN else {}
            sizes = [size] + [2 * config.hidden] * (config.layers - 1)
            self.layers = nn.ModuleList(
                kind(size, config.hidden, bidirectional=True, **options) for size in sizes
            )
            self.norms = nn.ModuleList(nn.BatchNorm1d(size) for size in sizes[1:])

        def forward(self, x: Any) -> Any:
            for k, layer in enumerate(self.layers):
                x = layer(self.norms[k - 1](x.flatten(0, 1)).view_as(x) if k else x)[0]
            return x

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            blocks: list[nn.Module] = []
            before = 1
            for channels, kernel, stride in zip(config.channels, config.kernels, config.strides):
                padding = tuple(size // 2 for size in kernel)
                blocks += [
                    nn.Conv2d(before, channels, kernel, stride, padding, bias=False),
                    nn.BatchNorm2d(channels),
                    nn.Hardtanh(0, 20),
                ]
                before = channels
            self.convolutions = nn.Sequential(*blocks)
            self.recurrent = Recurrent(config.bands()[-1] * before)
            self.norm = nn.BatchNorm1d(2 * config.hidden)
            self.scores = nn.Linear(2 * config.hidden, BLANK + 1)

        def forward(self, features: Any) -> Any:
            x = self.convolutions(features[:, None])
            x = self.recurrent(x.permute(2, 0, 3, 1).flatten(2))
            return self.scores(self.norm(x.flatten(0, 1)).view_as(x))

    features, labels = (torch.from_numpy(values) for values in problem(config, T, N))
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    ctc = nn.CTCLoss(blank=BLANK, reduction="sum")
    steps, characters = torch.full((N,), T), torch.full((N,), labels.shape[1])
    inner = torch.randn(T, N, config.bands()[-1] * config.channels[-1], requires_grad=True)

    def whole() -> None:
        optimizer.zero_grad()
        scores = model(features).log_softmax(2)
        (ctc(scores, labels.long(), steps, characters) / N).backward()
        optimizer.step()

    def recurrent() -> None:
        optimizer.zero_grad()
        y = model.recurrent(inner)
        y.backward(torch.ones_like(y))

    whole()
    return whole, recurrent, sum(p.numel() for p in model.parameters())


@named_errors()
def serve(name: str, config: Config, T: int, N: int) -> None:
    """In a process of its own: for each line of the input, the seconds of both steps."""
    make = torch_steps if name == "torch" else mxnet_steps
    whole, recurrent, count = make(dataclasses.replace(config, native=name == "native"), T, N)
    recurrent()
    print(count, flush=True)
    for _ in sys.stdin:
        seconds = []
        for step in (whole, recurrent):
            begin = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - begin)
        print(json.dumps(seconds), flush=True)


class Server:
    """The process of one implementation."""

    def __init__(self, name: str, preset: str, cell: str, T: int, N: int, threads: int) -> None:
        command = [sys.executable, "-m", "examples.deepspeech2.bench", f"--serve={name}"]
        command += [f"--preset={preset}", f"--modes={cell}", f"--T={T}", f"--N={N}"]
        environ = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, env=environ, **pipes)
        self.name = name
        self.parameters = int(self._answer())
        self.samples: list[list[float]] = []

    def _answer(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            raise InputError(f"{self.name}: the process has ended with status {status}")
        return line

    def measure(self) -> None:
        """One more sample."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.samples.append(json.loads(self._answer()))

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def compare(args: argparse.Namespace, preset: str, cell: str) -> dict[str, Any]:
    """Samples of all implementations that are installed."""
    names = [n for n in NAMES if n != "torch" or importlib.util.find_spec("torch")]
    threads = args.threads or environment.core_count()
    servers: list[Server] = []
    try:
        for name in names:
            servers.append(Server(name, preset, cell, args.T, args.N, threads))
        counts = {server.name: server.parameters for server in servers}
        if len(set(counts.values())) != 1:
            raise RuntimeError(f"the models differ: parameters {counts}")
        begin = time.perf_counter()
        for done in tqdm(range(args.rounds), desc=cell, unit="round"):
            if done >= MIN_ROUNDS and time.perf_counter() - begin > args.budget / len(args.modes):
                break
            for server in servers:
                server.measure()
    finally:
        for server in servers:
            server.close()
    samples = {server.name: server.samples for server in servers}
    return {"cell": cell, "parameters": servers[0].parameters, "threads": threads, **samples}


def table(results: list[dict[str, Any]]) -> str:
    """Medians (ranges) of the rounds in Markdown."""
    lines = [
        "| model | step, s | recurrent layers alone, s | share | step against ours |",
        "| --- | --- | --- | --- | --- |",
    ]
    for result in results:
        ours = [whole for whole, _ in result["ours"]]
        for name in (name for name in NAMES if name in result):
            whole, recurrent = zip(*result[name])
            share = median(part / all_ for all_, part in result[name])
            ratio = median(other / own for other, own in zip(whole, ours))
            lines.append(
                f"| {result['cell']}, {NAMES[name]} | {spread(whole)} | {spread(recurrent)} "
                f"| {share:.0%} | {ratio:.2f} |"
            )
    return "\n".join(lines)


def spread(seconds: tuple[float, ...]) -> str:
    """Median (minimum-maximum)."""
    return f"{median(seconds):.3f} ({min(seconds):.3f}-{max(seconds):.3f})"


@named_errors()
def run(args: argparse.Namespace, preset: str = "ds2") -> None:
    """Measures, prints the table, writes JSON. The arguments are those of `fused_rnn bench ds2`."""
    writable(args.output)
    results = [compare(args, preset, cell) for cell in args.modes]
    machine = environment.describe()
    threads = results[0]["threads"]
    print(f"\n{preset}, float32, T={args.T} N={args.N}; {machine['cpu']}, {threads} threads\n")
    print(table(results))
    path = args.output / f"{preset}_model_T{args.T}_N{args.N}.json"
    path.write_text(json.dumps({"environment": machine, "results": results}, indent=2) + "\n")
    print(f"\nWrote {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", choices=PRESETS, default="ds2", help="(ds2)")
    parser.add_argument(
        "--T", type=whole(3, 10**5), default=300, help="steps of the recurrent layers (300)"
    )
    parser.add_argument("--N", type=whole(1, 10**4), default=20, help="sequences in a batch (20)")
    parser.add_argument("--modes", nargs="+", choices=CELLS, default=["gru"], help="(gru)")
    parser.add_argument("--rounds", type=whole(1, 10**6), default=5, help="(5)")
    parser.add_argument(
        "--budget",
        type=real(0, 10**6),
        default=600,
        help="seconds; fewer rounds, at least 3, if over (600)",
    )
    parser.add_argument("--threads", type=whole(1, 1024), help="(one per core)")
    parser.add_argument("--output", type=Path, default=Path("bench_results"), metavar="DIR")
    parser.add_argument("--serve", choices=NAMES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        config = dataclasses.replace(PRESETS[args.preset], cell=args.modes[0])
        serve(args.serve, config, args.T, args.N)
    else:
        run(args, args.preset)


if __name__ == "__main__":
    main()
