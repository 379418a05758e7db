"""Hammers the library for some minutes: every front end from several threads, with numbers of
threads that change, forks in between and random shapes.

    python tools/soak.py --minutes 10

Each result must have the bits that one thread computed at the start. Memory and the number of
threads must stay level. Prints what ran; the exit code is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import os
import random
import resource
import signal
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, Callable, Iterator

os.environ.setdefault("MXNET_SUBGRAPH_VERBOSE", "0")  # or MXNet writes a line at each bind
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # MXNet's use of NumPy
    import mxnet as mx

import numpy as np
from tqdm import tqdm

import fused_rnn
from fused_rnn import _core, functional
from fused_rnn.weights import Layout

MODES = ("lstm", "gru", "rnn_tanh", "rnn_relu")
MOST_THREADS = 5
SECONDS_OF_A_CHILD = 120
# Growth that is not a leak: heaps of threads, code that the matrix library makes for new shapes.
ALLOWED_BYTES = 64 << 20


@dataclasses.dataclass
class Problem:
    """One random layer stack, its inputs, and its results on one thread."""

    mode: str
    arguments: dict[str, Any]  # of functional
    attributes: dict[str, Any]  # of the operator
    x: np.ndarray
    params: np.ndarray
    h0: np.ndarray
    c0: np.ndarray | None
    expected: dict[str, list[bytes]] = dataclasses.field(default_factory=dict)

    @property
    def states(self) -> list[np.ndarray]:
        return [state for state in (self.h0, self.c0) if state is not None]


def make_problem(rng: np.random.Generator) -> Problem:
    mode = MODES[rng.integers(4)]
    T, N, I, H = (int(rng.integers(1, most)) for most in (30, 40, 50, 130))
    L, bidirectional = int(rng.integers(1, 3)), bool(rng.integers(2))
    layout = Layout(mode, I, H, L, bidirectional)
    dtype = ("float32", "float32", "float64")[rng.integers(3)]
    D = layout.directions
    states = (L * D, N, H)
    return Problem(
        mode,
        {"num_layers": L, "bidirectional": bidirectional, "hidden_size": H},
        {
            "mode": mode,
            "state_size": H,
            "num_layers": L,
            "bidirectional": bidirectional,
            "state_outputs": True,
        },
        rng.standard_normal((T, N, I)).astype(dtype),
        rng.uniform(-0.1, 0.1, layout.size).astype(dtype),
        rng.uniform(-1, 1, states).astype(dtype),
        rng.standard_normal(states).astype(dtype) if mode == "lstm" else None,
    )


# ---- The front ends: each gives arrays that depend on the problem alone


def run_functional(problem: Problem) -> list[np.ndarray]:
    kind, _, activation = problem.mode.partition("_")
    extra = {"activation": activation} if activation else {}
    out = getattr(functional, kind)(
        problem.x, problem.params, *problem.states, training=True, **problem.arguments, **extra
    )
    return [*out, *(g for g in out.backward(*out) if g is not None)]


def run_core(problem: Problem) -> list[np.ndarray]:
    """A prediction with packed weights."""
    shape = {key: problem.arguments[key] for key in ("num_layers", "bidirectional")}
    packed = _core.PackedWeights(
        problem.mode, problem.params, problem.x.shape[2], problem.h0.shape[2], **shape
    )
    inputs = (problem.x, problem.params, problem.h0, problem.c0)
    found = _core.forward(problem.mode, *inputs, packed=packed, **shape)
    return [array for array in found if array is not None]


def run_stream(problem: Problem) -> list[np.ndarray]:
    layout = Layout(problem.mode, problem.x.shape[2], problem.h0.shape[2], 1, False)
    stream = fused_rnn.Stream(
        problem.mode,
        problem.params[: layout.size],
        hidden_size=layout.hidden_size,
        batch_size=problem.x.shape[1],
    )
    return [stream(problem.x[t]) for t in range(min(3, len(problem.x)))]


def inputs_of(problem: Problem) -> list[mx.nd.NDArray]:
    arrays = (problem.x, problem.params, *problem.states)
    return [mx.nd.array(array, dtype=array.dtype) for array in arrays]


def run_imperative(problem: Problem) -> list[np.ndarray]:
    arrays = inputs_of(problem)
    for array in arrays:
        array.attach_grad()
    with mx.autograd.record():
        outputs = mx.nd.FusedRNN(*arrays, **problem.attributes)
    mx.autograd.backward(outputs)
    return [array.asnumpy() for array in (*outputs, *(a.grad for a in arrays))]


def run_symbol(problem: Problem) -> list[np.ndarray]:
    output = mx.sym.FusedRNN(mx.sym.var("data"), name="rnn", **problem.attributes)
    arrays = inputs_of(problem)
    gradients = [mx.nd.zeros_like(array) for array in arrays]
    executor = output.bind(mx.cpu(), arrays, args_grad=gradients)
    outputs = executor.forward(is_train=True)
    executor.backward([mx.nd.ones_like(out) for out in outputs])
    return [array.asnumpy() for array in (*outputs, *gradients)]


class _Layer(mx.gluon.HybridBlock):
    def __init__(self, attributes: dict[str, Any]) -> None:
        super().__init__()
        self._attributes = attributes

    def hybrid_forward(self, F: Any, *inputs: Any) -> Any:
        return F.FusedRNN(*inputs, **self._attributes)


def run_hybridized(problem: Problem) -> list[np.ndarray]:
    layer = _Layer(problem.attributes)
    layer.hybridize(static_alloc=True)
    return [out.asnumpy() for _ in range(2) for out in layer(*inputs_of(problem))]


NUMPY_ROUTES = (run_functional, run_core, run_stream)
ROUTES = (*NUMPY_ROUTES, run_imperative, run_symbol, run_hybridized)


# ---- What is done with them


class Soak:
    def __init__(self, problems: list[Problem], workers: int) -> None:
        self.problems = problems
        self.counts: collections.Counter[str] = collections.Counter()
        self.faults: list[str] = []
        self._over = threading.Event()
        self._pause = threading.Event()
        self._routes = ROUTES
        self._workers = workers
        self._waiting = threading.Barrier(workers + 1)

    def check(self, route: Callable[[Problem], list[np.ndarray]], problem: Problem) -> None:
        found = [array.tobytes() for array in route(problem)]
        if found != problem.expected[route.__name__]:
            shape = (problem.x.shape, problem.x.dtype.name, problem.attributes)
            raise AssertionError(f"{route.__name__}: other bits than one thread gave, {shape}")

    def work(self, seed: int) -> None:
        choice = random.Random(seed)
        try:
            while not self._over.is_set():
                route = choice.choice(self._routes)
                self.check(route, choice.choice(self.problems))
                self.counts[route.__name__] += 1
                if self._pause.is_set():
                    self._waiting.wait()  # all stand still
                    self._waiting.wait()  # and go on
        except threading.BrokenBarrierError:
            pass  # the end, or the fault of another thread
        except BaseException:
            self.faults.append(traceback.format_exc())
            self._over.set()
            self._waiting.abort()

    @contextlib.contextmanager
    def standstill(self) -> Iterator[None]:
        self._pause.set()
        self._waiting.wait()
        self._pause.clear()
        yield
        self._waiting.wait()

    def fork(self, routes: tuple[Callable, ...], seed: int) -> None:
        """A child computes in its turn."""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            signal.alarm(SECONDS_OF_A_CHILD)  # ends one that hangs
            code = 1
            try:
                choice = random.Random(seed)
                for _ in range(4):
                    self.check(choice.choice(routes), choice.choice(self.problems))
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        self.counts["forks"] += 1
        if status != 0:
            self.faults.append(f"a child ended with status {status}")

    def fork_twice(self, choice: random.Random) -> None:
        """While threads compute on NumPy arrays, and while they stand still: a process that forks
        while other threads are in MXNet may hang, with native operators too.
        """
        with self.standstill():
            mx.nd.waitall()
            self._routes = NUMPY_ROUTES
        time.sleep(choice.random() / 10)
        self.fork(NUMPY_ROUTES, choice.randrange(1 << 30))
        with self.standstill():
            self.fork(ROUTES, choice.randrange(1 << 30))
            self._routes = ROUTES

    def run(self, seconds: float) -> None:
        threads = [threading.Thread(target=self.work, args=(s,)) for s in range(self._workers)]
        for thread in threads:
            thread.start()
        choice = random.Random(0)
        begin = last = time.monotonic()
        levels: list[tuple[int, int]] = []
        with tqdm(total=round(seconds), unit="s") as bar:
            while time.monotonic() - begin < seconds and not self.faults:
                _core.set_num_threads(choice.randint(0, MOST_THREADS))
                time.sleep(choice.random() / 50)
                if time.monotonic() - last < 1:
                    continue
                bar.update(round(time.monotonic() - begin) - bar.n)
                last = time.monotonic()
                levels.append((resident(), len(os.listdir("/proc/self/task"))))
                try:
                    self.fork_twice(choice)
                except threading.BrokenBarrierError:
                    break
        self._over.set()
        self._waiting.abort()
        for thread in threads:
            thread.join()
        self.check_levels(levels)

    def check_levels(self, levels: list[tuple[int, int]]) -> None:
        """Compares the second half with the first."""
        half = len(levels) // 2
        if half < 20:
            return  # too short to say
        before, after = levels[:half], levels[half:]
        memory = [max(level[0] for level in part) for part in (before, after)]
        threads = [max(level[1] for level in part) for part in (before, after)]
        print(f"memory {memory[0] >> 20}, then {memory[1] >> 20} MiB; threads {threads}")
        if memory[1] > memory[0] + ALLOWED_BYTES:
            self.faults.append(f"memory grew from {memory[0]} to {memory[1]} bytes")
        if threads[1] > threads[0] + MOST_THREADS:
            self.faults.append(f"threads grew from {threads[0]} to {threads[1]}")


def resident() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--problems", type=int, default=150, help="different shapes")
    parser.add_argument("--threads", type=int, default=6, help="threads that call")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    problems = [make_problem(rng) for _ in range(options.problems)]
    _core.set_num_threads(1)
    for problem in tqdm(problems, desc="on one thread"):
        for route in ROUTES:
            problem.expected[route.__name__] = [array.tobytes() for array in route(problem)]
    soak = Soak(problems, options.threads)
    soak.run(60 * options.minutes)
    _core.set_num_threads(0)
    for name, count in sorted(soak.counts.items()):
        print(f"{name:16} {count}")
    for fault in soak.faults:
        print(fault, file=sys.stderr)
    print("failed" if soak.faults else "all results as on one thread")
    return 1 if soak.faults else 0


if __name__ == "__main__":
    sys.exit(main())
