"""The command line: `python -m fused_rnn` or `fused-rnn`."""

from __future__ import annotations

import argparse

from fused_rnn.bench import ds2, environment


def info(_: argparse.Namespace) -> None:
    """Prints what runs here."""
    for name, value in environment.describe().items():
        print(f"{name:10} {value}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="fused-rnn", description="Fused RNN layers for MXNet")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("info", help="what runs here").set_defaults(run=info)
    bench = commands.add_parser("bench", help="benchmarks against the native operator")
    benchmarks = bench.add_subparsers(required=True, metavar="BENCHMARK")
    ds2_parser = benchmarks.add_parser("ds2", help="the DeepSpeech2 layers")
    ds2.add_arguments(ds2_parser)
    ds2_parser.set_defaults(run=ds2.run)
    args = parser.parse_args()
    args.run(args)
