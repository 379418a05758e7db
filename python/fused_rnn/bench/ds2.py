"""The recurrent layers of DeepSpeech2: MXNet's native operator against ours, in one run.

Each round times both, one after the other, and the processor's FMA peak around them, so that a
ratio never compares two moments of a machine that others use too.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Callable

import mxnet as mx
import numpy as np
from tqdm import tqdm

import fused_rnn
from fused_rnn import _core
from fused_rnn.bench import environment, report
from fused_rnn.bench.problem import Problem
from fused_rnn.bench.report import Row

MIN_ROUNDS = 3
MODES = ("lstm", "gru", "rnn_tanh")
PEAK_SECONDS = 0.05


class Case:
    """One problem: inputs, head gradients, and a call of either operator on them."""

    def __init__(self, shape: Problem) -> None:
        rng = np.random.RandomState(0)
        states = (shape.L * shape.D, shape.N, shape.H)
        state_count = 2 if shape.mode == "lstm" else 1
        bound = shape.H**-0.5  # the usual initialisation

        def uniform(limit: float, *size: int) -> mx.nd.NDArray:
            return mx.nd.array(rng.uniform(-limit, limit, size), dtype="float32")

        self.shape = shape
        self.inputs = {
            "data": uniform(1, shape.T, shape.N, shape.I),
            "parameters": uniform(bound, shape.layout.size),
        }
        for name in ("state", "state_cell")[:state_count]:
            self.inputs[name] = uniform(1, *states)
        self.heads = [uniform(1, shape.T, shape.N, shape.D * shape.H)]
        self.heads += [uniform(1, *states) for _ in range(state_count)]
        for name in ("data", "parameters"):
            self.inputs[name].attach_grad()

    def forward(self, operator: Callable) -> list[mx.nd.NDArray]:
        """Outputs and final states."""
        return operator(
            **self.inputs,
            mode=self.shape.mode,
            state_size=self.shape.H,
            num_layers=self.shape.L,
            bidirectional=self.shape.D == 2,
            state_outputs=True,
        )

    def run(self, operator: Callable, training: bool) -> list[mx.nd.NDArray]:
        """One pass, waited for: MXNet's engine is asynchronous."""
        if training:
            with mx.autograd.record():
                outputs = self.forward(operator)
            mx.autograd.backward(outputs, self.heads)
        else:
            outputs = self.forward(operator)
        mx.nd.waitall()
        return outputs

    def results(self, operator: Callable) -> dict[str, np.ndarray]:
        """Every output and gradient of a training pass, by name."""
        outputs = self.run(operator, training=True)
        named = {f"output {k}": output.asnumpy() for k, output in enumerate(outputs)}
        for name in ("data", "parameters"):
            named[f"gradient of {name}"] = self.inputs[name].grad.asnumpy()
        return named

    def compare(self) -> None:
        """Ends the run unless both operators give the same results, within rounding."""
        expected = self.results(mx.nd.RNN)
        for name, actual in self.results(mx.nd.FusedRNN).items():
            difference = float(np.abs(actual - expected[name]).max())
            tolerance = self.tolerance(expected[name])
            if not difference <= tolerance:
                sys.exit(
                    f"{self.shape.mode}: {name} differs from the native operator's by "
                    f"{difference:.3g}; expected at most {tolerance:.3g}"
                )

    def tolerance(self, expected: np.ndarray) -> float:
        """Rounding of float32: a random walk over the additions that lead to one element.

        Earlier time steps do not count: weights of this size let their errors die out.
        """
        shape = self.shape
        additions = shape.L * (shape.input_sizes[-1] + shape.H) + shape.T * shape.N
        return float(np.finfo(np.float32).eps * np.sqrt(additions) * np.abs(expected).max())


def timed(case: Case, operator: Callable, training: bool) -> float:
    """Seconds of one pass."""
    start = time.perf_counter()
    case.run(operator, training)
    return time.perf_counter() - start


def profile(case: Case, training: bool) -> str:
    """A table row: the share of all threads' time that one pass of ours spends in each stage."""
    _core.start_profile()
    case.run(mx.nd.FusedRNN, training)
    stages = _core.stop_profile()
    total = stages.pop("elapsed") * _core.num_threads()
    stages["other"] = total - sum(stages.values())
    shares = " | ".join(f"{name} {seconds / total:.1%}" for name, seconds in stages.items())
    return f"{case.shape.mode} {report.pass_name(training)}: {shares}"


def fma_peak() -> float:
    """GFLOP/s that all threads reach now, on float32 multiply-adds in registers."""
    return _core.fma_peak("float32", 0, PEAK_SECONDS)


def measure(case: Case, training: bool, rounds: int, seconds: float, progress: tqdm) -> Row:
    """Rounds until there are enough or the time is over, but never fewer than MIN_ROUNDS."""
    operators = {"native": mx.nd.RNN, "ours": mx.nd.FusedRNN}
    samples: dict[str, list[float]] = {name: [] for name in operators}
    peaks = []
    start = time.perf_counter()
    for k in range(rounds):
        if k >= MIN_ROUNDS and time.perf_counter() - start > seconds:
            progress.total -= rounds - k
            break
        probes = [fma_peak()]
        for name in operators if k % 2 == 0 else reversed(list(operators)):
            samples[name].append(timed(case, operators[name], training))
            probes.append(fma_peak())
        peaks.append(max(probes))
        progress.update()
    return Row(
        mode=case.shape.mode,
        training=training,
        batch=case.shape.N,
        flops=case.shape.flops(training),
        native_seconds=samples["native"],
        ours_seconds=samples["ours"],
        peak_gflops=peaks,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bench ds2`."""
    for name, default, meaning in (
        ("T", 300, "time steps"),
        ("N", 20, "sequences in a batch"),
        ("I", 800, "input size"),
        ("H", 800, "hidden size"),
        ("layers", 1, "layers"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{meaning} ({default})")
    parser.add_argument("--bidirectional", action="store_true", help="both directions")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--rounds", type=int, default=10, help=f"at least {MIN_ROUNDS} (10)")
    parser.add_argument(
        "--budget",
        type=float,
        default=240,
        help="seconds for the rounds; fewer rounds if over (240)",
    )
    parser.add_argument("--threads", type=int, help="of both (OMP_NUM_THREADS, or one per core)")
    parser.add_argument("--output", type=Path, default=Path("bench_results"), metavar="DIR")
    parser.add_argument(
        "--profile", action="store_true", help="also where our threads' time goes, by stage"
    )
    parser.add_argument(
        "--model", action="store_true", help="the whole network's step instead (in the repository)"
    )


def run(args: argparse.Namespace) -> None:
    """Compares, measures, reports."""
    if args.model:
        return run_model(args)
    if args.rounds < MIN_ROUNDS:
        sys.exit(f"--rounds: expected at least {MIN_ROUNDS}, got {args.rounds}")
    threads = str(args.threads or os.environ.get("OMP_NUM_THREADS") or environment.core_count())
    if os.environ.get("OMP_NUM_THREADS") != threads:
        # Said to OpenMP before it starts, hence in a new process: left to itself, MXNet takes every
        # processor for half a core and uses half of them.
        os.environ["OMP_NUM_THREADS"] = threads
        os.execv(sys.executable, [sys.executable, "-m", "fused_rnn", *sys.argv[1:]])
    if fused_rnn.installed():
        sys.exit(
            "install() has replaced the native operator; unset FUSED_RNN_INSTALL to measure it"
        )
    sizes = {name: getattr(args, name) for name in "TNIH"}
    sizes.update(L=args.layers, D=2 if args.bidirectional else 1)
    passes = [(mode, training) for mode in args.modes for training in (False, True)]
    rows, profiles = [], []
    with tqdm(total=len(passes) * args.rounds, unit="round") as progress:
        for mode in args.modes:
            progress.set_description(f"{mode}: comparing")
            case = Case(Problem(mode, **sizes))
            case.compare()
            for training in (False, True):
                progress.set_description(f"{mode}: {report.pass_name(training)}")
                seconds = args.budget / len(passes)
                rows.append(measure(case, training, args.rounds, seconds, progress))
                if args.profile:
                    profiles.append(profile(case, training))
    report.write(rows, sizes, environment.describe(), args.output)
    print(*profiles, sep="\n")


def run_model(args: argparse.Namespace) -> None:
    """The step of the whole network, by the example's own benchmark."""
    try:
        from examples.deepspeech2 import bench
    except ImportError as error:
        sys.exit(f"--model: expected `python -m fused_rnn` in the repository's root: {error}")
    bench.run(args)
