"""What a run found, as tables."""

from __future__ import annotations

import dataclasses
from statistics import median
from typing import Any, Callable, Collection, Iterator, Sequence

import numpy as np

from fused_rnn.bench.peers import NATIVE, OF_THIS_PACKAGE, OURS, PEERS
from fused_rnn.bench.results import Row, Run


@dataclasses.dataclass
class Table:
    """Title, a sentence on how to read it, names of columns, and lines of cells."""

    title: str
    note: str
    columns: list[str]
    lines: list[list[str]]

    def markdown(self) -> str:
        """As Markdown."""
        lines = [self.columns, ["---"] * len(self.columns)]
        lines += [[cell.replace("|", "\\|") for cell in line] for line in self.lines]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        note = self.note + "\n\n" if self.note else ""
        return f"## {self.title}\n\n{note}{body}\n"


def milliseconds(seconds: float) -> str:
    """Three digits."""
    value = 1e3 * seconds
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value < 1 else f"{value:.1f}"


def spread(seconds: list[float]) -> str:
    """Median (minimum-maximum), in ms."""
    return (
        f"{milliseconds(median(seconds))} "
        f"({milliseconds(min(seconds))}-{milliseconds(max(seconds))})"
    )


def ratio(values: list[float]) -> str:
    """Median (minimum-maximum)."""
    return f"{median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def size(count: float) -> str:
    """In MB."""
    return f"{count / 1e6:.1f}"


def _peers_of(rows: list[Row], run: Run) -> list[str]:
    return [name for name in run.timed if any(name in row.seconds for row in rows)]


def row_name(row: Row, run: Run, contended: bool = False) -> str:
    """A row's key, and what else is not as in most rows of the run."""
    threads = "" if row.threads == run.probes["threads"] else f", threads: {row.threads}"
    return row.key + threads + (", contended" if contended else "")


def alone(run: Run) -> list[Row]:
    """Rows without a busy neighbour that compare peers; where several groups measured the same,
    the row with the most peers.
    """
    best: dict[Any, Row] = {}
    for row in run.rows:
        same = (row.shape, row.problem, row.training, row.threads)
        more = same not in best or len(row.seconds) > len(best[same].seconds)
        if more and not (row.contended or row.group.startswith("Scaling")):
            best[same] = row
    return list(best.values())


def times(title: str, rows: list[Row], run: Run) -> Table:
    """Ours in full, the others as time and as ratio to ours."""
    others = [name for name in _peers_of(rows, run) if name != OURS]
    all_contended = all(row.contended for row in rows)
    lines = []
    for row in rows:
        name = row_name(row, run, row.contended and not all_contended)
        line = [name, milliseconds(median(row.bounds())), row.bound_by]
        line += [spread(row.seconds[OURS]), f"{row.fraction():.0%}"]
        for name in others:
            if name in row.seconds:
                samples = row.seconds[name]
                fewer = f", rounds: {len(samples)}" if len(samples) < len(row.peak_gflops) else ""
                times = milliseconds(median(samples))
                line.append(f"{times}: {ratio(row.ratios(name))}{fewer}")
            else:
                line.append(row.refused.get(name, "-"))
        lines.append([*line, f"{max(row.others):.0%}", str(len(row.peak_gflops))])
    columns = ["", "bound, ms", "by", "ours, ms", "of the bound"]
    columns += [PEERS[name].label for name in others]
    note = "One core is shared with a busy process." if all_contended else ""
    return Table(title, note, [*columns, "others", "rounds"], lines)


def latency(rows: list[Row], run: Run) -> Table:
    """Percentiles of single calls."""
    names = _peers_of(rows, run)

    def cell(row: Row, name: str) -> str:
        return " / ".join(milliseconds(row.percentile(name, percent)) for percent in (50, 90, 99))

    return Table(
        "Latency: percentiles",
        "50 / 90 / 99 % of single calls took at most these ms.",
        ["", *(PEERS[name].label for name in names)],
        [_line(row, run, names, row.calls, cell) for row in rows],
    )


def _line(
    row: Row,
    run: Run,
    names: Sequence[str],
    known: Collection[str],
    cell: Callable[[Row, str], str],
) -> list[str]:
    """A row, and a cell for each peer, which may be unknown."""
    return [row_name(row, run), *(cell(row, name) if name in known else "-" for name in names)]


def _partners(
    rows: list[Row], other: Callable[[Row], bool], same: Callable[[Row], Any]
) -> Iterator[tuple[Row, Row]]:
    """Each row of the other kind after the plain one that is otherwise the same; of several, the
    one that shares the most peers with it.
    """
    for row in filter(other, rows):
        found = [each for each in rows if not other(each) and same(each) == same(row)]
        if found:
            yield max(found, key=lambda each: len(each.seconds.keys() & row.seconds)), row


def lengths(run: Run) -> Table | None:
    """What sequences of different lengths cost against full ones."""

    def same(row: Row) -> Any:
        problem = dataclasses.replace(row.problem, variable_length=False)
        return row.group, problem, row.training, row.threads, row.contended

    lines = []
    for full, part in _partners(run.rows, lambda row: row.problem.variable_length, same):
        line = [row_name(full, run, full.contended), f"{part.problem.rows / full.problem.rows:.0%}"]
        for name in (OURS, "torch", "onnxruntime"):
            if name in full.seconds and name in part.seconds:
                times = [median(row.seconds[name]) for row in (full, part)]
                texts = [milliseconds(each) for each in times]
                line.append(f"{texts[0]} -> {texts[1]}: {times[1] / times[0]:.0%}")
            else:
                line.append("-")
        lines.append(line)
    if not lines:
        return None
    labels = [PEERS[name].label for name in (OURS, "torch", "onnxruntime")]
    return Table(
        "Lengths uniform in 1..T against full ones",
        "If rows past their length cost nothing, the time falls as the steps do.",
        ["", "steps left", *(f"{label}, ms" for label in labels)],
        lines,
    )


def half_types(run: Run) -> Table | None:
    """What 16-bit storage gains."""

    def same(row: Row) -> Any:
        problem = dataclasses.replace(row.problem, dtype="float32")
        return problem, row.training, row.threads, row.contended

    rows = [row for row in run.rows if row.problem.dtype != "float64"]
    lines = []
    for single, half in _partners(rows, lambda row: row.problem.dtype != "float32", same):
        times = [median(row.seconds[OURS]) for row in (single, half)]
        name = row_name(half, run, half.contended)
        lines.append([name, *map(milliseconds, times), f"{times[0] / times[1]:.2f}"])
    if not lines:
        return None
    return Table(
        "16-bit types against float32",
        "Ours. Arithmetic is float32 in both; what gains is reading.",
        ["", "float32, ms", "16 bits, ms", "float32 over 16 bits"],
        lines,
    )


def _factors(title: str, note: str, pairs: list[tuple[Row, Row]], run: Run) -> Table | None:
    """Every peer's time in the second row over that in the first."""

    def factor(peer: str, pair: tuple[Row, Row]) -> str:
        if not all(peer in row.seconds for row in pair):
            return "-"
        first, second = (median(row.seconds[peer]) for row in pair)
        return f"{second / first:.2f}"

    peers = [peer for peer in run.timed if any(factor(peer, pair) != "-" for pair in pairs)]
    lines = [[row_name(pair[1], run), *(factor(peer, pair) for peer in peers)] for pair in pairs]
    return Table(title, note, ["", *(PEERS[p].label for p in peers)], lines) if lines else None


def contention(run: Run) -> Table | None:
    """What a busy neighbour costs each."""

    def same(row: Row) -> Any:
        return row.problem, row.training, row.threads

    pairs = list(_partners(run.rows, lambda row: row.contended, same))
    note = "Time with it over time without it."
    return _factors("A busy process on one core", note, pairs, run)


def crowding(run: Run) -> Table | None:
    """What more threads than the run has otherwise cost each."""
    usual = run.probes["threads"]

    def same(row: Row) -> Any:
        return row.group, row.problem, row.training, row.contended

    rows = [row for row in run.rows if row.threads >= usual]
    pairs = list(_partners(rows, lambda row: row.threads > usual, same))
    note = f"Time over that with {usual}."
    return _factors("More threads than cores", note, pairs, run)


def call_and_step(run: Run) -> Table | None:
    """A line through the times over T: what a call costs apart from its steps."""
    families: dict[str, list[Row]] = {}
    for row in run.rows:
        if row.group == "Scaling in T" and row.problem.T >= 10:
            _, _, kind = row_name(row, run, row.contended).partition(f"{row.shape}, ")
            families.setdefault(kind, []).append(row)
    lines = []
    for kind, rows in families.items():
        for name in _peers_of(rows, run):
            points = [(r.problem.T, median(r.seconds[name])) for r in rows if name in r.seconds]
            if len(points) < 3:
                continue
            T, seconds = np.array(points).T
            step, call = np.polyfit(T, seconds, 1, w=1 / seconds)
            lines.append([kind, PEERS[name].label, milliseconds(call), milliseconds(step)])
    if not lines:
        return None
    return Table(
        "Cost of a call and of a step",
        "Fitted to the times over T (10 and more steps): the first is packing of weights and other "
        "work that every call does, the second grows with the steps.",
        ["", "", "call, ms", "step, ms"],
        lines,
    )


def first_calls(run: Run) -> Table:
    """The first call of a process against the later ones."""
    names = run.timed

    def cell(row: Row, name: str) -> str:
        steady = median(row.seconds[name])
        return f"{milliseconds(row.first_seconds[name])} / {milliseconds(steady)}"

    return Table(
        "First call of a process",
        "First / later, in ms. The first starts threads, makes code and allocates.",
        ["", *(PEERS[name].label for name in names)],
        [_line(row, run, names, row.first_seconds, cell) for row in alone(run) if not row.training],
    )


def memory(run: Run) -> Table:
    """Measured peaks beside the library's own queries."""
    lines = []
    for row in alone(run):
        sizes = row.sizes
        workspace = sizes["workspace_training"]
        if row.training:
            workspace = max(workspace, sizes["workspace_backward"])
        reserve = sizes["reserve"]
        native = row.memory.get(NATIVE)
        lines.append(
            [
                row_name(row, run),
                size(row.memory[OURS]),
                "-" if native is None else size(native),
                size(workspace + reserve + sizes["outputs"]),
                f"{size(workspace)} + {size(reserve)} + {size(sizes['outputs'])}",
            ]
        )
    return Table(
        "Memory",
        "Most MB that a process had beyond its inputs, weights and their gradients, outputs "
        "included; of a new process, a forward before the training pass. The symbols are bound "
        "with gradients, so a forward keeps what its backward would need. Ours can be asked for "
        "beforehand: workspace of a call, reserve from forward to backward, outputs. What a "
        "training pass has beyond are MXNet's own arrays, about as large as data and output "
        "together, and code that oneDNN makes once in a process.",
        ["", "ours", PEERS[NATIVE].label, "ours by query", "workspace + reserve + outputs"],
        lines,
    )


def roofs(run: Run) -> Table:
    """The probes."""
    lines = [
        [f"FMA, {dtype}, {isa}", f"{peak:.0f} GFLOP/s"]
        for isa, peaks in run.probes["fma_peak_gflops"].items()
        for dtype, peak in peaks.items()
    ]
    lines += [
        [f"reading {probe['bytes'] / 1e6:.1f} MB ({name})", f"{probe['gbs']:.0f} GB/s"]
        for name, probe in run.probes["read_bandwidth"].items()
    ]
    note = f"{run.probes['threads']} threads together."
    return Table("Roofs, measured", note, ["", "at most"], lines)


def machine(run: Run) -> Table:
    """What ran where."""
    lines = [[name, str(value)] for name, value in run.environment.items() if value is not None]
    lines += [[PEERS[n].label, text] for n, text in run.peers.items() if n not in OF_THIS_PACKAGE]
    return Table("Machine and versions", "", ["", ""], lines)


def groups(run: Run) -> list[Table]:
    """The times, by group."""
    names = dict.fromkeys(row.group for row in run.rows)
    return [times(name, [row for row in run.rows if row.group == name], run) for name in names]
