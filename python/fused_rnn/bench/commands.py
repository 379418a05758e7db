"""The benchmarks as commands."""

from __future__ import annotations

import argparse

from fused_rnn.bench import compare, ds2, full

BENCHMARKS = (
    (
        "ds2",
        "the DeepSpeech2 layers, native operator against ours",
        ds2.add_arguments,
        ds2.run,
    ),
    (
        "grid",
        "many shapes, ours against all peers that are installed",
        full.add_arguments,
        full.run,
    ),
    (
        "report",
        "tables, page and plots of an earlier run of the grid",
        full.add_report_arguments,
        full.report_saved,
    ),
    (
        "compare",
        "what changed between two runs of ds2 or of the grid",
        compare.add_arguments,
        compare.run,
    ),
)


def add_benchmarks(parser: argparse.ArgumentParser) -> None:
    """Adds a command for each."""
    commands = parser.add_subparsers(required=True, metavar="BENCHMARK")
    for name, meaning, add_arguments, run in BENCHMARKS:
        command = commands.add_parser(name, help=meaning)
        add_arguments(command)
        command.set_defaults(run=run)
