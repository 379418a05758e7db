"""A run as tables: for the terminal, and as a page of the documentation."""

from __future__ import annotations

import dataclasses
from pathlib import Path
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
        lines = [self.columns, ["---"] * len(self.columns), *self.lines]
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


def times(title: str, rows: list[Row], run: Run) -> Table:
    """Ours in full, the others as time and as ratio to ours."""
    others = [name for name in _peers_of(rows, run) if name != OURS]
    lines = []
    for row in rows:
        threads = "" if row.threads == run.probes["threads"] else f", threads: {row.threads}"
        line = [row.key + threads, milliseconds(median(row.bounds())), row.bound_by]
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
    note = "One core is shared with a busy process." if rows[0].contended else ""
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
        [_line(row, names, row.calls, cell) for row in rows],
    )


def _line(
    row: Row, names: Sequence[str], known: Collection[str], cell: Callable[[Row, str], str]
) -> list[str]:
    """A row, and a cell for each peer, which may be unknown."""
    return [row.key, *(cell(row, name) if name in known else "-" for name in names)]


def _partners(
    rows: list[Row], other: Callable[[Row], bool], same: Callable[[Row], Any]
) -> Iterator[tuple[Row, Row]]:
    """Each row of the other kind after the plain one that is otherwise the same."""
    plain = {same(row): row for row in rows if not other(row)}
    for row in rows:
        if other(row) and same(row) in plain:
            yield plain[same(row)], row


def lengths(run: Run) -> Table | None:
    """What sequences of different lengths cost against full ones."""

    def same(row: Row) -> Any:
        problem = dataclasses.replace(row.problem, variable_length=False)
        return row.group, problem, row.training, row.threads, row.contended

    lines = []
    for full, part in _partners(run.rows, lambda row: row.problem.variable_length, same):
        line = [full.key, f"{part.problem.rows / full.problem.rows:.0%}"]
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

    lines = [
        [
            half.key,
            milliseconds(median(single.seconds[OURS])),
            milliseconds(median(half.seconds[OURS])),
            f"{median(single.seconds[OURS]) / median(half.seconds[OURS]):.2f}",
        ]
        for single, half in _partners(run.rows, lambda row: row.problem.dtype[-2:] == "16", same)
    ]
    if not lines:
        return None
    return Table(
        "16-bit types against float32",
        "Ours. Arithmetic is float32 in both; what gains is reading.",
        ["", "float32, ms", "16 bits, ms", "float32 over 16 bits"],
        lines,
    )


def _factors(
    title: str, note: str, pairs: list[tuple[Row, Row]], run: Run, name: Callable[[Row], str]
) -> Table | None:
    """Every peer's time in the second row over that in the first."""

    def factor(peer: str, pair: tuple[Row, Row]) -> str:
        if not all(peer in row.seconds for row in pair):
            return "-"
        first, second = (median(row.seconds[peer]) for row in pair)
        return f"{second / first:.2f}"

    peers = [peer for peer in run.timed if any(factor(peer, pair) != "-" for pair in pairs)]
    lines = [[name(pair[1]), *(factor(peer, pair) for peer in peers)] for pair in pairs]
    return Table(title, note, ["", *(PEERS[p].label for p in peers)], lines) if lines else None


def contention(run: Run) -> Table | None:
    """What a busy neighbour costs each."""

    def same(row: Row) -> Any:
        return row.problem, row.training, row.threads

    pairs = list(_partners(run.rows, lambda row: row.contended, same))
    note = "Time with it over time without it."
    return _factors("A busy process on one core", note, pairs, run, lambda row: row.key)


def crowding(run: Run) -> Table | None:
    """What more threads than the run has otherwise cost each."""
    usual = run.probes["threads"]

    def same(row: Row) -> Any:
        return row.group, row.problem, row.training, row.contended

    rows = [row for row in run.rows if row.threads >= usual]
    pairs = list(_partners(rows, lambda row: row.threads > usual, same))
    note = f"Time over that with {usual}."
    title = "More threads than cores"
    return _factors(title, note, pairs, run, lambda row: f"{row.key}, threads: {row.threads}")


def call_and_step(run: Run) -> Table | None:
    """A line through the times over T: what a call costs apart from its steps."""
    rows = [row for row in run.rows if row.group == "Scaling in T" and row.problem.T >= 10]
    lines = []
    for name in _peers_of(rows, run):
        points = [(r.problem.T, median(r.seconds[name])) for r in rows if name in r.seconds]
        if len(points) < 3:
            continue
        T, seconds = np.array(points).T
        step, call = np.polyfit(T, seconds, 1, w=1 / seconds)
        lines.append([PEERS[name].label, milliseconds(call), milliseconds(step)])
    if not lines:
        return None
    return Table(
        "Cost of a call and of a step",
        "Fitted to the times over T (10 and more steps): the first is packing of weights and other "
        "work that every call does, the second grows with the steps.",
        ["", "call, ms", "step, ms"],
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
        [
            _line(row, names, row.first_seconds, cell)
            for row in run.rows
            if not (row.training or row.contended or row.group.startswith("Scaling"))
        ],
    )


def memory(run: Run) -> Table:
    """Measured peaks beside the library's own queries."""
    lines = []
    for row in run.rows:
        if row.contended or row.group.startswith("Scaling") or OURS not in row.memory:
            continue
        sizes = row.sizes
        workspace = sizes["workspace_training"]
        if row.training:
            workspace = max(workspace, sizes["workspace_backward"])
        reserve = sizes["reserve"]
        native = row.memory.get(NATIVE)
        lines.append(
            [
                row.key,
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
    lines = [[name, str(value)] for name, value in run.environment.items()]
    lines += [[PEERS[n].label, text] for n, text in run.peers.items() if n not in OF_THIS_PACKAGE]
    return Table("Machine and versions", "", ["", ""], lines)


def groups(run: Run) -> list[Table]:
    """The times, by group."""
    names = dict.fromkeys(row.group for row in run.rows)
    return [times(name, [row for row in run.rows if row.group == name], run) for name in names]


def everything(run: Run) -> list[Table]:
    """All tables of the page, in its order."""
    tables = [*groups(run)]
    rows = [row for row in run.rows if row.calls]
    if rows:
        tables.append(latency(rows, run))
    more = (lengths, half_types, contention, crowding, call_and_step)
    tables += filter(None, (table(run) for table in more))
    if run.rows:
        tables += [first_calls(run), memory(run)]
    if run.left_out:
        lines = [[name, reason] for name, reason in run.left_out.items()]
        tables.append(Table("Left out of this run", "", ["", "why"], lines))
    return [*tables, roofs(run), machine(run)]


DISTURBED = 0.05  # others' share of the processors from which on times are theirs too
INTRODUCTION = """# Benchmarks

This page is the output of a command, on the machine at its end:

```sh
{command}
```

Every peer runs in a process of its own and gets the same weights and inputs; before anything is
timed, its outputs and gradients are compared with ours, and a difference beyond rounding stops the
run. All peers then alternate, round by round, each next to a probe of the processor's
multiply-adds, because machines are shared and never twice the same. All use {threads} threads
unless a row says otherwise.

- **ours, ms**: `FusedRNN` as a bound symbol, as is MXNet's native operator, which is slower as a
  function on arrays; the median of all rounds (minimum-maximum).
- **bound**: what the processor needs at least, by the probes of the same round: for the operations
  of the matrix products, or for reading the weights (those of the recurrence at every step),
  whichever is longer. **of the bound**: the share of it that ours reaches. The probe reads a buffer
  as large as a layer's recurrent weights, always from its start; steps that find a part of them in
  a nearer cache, because they read to and fro, can be faster than a bound by reading.
- **peers**: median ms, and their time over ours, round by round: median (minimum-maximum). Above 1,
  ours is faster. Peers whose calls take over a second can have fewer rounds than ours, the first.
- Peers that may keep weights in a format of their own between calls (ONNX Runtime, OpenVINO, oneDNN
  in a forward) do so; so does **ours, Stream**: `fused_rnn.Stream` on NumPy arrays, which keeps its
  states too. Ours and MXNet take the weights anew at every call.
- **others**: the most that other processes took of the processors in any round. Libraries whose
  threads spin while they wait for each other lose far more than that share: where it is not near
  zero, a ratio says how they bear a neighbour, and not how fast they are alone.{disturbed}
- **unfused**: `mx.rnn.LSTMCell`, unrolled.
"""


def page(run: Run, plots: list[tuple[str, Path]], folder: Path) -> str:
    """The page; `plots` are captions and files, linked from `folder`."""
    disturbed = sum(max(row.others) > DISTURBED for row in run.rows)
    introduction = INTRODUCTION.format(
        command=run.environment["command"],
        threads=run.environment["threads"],
        disturbed=f" **In this run: {disturbed} of {len(run.rows)} rows.**" if disturbed else "",
    )
    parts = [introduction]
    parts += [f"![{caption}]({path.relative_to(folder)})\n" for caption, path in plots]
    return "\n".join([*parts, *(table.markdown() for table in everything(run))])


def show(tables: list[Table]) -> None:
    """On the terminal, or without colours and as wide as needed if that is a file."""
    from rich.console import Console
    from rich.table import Table as RichTable

    console = Console()
    if not console.is_terminal:
        console = Console(width=240)
    for table in tables:
        rich = RichTable(title=table.title, caption=table.note, title_justify="left")
        for k, name in enumerate(table.columns):
            rich.add_column(name, justify="right" if k else "left")
        for line in table.lines:
            rich.add_row(*line)
        console.print(rich)
