"""`bench compare A.json B.json`: what changed between two runs, and what got slower."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from statistics import median

from fused_rnn.bench import results, tables
from fused_rnn.bench.peers import OURS
from fused_rnn.bench.results import Row, Run

LEAST = 0.03  # a smaller change is none, however quiet the machine was


@dataclasses.dataclass
class Change:
    """One row in both runs. Times are relative to the bound, which swings with the machine."""

    before: Row
    after: Row

    @property
    def relative(self) -> float:
        """Time after over time before, less one."""
        return median(_relative(self.after)) / median(_relative(self.before)) - 1

    @property
    def noise(self) -> float:
        """Half the width of the middle half of the samples, of both runs; at least LEAST."""
        spreads = [_spread(_relative(row)) for row in (self.before, self.after)]
        return max(LEAST, sum(spreads))

    @property
    def verdict(self) -> str:
        """Beyond the noise or within it."""
        if self.relative > self.noise:
            return "slower"
        return "faster" if self.relative < -self.noise else "same"


def _relative(row: Row) -> list[float]:
    return [seconds / bound for seconds, bound in zip(row.seconds[OURS], row.bounds())]


def _spread(values: list[float]) -> float:
    """The quartiles' distance from each other, halved, as a share of the median."""
    ordered = sorted(values)
    low, high = ordered[len(ordered) // 4], ordered[-1 - len(ordered) // 4]
    return (high - low) / 2 / median(values)


def changes(before: Run, after: Run) -> list[Change]:
    """Of all rows that both runs have."""
    old = {row.identity: row for row in before.rows}
    return [Change(old[row.identity], row) for row in after.rows if row.identity in old]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bench compare`."""
    parser.add_argument("before", type=Path, metavar="A.json")
    parser.add_argument("after", type=Path, metavar="B.json")


def run(args: argparse.Namespace) -> None:
    """Prints both; ends with 1 if anything got slower."""
    runs = [results.load(path) for path in (args.before, args.after)]
    different = [
        [name, str(runs[0].environment.get(name)), str(value)]
        for name, value in runs[1].environment.items()
        if runs[0].environment.get(name) != value
    ]
    found = changes(*runs)
    lines = [
        [
            f"{change.after.group}: {change.after.key}",
            tables.spread(change.before.seconds[OURS]),
            tables.spread(change.after.seconds[OURS]),
            f"{change.relative:+.1%}",
            f"{change.noise:.1%}",
            change.verdict,
        ]
        for change in sorted(found, key=lambda change: -change.relative)
    ]
    note = "The change is that of the time over the bound of the same round."
    tables.show(
        [
            tables.Table("What is different", "", ["", "A", "B"], different),
            tables.Table("Ours, ms", note, ["", "A", "B", "change", "noise", ""], lines),
        ]
    )
    print(
        f"{len(found)} rows in both; A alone has {len(runs[0].rows) - len(found)}, "
        f"B alone {len(runs[1].rows) - len(found)}"
    )
    slower = [change for change in found if change.verdict == "slower"]
    for change in slower:
        print(f"slower by {change.relative:.1%}: {change.after.group}: {change.after.key}")
    if slower:
        sys.exit(1)
