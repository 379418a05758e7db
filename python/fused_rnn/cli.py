"""The command line: `python -m fused_rnn` or `fused-rnn`."""

from __future__ import annotations

import argparse

from fused_rnn.bench import compare, ds2, environment, full

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
        "what changed between two runs of the grid",
        compare.add_arguments,
        compare.run,
    ),
)


def info(_: argparse.Namespace) -> None:
    """Prints what runs here."""
    for name, value in environment.describe().items():
        print(f"{name:10} {value}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="fused-rnn", description="Fused RNN layers for MXNet")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("info", help="what runs here").set_defaults(run=info)
    bench = commands.add_parser("bench", help="benchmarks")
    benchmarks = bench.add_subparsers(required=True, metavar="BENCHMARK")
    for name, meaning, add_arguments, run in BENCHMARKS:
        benchmark = benchmarks.add_parser(name, help=meaning)
        add_arguments(benchmark)
        benchmark.set_defaults(run=run)
    args = parser.parse_args()
    args.run(args)
