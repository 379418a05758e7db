"""Figures of a benchmark: a table, a JSON file with every sample, and a bar plot."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

LABELS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "vRNN tanh"}


def pass_name(training: bool) -> str:
    """What is timed."""
    return "forward+backward" if training else "forward"


@dataclass
class Row:
    """The samples of one mode and pass; the k-th ones were taken in the same round."""

    mode: str
    training: bool
    batch: int
    flops: int
    native_seconds: list[float]
    ours_seconds: list[float]
    peak_gflops: list[float]

    @property
    def name(self) -> str:
        """The row's name in table and plot."""
        return f"{LABELS[self.mode]} {pass_name(self.training)}"

    def gflops(self, seconds: list[float]) -> float:
        """The median rate."""
        return self.flops / median(seconds) / 1e9

    def peak_fraction(self, seconds: list[float]) -> float:
        """The median share of the peak that the same round measured."""
        return median(self.flops / s / 1e9 / peak for s, peak in zip(seconds, self.peak_gflops))

    def speedups(self) -> list[float]:
        """Native over ours, round by round."""
        return [native / ours for native, ours in zip(self.native_seconds, self.ours_seconds)]

    def summary(self) -> dict[str, float]:
        """The figures of the table."""
        return {
            "native_ms": 1e3 * median(self.native_seconds),
            "ours_ms": 1e3 * median(self.ours_seconds),
            "ours_samples_per_second": self.batch / median(self.ours_seconds),
            "native_gflops": self.gflops(self.native_seconds),
            "ours_gflops": self.gflops(self.ours_seconds),
            "native_peak_fraction": self.peak_fraction(self.native_seconds),
            "ours_peak_fraction": self.peak_fraction(self.ours_seconds),
            "peak_gflops": median(self.peak_gflops),
            "speedup": median(self.speedups()),
        }


def milliseconds(seconds: list[float]) -> str:
    """Median (minimum-maximum)."""
    middle, low, high = (1e3 * f(seconds) for f in (median, min, max))
    digits = 1 if middle < 100 else 0
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def table(rows: list[Row]) -> str:
    """A Markdown table, aligned to be read as text too."""
    cells = [
        [
            "",
            "native ms",
            "ours ms",
            "samples/s",
            "GFLOP/s",
            "of FMA peak",
            "speed-up",
            "rounds",
        ]
    ]
    for row in rows:
        figures, ratios = row.summary(), row.speedups()
        cells.append(
            [
                row.name,
                milliseconds(row.native_seconds),
                milliseconds(row.ours_seconds),
                f"{figures['ours_samples_per_second']:.1f}",
                f"{figures['ours_gflops']:.0f}",
                f"{figures['ours_peak_fraction']:.0%}",
                f"{figures['speedup']:.2f} ({min(ratios):.2f}-{max(ratios):.2f})",
                str(len(ratios)),
            ]
        )
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |"
        for line in cells
    ]
    lines.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(lines)


def plot(rows: list[Row], title: str, path: Path) -> None:
    """Bars of both operators as shares of the peak, the speed-up above them."""
    from matplotlib.figure import Figure  # the object interface needs no display

    figure = Figure(figsize=(1.6 * len(rows) + 2, 4.5), layout="constrained")
    axes = figure.subplots()
    for offset, label, samples in (
        (-0.2, "mx.nd.RNN", [row.native_seconds for row in rows]),
        (0.2, "FusedRNN", [row.ours_seconds for row in rows]),
    ):
        shares = [100 * row.peak_fraction(seconds) for row, seconds in zip(rows, samples)]
        axes.bar([k + offset for k in range(len(rows))], shares, width=0.4, label=label)
    for k, row in enumerate(rows):
        height = 100 * row.peak_fraction(row.ours_seconds)
        axes.text(k + 0.2, height, f"{median(row.speedups()):.1f}x", ha="center", va="bottom")
    axes.set_xticks(range(len(rows)), [row.name.replace(" forward", "\nforward") for row in rows])
    axes.set_ylabel("% of the FMA peak")
    axes.set_ylim(0, 110)
    axes.set_title(title, fontsize="medium")
    figure.legend(loc="outside lower center", ncols=2)
    figure.savefig(path, dpi=120)


def write(rows: list[Row], shape: dict[str, int], machine: dict[str, Any], output: Path) -> None:
    """Prints the table; writes JSON and plot and says where."""
    sizes = " ".join(f"{name}={value}" for name, value in shape.items())
    where = f"{machine['cpu']}, {machine['isa']}, {machine['threads']} threads"
    print(f"\nfloat32, {sizes}; {where}; median (min-max)\n\n{table(rows)}\n")
    output.mkdir(parents=True, exist_ok=True)
    stem = output / ("ds2_" + "_".join(f"{name}{value}" for name, value in shape.items()))
    content = {
        "shape": shape,
        "environment": machine,
        "rows": [{**asdict(row), "summary": row.summary()} for row in rows],
    }
    json_path, plot_path = stem.with_suffix(".json"), stem.with_suffix(".png")
    json_path.write_text(json.dumps(content, indent=2) + "\n")
    plot(rows, f"DS2 {sizes}; {where}", plot_path)
    print(f"Wrote {json_path} and {plot_path}")
