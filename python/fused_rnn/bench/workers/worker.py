"""The loop of a process that runs one peer; the other files here are its programs.

Any interpreter may run them, so they use nothing but NumPy and the peer. Commands come from stdin
and answers go to stdout, one JSON object a line; arrays travel in files. A program calls `serve`
with a class of this form:

    Model(problem, arrays)   problem: the fields of fused_rnn.bench.problem.Problem, and threads
    .run(training)           one forward, or forward and backward, complete when it returns
    .results(training)       arrays by name: y, hN, cN; in training also dx, and d:W for each w:W
    .outputs                 what a run allocates and the next one replaces, if it does
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np

PR_SET_PDEATHSIG = 1  # of Linux's prctl


def weights(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays that are weights, by their names in the peer."""
    return {name[2:]: array for name, array in arrays.items() if name.startswith("w:")}


def status(name: str) -> int:
    """A size in /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
    raise KeyError(name)


class Memory:
    """What this process has beyond what it had when `begin` was called."""

    def begin(self) -> None:
        self.forget()
        self.resident, self.files = status("VmRSS"), status("RssFile")

    def forget(self) -> None:
        """Lets the peak start anew, and without what is free but still with the C library."""
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")

    def extra(self) -> int:
        """The most since then, or since the last `forget`."""
        # Code that is read from files during a call is no memory of the call.
        return max(0, status("VmHWM") - self.resident - (status("RssFile") - self.files))


class Commands:
    """What the parent can ask for."""

    def __init__(self, make_model: Callable[..., Any]) -> None:
        self.make_model = make_model
        self.memory = Memory()

    def open(self, problem: dict[str, Any], arrays: str) -> dict[str, Any]:
        with np.load(arrays) as file:
            self.model = self.make_model(problem, dict(file))
        self.memory.begin()
        return {}

    def first(self, training: bool, results: str) -> dict[str, Any]:
        # Neither the outputs of another pass nor NumPy's copies of them are memory of this one;
        # what the peer itself kept since `open` is.
        self.model.outputs = None
        self.memory.forget()
        start = time.perf_counter()
        self.model.run(training)
        seconds = time.perf_counter() - start
        extra = self.memory.extra()
        np.savez(results, **self.model.results(training))
        return {"seconds": seconds, "memory": extra}

    def time(self, training: bool, calls: int, seconds: float) -> dict[str, Any]:
        """So many calls, but none begun after so many seconds."""
        samples: list[float] = []
        while len(samples) < calls and sum(samples) <= seconds:
            start = time.perf_counter()
            self.model.run(training)
            samples.append(time.perf_counter() - start)
        return {"seconds": samples}


def serve(make_model: Callable[..., Any]) -> None:
    """Answers commands until stdin ends, or the parent, even in the middle of a call."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # if it has ended, stdin has too
    # What libraries print goes to stderr.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    commands = Commands(make_model)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(commands, command.pop("do"))(**command)
        except Exception as error:  # whatever a peer raises, the parent decides what it means
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
