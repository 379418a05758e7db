"""Plots of a run."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from fused_rnn.bench.peers import OURS, PEERS
from fused_rnn.bench.results import Row, Run

# The axis of each group "Scaling in ...", and the attribute of rows that varies.
SCALING = {
    "Scaling in T": "time steps T",
    "Scaling in N": "sequences N",
    "Scaling in H": "hidden units H",
    "Scaling in threads": "threads",
}


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure  # the object interface needs no display

    return Figure(figsize=(width, height), layout="constrained")


def bars(run: Run, path: Path) -> bool:
    """Every peer's share of the bound, in the groups that compare peers."""
    rows = [
        row
        for row in run.rows
        if len(row.seconds) > 2 and not row.contended and not row.group.startswith("Scaling")
    ]
    if not rows:
        return False
    names = [name for name in run.timed if any(name in row.seconds for row in rows)]
    figure = _figure(9, 1 + 0.42 * len(rows))
    axes = figure.subplots()
    height = 0.86 / len(names)
    for k, name in enumerate(names):
        found = [(i, row) for i, row in enumerate(rows) if name in row.seconds]
        axes.barh(
            [i + (k - (len(names) - 1) / 2) * height for i, _ in found],
            [100 * row.fraction(name) for _, row in found],
            height=height,
            label=PEERS[name].label,
        )
    axes.set_yticks(range(len(rows)), [row.key for row in rows], fontsize="small")
    axes.invert_yaxis()
    axes.set_xlabel("% of the bound")
    axes.grid(axis="x", alpha=0.4)
    figure.legend(loc="outside upper center", ncols=4, fontsize="small")
    figure.savefig(path, dpi=110)
    return True


def roofline(run: Run, path: Path) -> bool:
    """Rate over operations per byte that must be read, under the measured roofs."""
    rows = [
        row
        for row in run.rows
        if row.problem.dtype == "float32"
        and row.threads == run.probes["threads"]
        and not row.contended
    ]
    if not rows:
        return False
    figure = _figure(8, 5)
    axes = figure.subplots()
    peak = median(peak for row in rows for peak in row.peak_gflops)
    intensities = [row.flops / row.bytes_read for row in rows]
    span = [min(intensities) / 2, max(intensities) * 2]
    axes.hlines(peak, *span, color="black", linewidth=1)
    axes.text(span[1], peak, "FMA peak ", ha="right", va="bottom", fontsize="small")
    for name, probe in run.probes["read_bandwidth"].items():
        ridge = min(peak / probe["gbs"], span[1])
        axes.plot([span[0], ridge], [span[0] * probe["gbs"], ridge * probe["gbs"]], "k:", lw=1)
        axes.text(span[0], span[0] * probe["gbs"], f" {name}", va="bottom", fontsize="small")
    for name in run.timed:
        found = [row for row in rows if name in row.seconds]
        axes.scatter(
            [row.flops / row.bytes_read for row in found],
            [row.flops / median(row.seconds[name]) / 1e9 for row in found],
            s=26 if name == OURS else 10,
            label=PEERS[name].label,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte of weights that must be read")
    axes.set_ylabel("GFLOP/s")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=4, fontsize="small")
    figure.savefig(path, dpi=110)
    return True


def _varied(row: Row) -> int:
    letter = row.group[len("Scaling in ") :]
    return row.threads if letter == "threads" else getattr(row.problem, letter)


def scaling(run: Run, path: Path) -> bool:
    """The rate over T, N, H and the number of threads."""
    groups = {
        group: [row for row in run.rows if row.group == group and not row.training]
        for group in SCALING
    }
    if not any(groups.values()):
        return False
    figure = _figure(11, 7.5)
    labels: dict[str, Any] = {}
    for axes, (group, rows) in zip(figure.subplots(2, 2).flat, groups.items()):
        for name in run.timed:
            found = sorted((_varied(row), row) for row in rows if name in row.seconds)
            if found:
                (line,) = axes.plot(
                    [x for x, _ in found],
                    [row.flops / median(row.seconds[name]) / 1e9 for _, row in found],
                    marker="o",
                    markersize=4,
                    color=f"C{run.timed.index(name)}",
                    linewidth=2.5 if name == OURS else 1,
                )
                labels[PEERS[name].label] = line
        axes.set_xlabel(SCALING[group])
        axes.set_ylabel("GFLOP/s")
        if rows and group != "Scaling in threads":
            axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    figure.legend(
        labels.values(), labels.keys(), loc="outside upper center", ncols=max(1, len(labels))
    )
    figure.savefig(path, dpi=110)
    return True


PLOTS = {
    "Share of the bound": ("bars", bars),
    "Roofline": ("roofline", roofline),
    "Scaling": ("scaling", scaling),
}


def save(run: Run, stem: Path) -> list[tuple[str, Path]]:
    """Captions and files of the plots that this run has rows for."""
    saved = []
    for caption, (name, draw) in PLOTS.items():
        path = stem.with_name(f"{stem.name}-{name}.png")
        if draw(run, path):
            saved.append((caption, path))
    return saved
