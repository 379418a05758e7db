"""What `bench ds2` found: a table, a JSON file with every sample, and a bar plot."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Hashable

from fused_rnn._errors import UserError
from fused_rnn.bench import pages
from fused_rnn.bench.options import free_stem
from fused_rnn.bench.peers import NATIVE, OURS
from fused_rnn.bench.problem import Problem
from fused_rnn.bench.results import MODES, key, pass_name
from fused_rnn.bench.tables import Table, ratio, spread


@dataclass
class Row:
    """The samples of one problem and pass; the k-th ones were taken in the same round."""

    problem: Problem
    training: bool
    imperative: bool
    threads: int
    native_seconds: list[float]
    ours_seconds: list[float]
    peak_gflops: list[float]

    group = "ds2"
    bound_by = "FLOPs"

    @property
    def name(self) -> str:
        """The row's name in table and plot."""
        return f"{MODES[self.problem.mode]} {pass_name(self.training)}"

    @property
    def key(self) -> str:
        """Says what was measured."""
        shape = " ".join(f"{name}{getattr(self.problem, name)}" for name in "TNIHLD")
        form = ", imperative" if self.imperative else ""
        return key(shape, self.problem, self.training) + form

    @property
    def identity(self) -> Hashable:
        """For finding the row in another run."""
        return (self.problem, self.training, self.imperative, self.threads)

    @property
    def seconds(self) -> dict[str, list[float]]:
        """By peer."""
        return {NATIVE: self.native_seconds, OURS: self.ours_seconds}

    @property
    def flops(self) -> int:
        """Operations of the matrix products."""
        return self.problem.flops(self.training)

    def bounds(self) -> list[float]:
        """Seconds that the operations take at the peak, by round."""
        return [self.flops / peak / 1e9 for peak in self.peak_gflops]

    def fraction(self, peer: str = OURS) -> float:
        """The share of the peak that a peer reaches, the median over rounds."""
        return median(b / s for b, s in zip(self.bounds(), self.seconds[peer]))

    def speedups(self) -> list[float]:
        """Native over ours, round by round."""
        return [native / ours for native, ours in zip(self.native_seconds, self.ours_seconds)]

    def summary(self) -> dict[str, float]:
        """The figures of the table."""
        return {
            "native_ms": 1e3 * median(self.native_seconds),
            "ours_ms": 1e3 * median(self.ours_seconds),
            "ours_samples_per_second": self.problem.N / median(self.ours_seconds),
            "native_gflops": self.flops / median(self.native_seconds) / 1e9,
            "ours_gflops": self.flops / median(self.ours_seconds) / 1e9,
            "native_peak_fraction": self.fraction(NATIVE),
            "ours_peak_fraction": self.fraction(OURS),
            "peak_gflops": median(self.peak_gflops),
            "speedup": median(self.speedups()),
        }

    def content(self) -> dict[str, Any]:
        """For the file."""
        return {
            "mode": self.problem.mode,
            "training": self.training,
            "batch": self.problem.N,
            "flops": self.flops,
            "native_seconds": self.native_seconds,
            "ours_seconds": self.ours_seconds,
            "peak_gflops": self.peak_gflops,
            "summary": self.summary(),
        }


@dataclass
class Run:
    """Everything that one run found."""

    shape: dict[str, int]  # by the letters TNIHLD
    settings: dict[str, Any]  # dtype, imperative
    environment: dict[str, Any]
    rows: list[Row]

    @property
    def title(self) -> str:
        """Says what ran where."""
        machine = self.environment
        sizes = " ".join(f"{name}={value}" for name, value in self.shape.items())
        form = ", called on arrays" if self.settings["imperative"] else ", bound symbols"
        where = f"{machine['cpu']}, {machine['isa']}, {machine['threads']} threads"
        return f"{self.settings['dtype']}, {sizes}{form}; {where}"

    @property
    def stem(self) -> str:
        """Of its files."""
        words = ["ds2", *(f"{name}{value}" for name, value in self.shape.items())]
        words += [self.settings["dtype"]] * (self.settings["dtype"] != "float32")
        words += ["imperative"] * self.settings["imperative"]
        return "_".join(words)


def parse(content: Any, path: Path) -> Run:
    """What `write` wrote to that file. The first versions wrote no settings."""
    try:
        settings = content.get("settings", {"dtype": "float32", "imperative": False})
        rows = [
            Row(
                Problem(entry["mode"], **content["shape"], dtype=settings["dtype"]),
                entry["training"],
                settings["imperative"],
                content["environment"]["threads"],
                **{name: entry[name] for name in ("native_seconds", "ours_seconds", "peak_gflops")},
            )
            for entry in content["rows"]
        ]
        return Run(content["shape"], settings, content["environment"], rows)
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: expected what `bench ds2` writes: {error}") from error


def table(run: Run) -> Table:
    """Both operators' times, and the rates of ours."""
    columns = ["", "native ms", "ours ms", "samples/s", "GFLOP/s", "of FMA peak", "speed-up"]
    lines = []
    for row in run.rows:
        figures = row.summary()
        lines.append(
            [
                row.name,
                spread(row.native_seconds),
                spread(row.ours_seconds),
                f"{figures['ours_samples_per_second']:.1f}",
                f"{figures['ours_gflops']:.0f}",
                f"{figures['ours_peak_fraction']:.0%}",
                ratio(row.speedups()),
                str(len(row.ours_seconds)),
            ]
        )
    note = "Median (min-max). Speed-up above 1: ours is faster."
    return Table(run.title, note, [*columns, "rounds"], lines)


def draw(run: Run) -> Any:
    """A figure: bars of both operators as shares of the peak, the speed-up above both."""
    from matplotlib.figure import Figure  # the object interface needs no display

    rows = run.rows
    figure = Figure(figsize=(max(7, 1.6 * len(rows) + 2), 4.5), layout="constrained")
    axes = figure.subplots()
    for offset, label, peer in ((-0.2, "RNN (MXNet)", NATIVE), (0.2, "FusedRNN (ours)", OURS)):
        shares = [100 * row.fraction(peer) for row in rows]
        axes.bar([k + offset for k in range(len(rows))], shares, width=0.4, label=label)
    heights = [100 * max(map(row.fraction, row.seconds)) for row in rows]
    for k, (row, height) in enumerate(zip(rows, heights)):
        text = f"{median(row.speedups()):.2f}x"
        axes.annotate(text, (k, height), (0, 3), textcoords="offset points", ha="center")
    axes.set_xticks(range(len(rows)), [row.name.replace(" forward", "\nforward") for row in rows])
    axes.set_ylabel("% of the FMA peak")
    axes.set_ylim(0, max(110, 1.1 * max(heights)))
    axes.set_title(run.title.replace("; ", "\n"), fontsize="medium")
    title = "above the bars: RNN's time over FusedRNN's"
    figure.legend(loc="outside lower center", ncols=2, title=title)
    return figure


def write(run: Run, output: Path) -> None:
    """Prints the table; writes JSON and plot and says where."""
    pages.show([table(run)])
    stem = free_stem(output / run.stem, run.environment)
    content = {
        "shape": run.shape,
        "settings": run.settings,
        "environment": run.environment,
        "rows": [row.content() for row in run.rows],
    }
    json_path, plot_path = (stem.with_name(stem.name + end) for end in (".json", ".png"))
    json_path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    draw(run).savefig(plot_path, dpi=120)
    print(f"Wrote {json_path} and {plot_path}")
