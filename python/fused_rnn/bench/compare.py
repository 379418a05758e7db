"""`bench compare A.json B.json`: what changed between two runs, and what got slower."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from statistics import median
from typing import Any, Hashable

from fused_rnn.bench import options, pages, report, results, tables
from fused_rnn.bench.peers import OURS
from fused_rnn.bench.results import Run

LEAST = 0.03  # a smaller change is none, however quiet the machine was
COMPUTING = 0.5  # share of the bound from which on a time follows the rate of multiply-adds


@dataclasses.dataclass
class Change:
    """One row in both runs.

    Where the multiply-adds make most of the time, in either run, times are relative to what these
    take at the rate of the same round, which swings with the machine. Elsewhere they are as they
    are: reading, and what a call costs, do not follow that rate.
    """

    before: Any  # results.Row or report.Row, and so is the other
    after: Any

    @property
    def name(self) -> str:
        """Says what was measured."""
        return f"{self.after.group}: {self.after.key}"

    @property
    def scaled(self) -> bool:
        """Whether times are relative to those of the multiply-adds."""
        rows = (self.before, self.after)
        computing = all(row.bound_by == "FLOPs" for row in rows)
        return computing and max(row.fraction() for row in rows) >= COMPUTING

    def _times(self, row: Any) -> list[float]:
        seconds = row.seconds[OURS]
        return [s / b for s, b in zip(seconds, row.bounds())] if self.scaled else seconds

    @property
    def relative(self) -> float:
        """Time after over time before, less one."""
        return median(self._times(self.after)) / median(self._times(self.before)) - 1

    @property
    def noise(self) -> float:
        """Half the width of the middle half of the samples, of both runs; at least LEAST."""
        spreads = [_spread(self._times(row)) for row in (self.before, self.after)]
        return max(LEAST, sum(spreads))

    @property
    def verdict(self) -> str:
        """Beyond the noise or within it."""
        if self.relative > self.noise:
            return "slower"
        return "faster" if self.relative < -self.noise else "same"


def _spread(values: list[float]) -> float:
    """The quartiles' distance from each other, halved, as a share of the median."""
    ordered = sorted(values)
    low, high = ordered[len(ordered) // 4], ordered[-1 - len(ordered) // 4]
    return (high - low) / 2 / median(values)


def changes(before: Run | report.Run, after: Run | report.Run) -> list[Change]:
    """Of all rows that both runs have."""
    old: dict[Hashable, Any] = {row.identity: row for row in before.rows}
    return [Change(old[row.identity], row) for row in after.rows if row.identity in old]


def load(path: Path) -> Run | report.Run:
    """What `bench grid` or `bench ds2` wrote."""
    content = options.read_json(path)
    of_ds2 = isinstance(content, dict) and "shape" in content
    return (report if of_ds2 else results).parse(content, path)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bench compare`."""
    parser.add_argument(
        "before", type=Path, metavar="A.json", help="of `bench grid` or `bench ds2`"
    )
    parser.add_argument("after", type=Path, metavar="B.json")


def run(args: argparse.Namespace) -> None:
    """Prints both; ends with 1 if anything got slower."""
    runs = [load(path) for path in (args.before, args.after)]
    different = [
        [name, str(runs[0].environment.get(name)), str(value)]
        for name, value in runs[1].environment.items()
        if runs[0].environment.get(name) != value
    ]
    found = changes(*runs)
    lines = [
        [
            change.name,
            tables.spread(change.before.seconds[OURS]),
            tables.spread(change.after.seconds[OURS]),
            f"{change.relative:+.1%}",
            "time / bound" if change.scaled else "time",
            f"{change.noise:.1%}",
            change.verdict,
        ]
        for change in sorted(found, key=lambda change: -change.relative)
    ]
    note = (
        "The change is that of the time; where the multiply-adds bound it, of the time over the "
        "bound of the same round."
    )
    columns = ["", "A", "B", "change", "of", "noise", "verdict"]
    pages.show(
        [
            tables.Table("What is different", "", ["", "A", "B"], different),
            tables.Table("Ours, ms", note, columns, lines),
        ]
    )
    print(
        f"{len(found)} rows in both; A alone has {len(runs[0].rows) - len(found)}, "
        f"B alone {len(runs[1].rows) - len(found)}"
    )
    slower = [change for change in found if change.verdict == "slower"]
    for change in slower:
        print(f"slower by {change.relative:.1%}: {change.name}")
    if slower:
        sys.exit(1)
