"""The recurrent layers of DeepSpeech2: MXNet's native operator against ours, in one run.

Each round times both, one after the other, and the processor's FMA peak around them, so that a
ratio never compares two moments of a machine that others use too.

Both are bound as symbols, as modules, hybridized blocks with static memory and exported models are:
MXNet makes an operator's state once then. With `--imperative` they are called on arrays, where each
call makes a state, and the native operator prepares its weights anew in each.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import mxnet as mx
import numpy as np
from tqdm import tqdm

import fused_rnn
from fused_rnn import _core, environment
from fused_rnn._errors import UserError
from fused_rnn.bench import options, report
from fused_rnn.bench.problem import ELEMENT_BYTES, Problem
from fused_rnn.bench.report import Row
from fused_rnn.bench.results import MODES, pass_name

MIN_ROUNDS = 3
USUAL_MODES = ("lstm", "gru", "rnn_tanh")
DTYPES = ("float32", "float64")  # those of the native operator
OPERATORS = {"native": "RNN", "ours": "FusedRNN"}  # names in mx.sym and mx.nd
DIFFERENTIATED = ("data", "parameters")
PEAK_SECONDS = 0.05


class Bound:
    """An operator bound to its inputs."""

    def __init__(self, name: str, inputs: dict[str, mx.nd.NDArray], attributes: dict) -> None:
        symbol = getattr(mx.sym, name)(**{key: mx.sym.var(key) for key in inputs}, **attributes)
        self.gradients = {key: mx.nd.zeros_like(inputs[key]) for key in DIFFERENTIATED}
        requests = {key: "write" if key in DIFFERENTIATED else "null" for key in inputs}
        self.executor = symbol.bind(mx.cpu(), inputs, self.gradients, requests)

    def run(self, heads: list[mx.nd.NDArray] | None) -> list[mx.nd.NDArray]:
        """Outputs; with heads also the gradients."""
        self.executor.forward(is_train=heads is not None)
        if heads is not None:
            self.executor.backward(heads)
        return self.executor.outputs


class Imperative:
    """An operator called as a function."""

    def __init__(self, name: str, inputs: dict[str, mx.nd.NDArray], attributes: dict) -> None:
        self.operator, self.attributes = getattr(mx.nd, name), attributes
        self.inputs = {key: array.copy() for key, array in inputs.items()}
        for key in DIFFERENTIATED:
            self.inputs[key].attach_grad()
        self.gradients = {key: self.inputs[key].grad for key in DIFFERENTIATED}

    def run(self, heads: list[mx.nd.NDArray] | None) -> list[mx.nd.NDArray]:
        """Outputs; with heads also the gradients."""
        if heads is None:
            return self.operator(**self.inputs, **self.attributes)
        with mx.autograd.record():
            outputs = self.operator(**self.inputs, **self.attributes)
        mx.autograd.backward(outputs, heads)
        return outputs


class Case:
    """One problem: both operators on the same inputs, and the head gradients."""

    def __init__(self, shape: Problem, imperative: bool = False) -> None:
        rng = np.random.RandomState(0)
        states = (shape.L * shape.D, shape.N, shape.H)
        state_count = 2 if shape.mode == "lstm" else 1
        bound = shape.H**-0.5  # the usual initialisation

        def uniform(limit: float, *size: int) -> mx.nd.NDArray:
            return mx.nd.array(rng.uniform(-limit, limit, size), dtype=shape.dtype)

        self.shape, self.imperative = shape, imperative
        inputs = {
            "data": uniform(1, shape.T, shape.N, shape.I),
            "parameters": uniform(bound, shape.layout.size),
        }
        for name in ("state", "state_cell")[:state_count]:
            inputs[name] = uniform(1, *states)
        self.heads = [uniform(1, shape.T, shape.N, shape.D * shape.H)]
        self.heads += [uniform(1, *states) for _ in range(state_count)]
        attributes = {
            "mode": shape.mode,
            "state_size": shape.H,
            "num_layers": shape.L,
            "bidirectional": shape.D == 2,
            "state_outputs": True,
        }
        form = Imperative if imperative else Bound
        self.operators = {key: form(name, inputs, attributes) for key, name in OPERATORS.items()}

    def run(self, operator: str, training: bool) -> list[mx.nd.NDArray]:
        """One pass, waited for: MXNet's engine is asynchronous."""
        outputs = self.operators[operator].run(self.heads if training else None)
        mx.nd.waitall()
        return outputs

    def results(self, operator: str) -> dict[str, np.ndarray]:
        """Every output and gradient of a training pass, by name."""
        outputs = self.run(operator, training=True)
        named = {f"output {k}": output.asnumpy() for k, output in enumerate(outputs)}
        for name, gradient in self.operators[operator].gradients.items():
            named[f"gradient of {name}"] = gradient.asnumpy()
        return named

    def compare(self) -> None:
        """Ends the run unless both operators give the same results, within rounding."""
        expected = self.results("native")
        for name, actual in self.results("ours").items():
            difference = float(np.abs(actual - expected[name]).max())
            tolerance = self.tolerance(expected[name])
            if not difference <= tolerance:
                sys.exit(
                    f"{self.shape.mode}: {name} differs from the native operator's by "
                    f"{difference:.3g}; expected at most {tolerance:.3g}"
                )

    def tolerance(self, expected: np.ndarray) -> float:
        """Rounding: a random walk over the additions that lead to one element.

        Earlier time steps do not count: weights of this size let their errors die out.
        """
        shape = self.shape
        additions = shape.L * (shape.input_sizes[-1] + shape.H) + shape.T * shape.N
        return float(np.finfo(expected.dtype).eps * np.sqrt(additions) * np.abs(expected).max())


def timed(case: Case, operator: str, training: bool) -> float:
    """Seconds of one pass."""
    start = time.perf_counter()
    case.run(operator, training)
    return time.perf_counter() - start


def profile(case: Case, training: bool) -> str:
    """A table row: the share of all threads' time that one pass of ours spends in each stage."""
    _core.start_profile()
    case.run("ours", training)
    stages = _core.stop_profile()
    total = stages.pop("elapsed") * _core.num_threads()
    stages["other"] = total - sum(stages.values())
    shares = " | ".join(f"{name} {seconds / total:.1%}" for name, seconds in stages.items())
    return f"{case.shape.mode} {pass_name(training)}: {shares}"


def fma_peak(dtype: str) -> float:
    """GFLOP/s that all threads reach now, on multiply-adds in registers."""
    return _core.fma_peak(dtype, 0, PEAK_SECONDS)


def measure(case: Case, training: bool, rounds: int, seconds: float, progress: tqdm) -> Row:
    """Rounds until there are enough or the time is over, but never fewer than MIN_ROUNDS."""
    samples: dict[str, list[float]] = {name: [] for name in OPERATORS}
    peaks = []
    start = time.perf_counter()
    for k in range(rounds):
        if k >= MIN_ROUNDS and time.perf_counter() - start > seconds:
            progress.total -= rounds - k
            break
        probes = [fma_peak(case.shape.dtype)]
        for name in OPERATORS if k % 2 == 0 else reversed(list(OPERATORS)):
            samples[name].append(timed(case, name, training))
            probes.append(fma_peak(case.shape.dtype))
        peaks.append(max(probes))
        progress.update()
    return Row(
        problem=case.shape,
        training=training,
        imperative=case.imperative,
        threads=_core.num_threads(),
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
        parser.add_argument(
            f"--{name}", type=options.whole(1), default=default, help=f"{meaning} ({default})"
        )
    parser.add_argument("--bidirectional", action="store_true", help="both directions")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=USUAL_MODES)
    parser.add_argument("--dtype", choices=DTYPES, default=DTYPES[0])
    options.add_common(parser, budget=240, least_rounds=MIN_ROUNDS)
    parser.add_argument(
        "--imperative", action="store_true", help="calls on arrays instead of a bound symbol"
    )
    parser.add_argument(
        "--profile", action="store_true", help="also where our threads' time goes, by stage"
    )
    parser.add_argument(
        "--model", action="store_true", help="the whole network's step instead (in the repository)"
    )


def bytes_needed(problem: Problem) -> int:
    """About what both operators and their inputs take in training."""
    try:
        sizes = _core.sizes(
            *(problem.mode, problem.T, problem.N, problem.I, problem.H),
            num_layers=problem.L,
            bidirectional=problem.D == 2,
            dtype=problem.dtype,
        )
    except ValueError as error:
        raise UserError(f"sizes: {error}") from error
    rows = problem.T * problem.N * ELEMENT_BYTES[problem.dtype]
    arrays = sizes["params"] + rows * (problem.I + problem.D * problem.H)
    return 3 * arrays + 2 * (sizes["reserve"] + sizes["workspace_backward"])


def run(args: argparse.Namespace) -> None:
    """Compares, measures, reports."""
    threads = str(options.thread_count(args))
    options.prepare_folder(args.output, "--output")
    if args.model:
        return run_model(args)
    sizes = {name: getattr(args, name) for name in "TNIH"}
    sizes.update(L=args.layers, D=2 if args.bidirectional else 1)
    problems = [Problem(mode, **sizes, dtype=args.dtype) for mode in dict.fromkeys(args.modes)]
    options.check_memory(max(map(bytes_needed, problems)))
    if os.environ.get("OMP_NUM_THREADS") != threads:
        # Said to OpenMP before it starts, hence in a new process: left to itself, MXNet takes every
        # processor for half a core and uses half of them.
        os.environ["OMP_NUM_THREADS"] = threads
        os.execv(sys.executable, [sys.executable, "-m", "fused_rnn", *sys.argv[1:]])
    if fused_rnn.installed():
        sys.exit(
            "install() has replaced the native operator; unset FUSED_RNN_INSTALL to measure it"
        )
    rows, profiles = [], []
    passes = 2 * len(problems)
    with tqdm(total=passes * args.rounds, unit="round") as progress:
        for problem in problems:
            progress.set_description(f"{problem.mode}: comparing")
            with progress.external_write_mode():  # MXNet writes a line when a symbol is bound
                case = Case(problem, args.imperative)
            case.compare()
            for training in (False, True):
                progress.set_description(f"{problem.mode}: {pass_name(training)}")
                rows.append(measure(case, training, args.rounds, args.budget / passes, progress))
                if args.profile:
                    profiles.append(profile(case, training))
    machine = {**environment.describe(), "command": options.command()}
    settings = {"dtype": args.dtype, "imperative": args.imperative}
    report.write(report.Run(sizes, settings, machine, rows), args.output)
    print(*profiles, sep="\n")


def run_model(args: argparse.Namespace) -> None:
    """The step of the whole network, by the example's own benchmark."""
    try:
        from examples.deepspeech2 import bench
    except ImportError as error:
        sys.exit(f"--model: expected `python -m fused_rnn` in the repository's root: {error}")
    bench.run(args)
