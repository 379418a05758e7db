"""Samples of a run, what follows from them, and their files."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path
from statistics import median
from typing import Any

from fused_rnn._errors import UserError
from fused_rnn.bench.options import read_json
from fused_rnn.bench.peers import NATIVE, OURS
from fused_rnn.bench.problem import Problem

MODES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "vRNN tanh", "rnn_relu": "vRNN relu"}


def pass_name(training: bool) -> str:
    """What is timed."""
    return "forward+backward" if training else "forward"


def key(shape: str, problem: Problem, training: bool) -> str:
    """A row's name."""
    words = [shape, MODES[problem.mode], pass_name(training)]
    words += [problem.dtype] if problem.dtype != "float32" else []
    words += ["lengths 1..T"] if problem.variable_length else []
    return ", ".join(words)


@dataclasses.dataclass
class Row:
    """One pass over one problem. The k-th samples of all peers were taken in the same round; slow
    peers were in the first rounds only.
    """

    group: str
    shape: str
    problem: Problem
    training: bool
    threads: int
    contended: bool
    flops: int
    bytes_read: int
    bandwidth_gbs: float  # of reading a buffer as large as a layer's recurrent weights
    peak_gflops: list[float]  # by round
    others: list[float]  # by round: the share of the processors that other processes took
    seconds: dict[str, list[float]]  # by peer, by round
    calls: dict[str, list[float]]  # by peer: every single call, in rows for latency
    first_seconds: dict[str, float]  # by peer: the first call of its process
    memory: dict[str, int]  # by peer: most bytes beyond inputs and gradients, until this pass
    sizes: dict[str, int]  # ours, by the library's own queries
    refused: dict[str, str]  # by peer: why it has no samples

    @property
    def key(self) -> str:
        """Says what was measured; the same in every run of the same grid."""
        return key(self.shape, self.problem, self.training)

    @property
    def identity(self) -> tuple[str, int, bool, str]:
        """For finding the row in another run."""
        return (self.group, self.threads, self.contended, self.key)

    def bounds(self) -> list[float]:
        """Seconds that the processor needs at least, by round: for the operations at the peak of
        that round, or for reading the weights.
        """
        reading = self.bytes_read / self.bandwidth_gbs / 1e9
        return [max(self.flops / peak / 1e9, reading) for peak in self.peak_gflops]

    @property
    def bound_by(self) -> str:
        """Which of the two."""
        reading = self.bytes_read / self.bandwidth_gbs / 1e9
        return "reading" if reading > self.flops / median(self.peak_gflops) / 1e9 else "FLOPs"

    def fraction(self, peer: str = OURS) -> float:
        """The share of the bound that a peer reaches, the median over rounds."""
        return median(b / s for b, s in zip(self.bounds(), self.seconds[peer]))

    def ratios(self, peer: str) -> list[float]:
        """That peer's time over ours, by round."""
        return [theirs / ours for theirs, ours in zip(self.seconds[peer], self.seconds[OURS])]

    def percentile(self, peer: str, percent: float) -> float:
        """Of single calls: the smallest that this share of them does not exceed."""
        ordered = sorted(self.calls[peer])
        return ordered[max(0, -int(-len(ordered) * percent // 100) - 1)]

    def figures(self, peer: str) -> dict[str, Any]:
        """One line of the CSV file."""
        problem, seconds = self.problem, self.seconds[peer]
        calls = self.calls.get(peer)
        return {
            "group": self.group,
            "shape": self.shape,
            **{name: getattr(problem, name) for name in ("mode", *"TNIHLD", "dtype")},
            "lengths": "1..T" if problem.variable_length else "T",
            "pass": pass_name(self.training),
            "threads": self.threads,
            "contended": self.contended,
            "peer": peer,
            "rounds": len(seconds),
            "median_ms": 1e3 * median(seconds),
            "min_ms": 1e3 * min(seconds),
            "max_ms": 1e3 * max(seconds),
            "first_call_ms": 1e3 * self.first_seconds[peer],
            **{f"p{p}_ms": 1e3 * self.percentile(peer, p) if calls else "" for p in (50, 90, 99)},
            "gflops": self.flops / median(seconds) / 1e9,
            "others_share": max(self.others),
            "fma_peak_gflops": median(self.peak_gflops),
            "bandwidth_gbs": self.bandwidth_gbs,
            "bound_ms": 1e3 * median(self.bounds()),
            "bound_by": self.bound_by,
            "fraction_of_bound": self.fraction(peer),
            "time_over_ours": median(self.ratios(peer)),
            "peak_extra_bytes": self.memory[peer],
            **{f"query_{name}_bytes": size for name, size in self.sizes.items()},
        }


@dataclasses.dataclass
class Run:
    """Everything that one run found."""

    environment: dict[str, Any]
    peers: dict[str, str]  # name to version, or to why it is missing
    probes: dict[str, Any]
    rows: list[Row] = dataclasses.field(default_factory=list)
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)  # row to reason

    @property
    def timed(self) -> list[str]:
        """Peers with samples in any row, ours and native first."""
        found = dict.fromkeys(peer for row in self.rows for peer in row.seconds)
        return sorted(found, key=lambda peer: (peer != OURS, peer != NATIVE))


def save(run: Run, path: Path) -> None:
    """Every sample, as JSON."""
    path.write_text(json.dumps(dataclasses.asdict(run), indent=1) + "\n", encoding="utf-8")


def parse(content: Any, path: Path) -> Run:
    """What `save` wrote to that file."""
    try:
        rows = [Row(**{**row, "problem": Problem(**row["problem"])}) for row in content["rows"]]
        return Run(**{**content, "rows": rows})
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: expected what `bench grid` writes: {error}") from error


def load(path: Path) -> Run:
    """What `save` wrote."""
    return parse(read_json(path), path)


def save_csv(run: Run, path: Path) -> None:
    """One line for each row and peer."""
    lines = [row.figures(peer) for row in run.rows for peer in row.seconds]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(lines[0]) if lines else [])
        writer.writeheader()
        writer.writerows(lines)
