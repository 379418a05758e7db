"""The command line: `python -m fused_rnn` or `fused-rnn`."""

from __future__ import annotations

import argparse

from fused_rnn.bench import compare, ds2, environment, full

BENCHMARKS = {
    "ds2": (ds2, "the DeepSpeech2 layers, native operator against ours"),
    "grid": (full, "many shapes, ours against all peers that are installed"),
    "compare": (compare, "what changed between two runs of the grid"),
}


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
    for name, (module, meaning) in BENCHMARKS.items():
        benchmark = benchmarks.add_parser(name, help=meaning)
        module.add_arguments(benchmark)
        benchmark.set_defaults(run=module.run)
    args = parser.parse_args()
    args.run(args)
