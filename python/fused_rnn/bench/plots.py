"""Plots of a run."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any, Iterable

from fused_rnn.bench import tables
from fused_rnn.bench.peers import OURS, PEERS
from fused_rnn.bench.results import Row, Run

# The axis of each group "Scaling in ...", and the attribute of rows that varies.
SCALING = {
    "Scaling in T": "time steps T",
    "Scaling in N": "sequences N",
    "Scaling in H": "hidden units H",
    "Scaling in threads": "threads",
}


_BESIDE = {"textcoords": "offset points", "fontsize": "small"}  # points from what is named


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure  # the object interface needs no display

    return Figure(figsize=(width, height), layout="constrained")


def _color(run: Run, name: str) -> str:
    return f"C{run.timed.index(name)}"


def _legend(figure: Any, handles: Iterable[Any], labels: Iterable[str]) -> None:
    """Above the axes, in rows that any of these figures has room for."""
    figure.legend(list(handles), list(labels), loc="outside upper center", ncols=4)


def shares(run: Run) -> Any:
    """Every peer's share of the bound, in the groups that compare peers; None if there are none."""
    rows = [row for row in tables.alone(run) if len(row.seconds) > 2]
    if not rows:
        return None
    figure = _figure(9, 1.2 + 0.24 * len(rows))
    axes = figure.subplots()
    for name in reversed(run.timed):  # ours on top
        found = [(i, row) for i, row in enumerate(rows) if name in row.seconds]
        axes.plot(
            [100 * row.fraction(name) for _, row in found],
            [i for i, _ in found],
            "o" if name == OURS else "d",
            markersize=9 if name == OURS else 6,
            color=_color(run, name),
            label=PEERS[name].label,
        )
    axes.set_yticks(range(len(rows)), [tables.row_name(row, run) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel("% of the bound")
    axes.grid(alpha=0.4)
    _legend(figure, *axes.get_legend_handles_labels())
    return figure


def roofline(run: Run) -> Any:
    """Rate over operations per byte that must be read, under the measured roofs; None if no row is
    of the type and threads that they are measured for.
    """
    rows = [
        row
        for row in run.rows
        if row.problem.dtype == "float32"
        and row.threads == run.probes["threads"]
        and not row.contended
    ]
    if not rows:
        return None
    figure = _figure(8, 5)
    axes = figure.subplots()
    peak = median(peak for row in rows for peak in row.peak_gflops)
    intensities = [row.flops / row.bytes_read for row in rows]
    span = [min(intensities) / 2, max(intensities) * 2]
    axes.hlines(peak, *span, color="black", linewidth=1)
    axes.annotate("FMA peak", (span[1], peak), (0, 4), ha="right", va="bottom", **_BESIDE)
    for name, probe in run.probes["read_bandwidth"].items():
        ridge = min(peak / probe["gbs"], span[1])
        lowest = span[0] * probe["gbs"]
        if lowest >= peak:  # it is above the other roof here
            continue
        axes.plot([span[0], ridge], [lowest, ridge * probe["gbs"]], "k:", lw=1)
        axes.annotate(name, (span[0], lowest), (-4, 0), ha="right", va="center", **_BESIDE)
    axes.set_xlim(span[0] / 2, span[1] * 1.5)
    for name in run.timed:
        found = [row for row in rows if name in row.seconds]
        axes.scatter(
            [row.flops / row.bytes_read for row in found],
            [row.flops / median(row.seconds[name]) / 1e9 for row in found],
            s=26 if name == OURS else 10,
            color=_color(run, name),
            label=PEERS[name].label,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(top=2 * peak)
    axes.set_xlabel("operations per byte of weights that must be read")
    axes.set_ylabel("GFLOP/s")
    axes.grid(alpha=0.3)
    _legend(figure, *axes.get_legend_handles_labels())
    return figure


def _varied(row: Row) -> int:
    letter = row.group[len("Scaling in ") :]
    return row.threads if letter == "threads" else getattr(row.problem, letter)


def _scaled(run: Run, group: str) -> list[Row]:
    """The forwards of a group, of one kind: that of the first."""

    def kind(row: Row) -> Any:
        return row.problem.mode, row.problem.dtype, row.problem.variable_length, row.contended

    rows = [row for row in run.rows if row.group == group and not row.training]
    return sorted((row for row in rows if kind(row) == kind(rows[0])), key=_varied)


def scaling(run: Run) -> Any:
    """The rate over T, N, H and the number of threads; None if nothing was scaled."""
    groups = {group: _scaled(run, group) for group in SCALING}
    if not any(groups.values()):
        return None
    figure = _figure(11, 7.5)
    lines: dict[str, Any] = {}
    for axes, (group, rows) in zip(figure.subplots(2, 2).flat, groups.items()):
        for name in run.timed:
            found = [row for row in rows if name in row.seconds]
            if found:
                (lines[PEERS[name].label],) = axes.plot(
                    [_varied(row) for row in found],
                    [row.flops / median(row.seconds[name]) / 1e9 for row in found],
                    marker="o",
                    markersize=4,
                    color=_color(run, name),
                    linewidth=2.5 if name == OURS else 1,
                )
        axes.set_xlabel(SCALING[group])
        axes.set_ylabel("GFLOP/s")
        axes.set_xscale("log")
        values = sorted({_varied(row) for row in rows})
        axes.set_xticks(values, list(map(str, values)))
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    _legend(figure, lines.values(), lines)
    return figure


PLOTS = {
    "Share of the bound": ("shares", shares),
    "Roofline": ("roofline", roofline),
    "Scaling": ("scaling", scaling),
}


def save(run: Run, stem: Path) -> list[tuple[str, Path]]:
    """Captions and files of the plots that this run has rows for."""
    saved = []
    for caption, (name, draw) in PLOTS.items():
        path = stem.with_name(f"{stem.name}-{name}.png")
        figure = draw(run)
        if figure is not None:
            figure.savefig(path, dpi=110)
            saved.append((caption, path))
    return saved
