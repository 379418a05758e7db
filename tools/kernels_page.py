"""Runs bench_kernels with every instruction set of this processor, and writes its figures as a page
of the documentation. A second program, built with another library for the large products, adds a
column to their table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path
from statistics import median
from typing import Any, Callable, Iterator, NamedTuple

from kernel_counters import TOOLS, counters_of_call

from fused_rnn import _core, environment
from fused_rnn.bench.tables import Table

INTRODUCTION = """# Kernels, one by one

This page is the output of `make bench-kernels` (`src/bench/kernels.cc`), on the machine at its end.

Every kernel runs on one core, round by round next to a probe of what that core can do at most:
multiply-adds in registers (the **FMA peak**), or loads of the same bytes and nothing else
(**reading**), by the same instruction set. Times are the thread's own processor time. All figures
are medians; percentages are shares of the probe in the same round, with minimum-maximum over the
rounds in brackets.
"""
TYPES = ("float32", "float64", "float16", "bfloat16")
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
HIDDEN = 800  # units of the step whose product the gates are compared with
FEW_ROWS = 4  # up to which a product is a matter of reading
COUNTED = ("tile/float32/1", "tile/float32/6", "tile/float32/20", "row/float32/64000")


class Entry(NamedTuple):
    """An entry of the program's output: what one call of the kernel or a probe does, and takes."""

    work: dict[str, float]
    seconds: dict[str, list[float]]

    def rate(self, name: str) -> float:
        return self.work[name] / median(self.seconds[name])

    def peak_share(self, name: str = "kernel") -> str:
        return self._share(name, self.work[name] / self.work["fma"], "fma")

    def reading(self) -> str:
        """Of a kernel that reads in a call what the probe reads."""
        gigabytes = self.work["read"] / median(self.seconds["kernel"]) / 1e9
        return f"{gigabytes:.0f} GB/s, {self._share('kernel', 1, 'read')}"

    def _share(self, name: str, calls: float, probe: str) -> str:
        pairs = zip(self.seconds[probe], self.seconds[name])
        shares = [100 * calls * at_least / taken for at_least, taken in pairs]
        return f"{median(shares):.0f}% ({min(shares):.0f}-{max(shares):.0f})"


class Report:
    """The output of a program with one instruction set."""

    def __init__(self, program: Path, isa: str, options: list[str]) -> None:
        self.program = program
        env = {**os.environ, "FUSED_RNN_MAX_ISA": isa}
        output = subprocess.run(
            [str(program), *options], env=env, stdout=subprocess.PIPE, check=True
        )
        self.about: dict[str, Any] = json.loads(output.stdout)
        self.isa: str = self.about["isa"]
        self.entries = {}
        for timed in self.about["entries"]:
            name = timed.pop("name")
            work, seconds = ({n: t[key] for n, t in timed.items()} for key in ("work", "seconds"))
            self.entries[name] = Entry(work, seconds)

    def lines(self, kind: str, text: Callable[[Entry], str]) -> Iterator[list[str]]:
        """Detail and, by type, text(entry)."""
        names = [name.split("/") for name in self.entries]
        for detail in dict.fromkeys(detail for k, _, detail in names if k == kind):
            found = [self.entries.get(f"{kind}/{dtype}/{detail}") for dtype in TYPES]
            yield [detail, *(text(entry) if entry else "-" for entry in found)]


def tiles(report: Report) -> Table:
    peaks = [report.entries[f"tile/{dtype}/1"].rate("fma") / 1e9 for dtype in TYPES]
    note = (
        "Rows times four packed panels, K=800. 5 MB of panels, read to and fro as the steps of a "
        f"recurrence do. FMA peak: {peaks[0]:.0f} GFLOP/s in float32, in which 16-bit weights are "
        f"computed too, and {peaks[1]:.0f} in float64."
    )
    title = f"Tiles, {report.isa}: share of the FMA peak"
    return Table(title, note, ["rows", *TYPES], list(report.lines("tile", Entry.peak_share)))


def reading(reports: list[Report], title: str, note: str, kinds: list[str], detail: str) -> Table:
    lines = [
        [report.isa, kind, *line]
        for report in reports
        for kind in kinds
        for line in report.lines(kind, Entry.reading)
        if kind != "tile" or int(line[0]) <= FEW_ROWS
    ]
    return Table(title, note, ["", "kernel", detail, *TYPES], lines)


def gates(reports: list[Report]) -> Table:
    def text(entry: Entry, mode: str, name: str) -> str:
        operations = entry.rate("fma") / entry.rate(name)
        return f"{1e9 / entry.rate(name):.2f}: {operations / (2 * GATES[mode] * HIDDEN):.1%}"

    lines = [
        [report.isa, mode, name]
        + [text(report.entries[f"gates/{dtype}/{mode}"], mode, name) for dtype in TYPES[:2]]
        for report in reports
        for mode in GATES
        for name in ("forward", "backward")
    ]
    note = (
        "ns for a unit of one sequence, with all data in the first-level cache, and that as a "
        "share of the time which the unit's product of a step takes at the FMA peak, at "
        f"H={HIDDEN}."
    )
    return Table("Gates", note, ["", "mode", "pass", *TYPES[:2]], lines)


def activations(reports: list[Report]) -> Table:
    def text(entry: Entry) -> str:
        rate = entry.rate("kernel")
        return f"{1e9 / rate:.2f}: {entry.rate('fma') / rate / 2:.0f}"

    lines = [
        [report.isa, kind, *line[1:3]]
        for report in reports
        for kind in ("sigmoid", "tanh")
        for line in report.lines(kind, text)
    ]
    note = (
        "ns for a number of an array in the first-level cache, and how many multiply-adds the FMA "
        "peak does in that time."
    )
    return Table("Activations", note, ["", "", *TYPES[:2]], lines)


def products(reports: list[Report]) -> Table:
    def text(entry: Entry, name: str) -> str:
        if name not in entry.work:
            return "-"
        return f"{entry.rate(name) / 1e9:.0f} GFLOP/s, {entry.peak_share(name)}"

    names = [name for name in reports[0].entries if name.startswith("product/")]
    lines = [
        [*name.split("/")[1:], text(reports[0].entries[name], "own")]
        + [text(report.entries[name], "library") for report in reports]
        for name in names
    ]
    note = (
        f"T*N=6000, H=I=800, LSTM, {reports[0].isa}. `forward` is x W^T, [6000, 800] times "
        "[800, 3200]; `dW` is [3200, 6000] times [6000, 800]; `dx` is [6000, 3200] times "
        "[3200, 800]. Our own tile, packing included, is what the forward uses; it has no form for "
        "`dW`. Libraries are called as the backward calls them (`gemm.h`), on one thread. oneDNN "
        "has no float64 product on a CPU: there its column is our own `panel_gemm.cc`. Each "
        "library is in a program of its own, with its own probes."
    )
    backends = [report.about["backend"] for report in reports]
    return Table("Large products", note, ["", "", "own tile", *backends], lines)


def counters(reports: list[Report], options: list[str]) -> Table:
    title = "Instructions and cache misses"
    for tool in TOOLS:
        columns, lines = [], []
        for report, name in ((report, name) for report in reports for name in COUNTED):
            counts = counters_of_call(tool, report.program, options, name, report.isa)
            if not counts:
                continue
            weights = report.entries[name].work["read"]  # bytes
            rows = int(name.split("/")[-1]) if name.startswith("tile") else 1
            additions = weights / 4 / report.about["lanes"] * rows
            cells = {"instructions per vector multiply-add": counts["instructions"] / additions}
            if "cycles" in counts:
                cells["instructions per cycle"] = counts["instructions"] / counts["cycles"]
            for misses in (key for key in counts if key.endswith("misses")):
                cells[f"{misses} per 64 bytes of weights"] = 64 * counts[misses] / weights
            columns = list(cells)
            lines.append([report.isa, name, *(f"{value:.2f}" for value in cells.values())])
        if lines:
            note = f"By {tool}. Named by kernel, type, and rows of the tile or bytes of weights."
            if tool == "valgrind":
                note += " It simulates caches that fetch nothing ahead, and knows no AVX-512."
            return Table(title, note, ["", "", *columns], lines)
    note = "Not measured: there are neither hardware counters nor valgrind on this machine."
    return Table(title, note, ["", ""], [])


def tables(programs: list[Path], options: list[str]) -> Iterator[Table]:
    reports = [Report(programs[0], isa, options) for isa in reversed(_core.isas())]
    libraries = reports[:1]
    for other in programs[1:]:
        libraries.append(Report(other, reports[0].isa, ["--only", "product", *options]))
    yield from map(tiles, reports)
    note = "The same runs, as panels read: near 100%, it is reading that takes the time."
    yield reading(reports, "Tiles of few rows: reading", note, ["tile"], "rows")
    note = "Each weight is read once, where it is."
    yield reading(reports, "One row, weights not packed", note, ["row"], "bytes")
    note = (
        "The recurrent weights [4K, K] of an LSTM, as the forward (`pack_transposed`) and the "
        "backward pack them: GB/s that are read. As many are written, which the probe does not do."
    )
    yield reading(reports, "Packing", note, ["pack_transposed", "pack"], "K")
    note = (
        "Arrays of so many bytes in the 16-bit type, to float32 (`widen`) and back: GB/s that are "
        "read."
    )
    yield reading(reports, "Conversions", note, ["widen", "narrow"], "bytes")
    yield gates(reports)
    yield activations(reports)
    yield products(libraries)
    yield counters(reports, options)
    machine = {**environment.describe(), "compiler": reports[0].about["compiler"]}
    lines = [[name, str(machine[name])] for name in ("fused_rnn", "commit", "cpu", "compiler")]
    lines.append(["large products", ", ".join(report.about["backend"] for report in libraries)])
    yield Table("Machine and versions", "", ["", ""], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path, nargs="+", help="bench_kernels, by library")
    parser.add_argument("--page", type=Path, required=True, help="Markdown file to write")
    parser.add_argument("--quick", action="store_true", help="a trial: its figures mean nothing")
    args = parser.parse_args()
    parts = [table.markdown() for table in tables(args.programs, ["--quick"] * args.quick)]
    args.page.write_text("\n".join([INTRODUCTION, *parts]))


if __name__ == "__main__":
    main()
