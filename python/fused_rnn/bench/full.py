"""`bench grid`: ours against all peers that are there, over the whole grid."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from pathlib import Path
from typing import Iterator

from tqdm import tqdm

from fused_rnn import environment
from fused_rnn.bench import (
    grid,
    measure,
    options,
    pages,
    peers,
    plots,
    probes,
    results,
)
from fused_rnn.bench.results import Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bench grid`."""
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME=PYTHON",
        help="a peer and the interpreter that has it; default: this one. Names: "
        + ", ".join(peers.PEERS),
    )
    parser.add_argument(
        "--only", nargs="+", choices=peers.PEERS, metavar="PEER", help="beside ours; default: all"
    )
    parser.add_argument("--grid", type=Path, default=grid.DEFAULT, help="a file like grid.json")
    parser.add_argument("--groups", nargs="+", metavar="GROUP", help="of the grid; default: all")
    options.add_common(parser, budget=1500, least_rounds=measure.MIN_ROUNDS)
    parser.add_argument(
        "--contended", action="store_true", help="beside a process that keeps one core busy"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE.md", help="also writes this page, its plots beside it"
    )


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `bench report`."""
    parser.add_argument("run_file", type=Path, metavar="RUN.json")
    parser.add_argument("--page", type=Path, metavar="FILE.md")


def find_peers(args: argparse.Namespace) -> tuple[dict[str, peers.Installed], dict[str, str]]:
    """Those that run, and for all the version or what is missing."""
    named = {}
    for text in args.peer:
        name, _, python = text.partition("=")
        if name not in peers.PEERS or not python:
            sys.exit(f"--peer: expected NAME=PYTHON, NAME of {', '.join(peers.PEERS)}; got {text}")
        named[name] = python
    wanted = {peers.OURS, *(args.only or peers.PEERS)}
    found = {n: peers.find(n, named.get(n)) for n in peers.PEERS if n in wanted}
    installed = {n: each for n, each in found.items() if isinstance(each, peers.Installed)}
    for name in named:
        if name in wanted and name not in installed:
            sys.exit(f"--peer {name}: {found[name]}")
    return installed, {
        name: each.version if isinstance(each, peers.Installed) else each
        for name, each in found.items()
    }


@contextlib.contextmanager
def cleaning_up_on_sigterm() -> Iterator[None]:
    """Lets that signal end the program as an exception does: with processes and files gone."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@cleaning_up_on_sigterm()
def run(args: argparse.Namespace) -> None:
    """Measures, and writes what was measured so far after every block."""
    end = time.monotonic() + args.budget
    threads = options.thread_count(args)
    blocks = grid.load(args.grid, threads, args.contended, args.groups)
    options.prepare_folder(args.output, "--output")
    if args.page:
        options.prepare_folder(args.page.parent, "--page")
    installed, versions = find_peers(args)
    machine = {**environment.describe(), "threads": threads, "command": options.command()}
    found = Run(machine, versions, probes.measure(threads))
    stem = options.free_stem(args.output / "grid", machine)
    with tqdm(total=len(blocks), unit="block") as progress:
        measurement = measure.Measurement(
            installed, args.rounds, end, lambda text: progress.set_postfix_str(text)
        )
        weights = [measure.expected_seconds(block, installed) for block in blocks]
        for k, block in enumerate(blocks):
            progress.set_description(f"{block.shape}, {block.problem.mode}")
            left = end - time.monotonic()
            share = left * weights[k] / sum(weights[k:])
            try:
                for row in measurement.block(block, share):
                    if isinstance(row, tuple):
                        found.left_out[row[0]] = row[1]
                    else:
                        found.rows.append(row)
            except (measure.WrongResult, peers.PeerError) as error:
                sys.exit(str(error))
            results.save(found, stem.with_suffix(".json"))
            progress.update()
    report(found, stem, args.page)


def report_saved(args: argparse.Namespace) -> None:
    """Writes the files of an earlier run anew, from its samples."""
    found = results.load(args.run_file)
    for path in filter(None, (args.run_file, args.page)):
        options.prepare_folder(path.parent, str(path))
    report(found, args.run_file.with_suffix(""), args.page)


def report(found: Run, stem: Path, page: Path | None) -> None:
    """Prints the tables and writes all files."""
    pages.show(pages.everything(found))
    results.save(found, stem.with_suffix(".json"))
    results.save_csv(found, stem.with_suffix(".csv"))
    for target in filter(None, (stem.with_suffix(".md"), page)):
        target.parent.mkdir(parents=True, exist_ok=True)
        drawn = plots.save(found, target.with_suffix(""))
        target.write_text(pages.page(found, drawn, target.parent), encoding="utf-8")
        print(f"Wrote {target}")
