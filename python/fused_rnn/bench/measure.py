"""Measures blocks of the grid: results are compared first, then all peers are timed in turn."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Callable, Iterable, Iterator

import numpy as np

from fused_rnn import _core
from fused_rnn.bench import probes
from fused_rnn.bench.conversions import FORMS
from fused_rnn.bench.grid import Block
from fused_rnn.bench.peers import OURS, PEERS, Installed, Worker
from fused_rnn.bench.problem import ELEMENT_BYTES, Problem
from fused_rnn.bench.results import MODES, Row, key

MIN_ROUNDS = 3
# A sample is the median of as many calls as fit into (seconds), but at most (number).
CALLS = (0.03, 1000)
CALLS_FOR_LATENCY = (0.5, 50)
LONG_CALL = 1.0  # seconds
# For sharing the budget: seconds in which a process starts, and operations per second of a peer.
STARTING, MEDIUM_RATE = 0.7, 2e11
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


class WrongResult(Exception):
    """A peer does not compute what ours does."""


class OverBudget(Exception):
    """The fewest rounds do not fit into the time that is left."""


def reference(
    problem: Problem, arrays: dict[str, np.ndarray], training: bool
) -> dict[str, np.ndarray]:
    """Our results, by name; of 16-bit types those of float32."""
    options: dict[str, Any] = {"num_layers": problem.L, "bidirectional": problem.D == 2}
    options["lengths"] = arrays.get("lengths")
    inputs = [arrays.get(name) for name in ("x", "params", "h0", "c0")]
    y, hN, cN, reserve = _core.forward(problem.mode, *inputs, training=training, **options)
    named = {"y": y, "hN": hN, "cN": cN}
    if training:
        heads = [arrays.get(name) for name in ("dy", "dhN", "dcN")]
        requests = {"dh0_req": "null", "dc0_req": "null"}
        named["dx"], named["dparams"], _, _ = _core.backward(
            problem.mode, *inputs, y, reserve, *heads, **options, **requests
        )
    return {name: array for name, array in named.items() if array is not None}


def tolerance(problem: Problem, expected: np.ndarray) -> float:
    """Rounding: a random walk over the additions that lead to one element, in the type computed
    with, and a few roundings to the type stored in.

    Earlier time steps do not count: weights of this size let their errors die out.
    """
    additions = problem.L * (problem.input_sizes[-1] + problem.H) + problem.T * problem.N
    relative = np.finfo(expected.dtype).eps * np.sqrt(additions)
    relative += 4 * problem.L * EPSILON.get(problem.dtype, 0)
    return float(relative * np.abs(expected).max(initial=0))


def compare(
    label: str, problem: Problem, expected: dict[str, np.ndarray], actual: dict[str, np.ndarray]
) -> None:
    """Raises WrongResult unless all expected arrays are there and equal within rounding."""
    for name, right in expected.items():
        if name not in actual:
            raise WrongResult(f"{label}, {MODES[problem.mode]}: gave no {name}")
        found = actual[name]
        if found.shape != right.shape:
            raise WrongResult(
                f"{label}, {MODES[problem.mode]}: {name} has shape {found.shape}, "
                f"expected {right.shape}"
            )
        difference = float(np.abs(found - right).max(initial=0))
        allowed = tolerance(problem, right)
        if not difference <= allowed:
            raise WrongResult(
                f"{label}, {MODES[problem.mode]}: {name} differs from ours by {difference:.3g}; "
                f"expected at most {allowed:.3g}"
            )


def read_results(path: Path, installed: Installed, problem: Problem) -> dict[str, np.ndarray]:
    """A worker's results, gradients of weights as those of our flat vector."""
    with np.load(path) as file:
        found = dict(file)
    gradients = {name[2:]: found.pop(name) for name in list(found) if name.startswith("d:")}
    if gradients:
        found["dparams"] = FORMS[installed.peer.form].restore(problem.layout, gradients)
    return found


@contextlib.contextmanager
def competitor(wanted: bool) -> Iterator[list[int]]:
    """A process that keeps the last of our processors busy; its id, if it is wanted."""
    if not wanted:
        yield []
        return
    cpu = max(os.sched_getaffinity(0))
    code = (
        f"import os\nos.sched_setaffinity(0, {{{cpu}}})\n"
        f"while os.getppid() == {os.getpid()}:\n  for _ in range(10**6): pass"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        time.sleep(0.2)
        yield [process.pid]
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def open_workers(
    block: Block, arrays: dict[str, np.ndarray], installed: dict[str, Installed], folder: Path
) -> Iterator[dict[str, Worker]]:
    """One process for each peer, all started at once, each with its arrays."""
    problem = block.problem
    fields = {name: getattr(problem, name) for name in ("mode", *"TNIHLD", "dtype")}
    fields["threads"] = block.threads
    inputs = {name: array for name, array in arrays.items() if name != "params"}
    workers: dict[str, Worker] = {}
    files: dict[str, str] = {}
    try:
        for name, each in installed.items():
            form = each.peer.form
            if form not in files:
                files[form] = str(folder / f"{form}.npz")
                converted = FORMS[form].convert(problem.layout, arrays["params"])
                weights = {f"w:{key}": np.ascontiguousarray(w) for key, w in converted.items()}
                np.savez(files[form], **inputs, **weights)
            workers[name] = Worker(each, block.threads)
            workers[name].send("open", problem=fields, arrays=files[form])
        for worker in workers.values():
            worker.receive()
        yield workers
    finally:
        for worker in workers.values():
            worker.close()


class Measurement:
    """Measures blocks with a set of peers, until a moment (of time.monotonic)."""

    def __init__(
        self, installed: dict[str, Installed], rounds: int, end: float, say: Callable[[str], Any]
    ) -> None:
        self.installed = installed
        self.rounds = rounds
        self.end = end
        self.say = say

    def block(self, block: Block, seconds: float) -> Iterator[Row | tuple[str, str]]:
        """Its rows, or (name, reason) of those left out; `seconds` is its share of the time."""
        problem = block.problem
        if time.monotonic() > self.end:  # no need to start processes to see that
            for training in block.passes:
                yield f"{block.group}: {key(block.shape, problem, training)}", "the budget is spent"
            return
        names = [name for name in block.peers if name in self.installed]
        refusals = {
            training: {
                name: reason
                for name in names
                if (reason := self.installed[name].peer.refuses(problem, training))
            }
            for training in block.passes
        }
        taking_part = {
            name: self.installed[name]
            for name in names
            if any(name not in refused for refused in refusals.values())
        }
        arrays = problem.arrays()
        block_end = time.monotonic() + seconds
        with tempfile.TemporaryDirectory() as folder, open_workers(
            block, arrays, taking_part, Path(folder)
        ) as workers:
            for k, training in enumerate(block.passes):
                refused = refusals[training]
                active = {name: w for name, w in workers.items() if name not in refused}
                weights = [pass_seconds(block, each, names) for each in block.passes[k:]]
                share = (block_end - time.monotonic()) * weights[0] / sum(weights)
                try:
                    yield self.row(block, training, arrays, active, refused, share)
                except OverBudget as error:
                    yield f"{block.group}: {key(block.shape, problem, training)}", str(error)

    def row(
        self,
        block: Block,
        training: bool,
        arrays: dict[str, np.ndarray],
        workers: dict[str, Worker],
        refused: dict[str, str],
        seconds: float,
    ) -> Row:
        """One pass."""
        problem = block.problem
        started = time.monotonic()
        first, memory = self.compare(problem, training, arrays, workers)
        # What a first call has on top matters to short ones only.
        once = {
            name: first[name]
            if first[name] > LONG_CALL
            else worker.ask("time", training=training, calls=1, seconds=0)["seconds"][0]
            for name, worker in workers.items()
        }
        sample_seconds, most = CALLS_FOR_LATENCY if block.latency else CALLS
        calls = {
            name: max(1, min(most, int(sample_seconds / estimate)))
            for name, estimate in once.items()
        }
        costs = {name: once[name] * calls[name] + probes.SECONDS for name in workers}
        left = self.end - time.monotonic()
        share = min(left, seconds - (time.monotonic() - started))
        rounds = share_rounds(costs, self.rounds, left, share)
        with competitor(block.contended) as own:
            own += [worker.process.pid for worker in workers.values()]
            neighbours = probes.Neighbours(own)
            peaks, others, samples = self.time(training, workers, calls, rounds, block, neighbours)
        return Row(
            group=block.group,
            shape=block.shape,
            problem=problem,
            training=training,
            threads=block.threads,
            contended=block.contended,
            flops=problem.flops(training),
            bytes_read=problem.bytes_read(training),
            bandwidth_gbs=probes.read_bandwidth(problem.recurrent_bytes, block.threads),
            peak_gflops=peaks,
            others=others,
            seconds={name: [median(sample) for sample in taken] for name, taken in samples.items()},
            calls={
                name: [call for sample in taken for call in sample]
                for name, taken in samples.items()
                if block.latency
            },
            first_seconds=first,
            memory=memory,
            sizes=self.sizes(problem),
            refused=refused,
        )

    def compare(
        self,
        problem: Problem,
        training: bool,
        arrays: dict[str, np.ndarray],
        workers: dict[str, Worker],
    ) -> tuple[dict[str, float], dict[str, int]]:
        """Every peer's first call, compared; its seconds, and its memory."""
        expected = reference(problem, arrays, training)
        seconds, memory = {}, {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results.npz"
            for name, worker in workers.items():
                if time.monotonic() > self.end:
                    raise OverBudget("the budget ended while results were compared")
                self.say(f"comparing {worker.installed.peer.label}")
                answer = worker.ask("first", training=training, results=str(path))
                seconds[name], memory[name] = answer["seconds"], answer["memory"]
                actual = read_results(path, worker.installed, problem)
                compare(worker.installed.peer.label, problem, expected, actual)
        return seconds, memory

    def time(
        self,
        training: bool,
        workers: dict[str, Worker],
        calls: dict[str, int],
        rounds: dict[str, int],
        block: Block,
        neighbours: probes.Neighbours,
    ) -> tuple[list[float], list[float], dict[str, list[list[float]]]]:
        """The peak of every round, what others took of it, and the calls of every peer in it."""
        dtype, threads = block.problem.dtype, block.threads
        sample_seconds, _ = CALLS_FOR_LATENCY if block.latency else CALLS
        samples: dict[str, list[list[float]]] = {name: [] for name in workers}
        peaks, others = [], []
        last = max(rounds.values())
        for k in range(last):
            self.say(f"round {k + 1} of {last}")
            found = [probes.fma_peak(dtype, threads)]
            names = [name for name in workers if k < rounds[name]]
            for name in names[k % len(names) :] + names[: k % len(names)]:
                answer = workers[name].ask(
                    "time", training=training, calls=calls[name], seconds=2 * sample_seconds
                )
                samples[name].append(answer["seconds"])
                found.append(probes.fma_peak(dtype, threads))
            peaks.append(max(found))
            others.append(neighbours.share())
        return peaks, others, samples

    @staticmethod
    def sizes(problem: Problem) -> dict[str, int]:
        """What the library says beforehand, and the outputs beside it."""
        sizes = _core.sizes(
            problem.mode,
            problem.T,
            problem.N,
            problem.I,
            problem.H,
            num_layers=problem.L,
            bidirectional=problem.D == 2,
            dtype=problem.dtype,
            variable_length=problem.variable_length,
        )
        states = problem.L * (2 if problem.mode == "lstm" else 1)
        width = problem.D * problem.H * ELEMENT_BYTES[problem.dtype]
        return {**sizes, "outputs": (problem.T + states) * problem.N * width}


def share_rounds(costs: dict[str, float], most: int, left: float, share: float) -> dict[str, int]:
    """Rounds of each peer, by the seconds that its part of one takes.

    At least MIN_ROUNDS, and as many as fit into the share. A peer whose calls are long takes part
    in the first rounds only: in MIN_ROUNDS, or in as many as fit, at least one. Raises OverBudget
    if the fewest take more than the seconds that are left.
    """
    slow = {name for name, cost in costs.items() if cost > LONG_CALL and name != OURS}
    of_slow = sum(costs[name] for name in slow)
    of_others = sum(costs.values()) - of_slow
    fewest = MIN_ROUNDS * of_others + of_slow
    if fewest > left:
        raise OverBudget(
            f"the fewest rounds take {fewest:.0f} s, {max(0, left):.0f} s are left of the budget"
        )
    few = MIN_ROUNDS
    if slow:
        few = max(1, min(MIN_ROUNDS, int((share - MIN_ROUNDS * of_others) / of_slow)))
    many = max(MIN_ROUNDS, min(most, int((share - few * of_slow) / of_others)))
    return {name: few if name in slow else many for name in costs}


def pass_seconds(block: Block, training: bool, names: Iterable[str]) -> float:
    """A guess, to share the budget by: the fewest rounds, and the calls that are compared."""
    problem = block.problem
    active = sum(PEERS[name].refuses(problem, training) is None for name in names)
    sample_seconds, _ = CALLS_FOR_LATENCY if block.latency else CALLS
    once = problem.flops(training) / MEDIUM_RATE
    return active * (2 * once + MIN_ROUNDS * (max(sample_seconds, once) + probes.SECONDS))


def expected_seconds(block: Block, names: Iterable[str]) -> float:
    """The same for a block, with its processes."""
    taking_part = [name for name in names if name in block.peers]
    passes = sum(pass_seconds(block, training, taking_part) for training in block.passes)
    return len(taking_part) * STARTING + passes
