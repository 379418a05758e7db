"""All tables of a run: on the terminal, and as a page of the documentation."""

from __future__ import annotations

import os
from pathlib import Path

from fused_rnn.bench import tables
from fused_rnn.bench.results import Run
from fused_rnn.bench.tables import Table


def everything(run: Run) -> list[Table]:
    """All tables of the page, in its order."""
    found = tables.groups(run)
    rows = [row for row in run.rows if row.calls]
    if rows:
        found.append(tables.latency(rows, run))
    more = (tables.lengths, tables.half_types, tables.contention, tables.crowding)
    found += filter(None, (table(run) for table in (*more, tables.call_and_step)))
    if run.rows:
        found += [tables.first_calls(run), tables.memory(run)]
    if run.left_out:
        lines = [[name, reason] for name, reason in run.left_out.items()]
        found.append(Table("Left out of this run", "", ["", "why"], lines))
    return [*found, tables.roofs(run), tables.machine(run)]


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


def show(found: list[Table]) -> None:
    """On the terminal; a table that is wider becomes one paragraph for each of its lines. In a file
    it is as wide as needed, unless COLUMNS says otherwise.
    """
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console = Console(width=240)
    unlimited = console.options.update(width=10_000)
    for table in found:
        rich = RichTable(title=table.title, caption=table.note, title_justify="left")
        for k, name in enumerate(table.columns):
            rich.add_column(name, justify="right" if k else "left", no_wrap=True)
        for line in table.lines:
            rich.add_row(*map(Text, line))
        if console.measure(rich, options=unlimited).maximum <= console.width:
            console.print(rich)
        else:
            console.print(_paragraphs(table), markup=False, highlight=False)


def _paragraphs(table: Table) -> str:
    """The name of a line, and a line for each of its cells."""
    width = max(map(len, table.columns))
    parts = [table.title, *filter(None, [table.note])]
    for name, *cells in table.lines:
        named = zip(table.columns[1:], cells)
        parts.append("\n".join([name, *(f"  {key:{width}}  {cell}" for key, cell in named)]))
    return "\n\n".join(parts) + "\n"
