"""The command line: `python -m fused_rnn` or `fused-rnn`."""

from __future__ import annotations

import argparse
import json
import sys

import fused_rnn
from fused_rnn import script
from fused_rnn.bench import compare, ds2, environment, full
from fused_rnn.bench.options import UserError

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


def info(args: argparse.Namespace) -> None:
    """Prints what runs here."""
    found = environment.describe()
    if args.json:
        print(json.dumps(found, indent=2))
        return
    words = {True: "yes", False: "no"}
    for name, value in found.items():
        if value is not None:
            print(f"{name:10} {words[value] if isinstance(value, bool) else value}")


def parser() -> argparse.ArgumentParser:
    """All commands."""
    result = argparse.ArgumentParser(prog="fused-rnn", description="Fused RNN layers for MXNet")
    result.add_argument("--version", action="version", version=f"%(prog)s {fused_rnn.__version__}")
    commands = result.add_subparsers(required=True, metavar="COMMAND")
    about = commands.add_parser("info", help="what runs here")
    about.add_argument("--json", action="store_true", help="for programs")
    about.set_defaults(run=info)
    program = commands.add_parser(
        "run",
        help="a script or module, unchanged, on our kernels",
        usage="%(prog)s [-h] (SCRIPT | -m MODULE) [ARGUMENT ...]",
    )
    script.add_arguments(program)
    program.set_defaults(run=script.run)
    bench = commands.add_parser("bench", help="benchmarks")
    benchmarks = bench.add_subparsers(required=True, metavar="BENCHMARK")
    for name, meaning, add_arguments, run in BENCHMARKS:
        benchmark = benchmarks.add_parser(name, help=meaning)
        add_arguments(benchmark)
        benchmark.set_defaults(run=run)
    return result


def main() -> None:
    args = parser().parse_args()
    try:
        fused_rnn.isa()  # which the environment may ask for in vain
    except ValueError as error:
        sys.exit(str(error))
    try:
        args.run(args)
    except UserError as error:
        sys.exit(str(error))
