"""The command line: `python -m fused_rnn` or `fused-rnn`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys

import fused_rnn
from fused_rnn import environment, script
from fused_rnn._errors import UserError

# What the benchmarks need, which `pip install fused-rnn` by itself does not bring.
BENCH = ("fused_rnn.bench", "matplotlib", "rich", "tqdm")


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


def add_benchmarks(parser: argparse.ArgumentParser) -> None:
    """Adds the commands of fused_rnn.bench; raises UserError without what they need."""
    missing = [name for name in BENCH if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"bench: expected {', '.join(BENCH)}, {', '.join(missing)} not installed; install with "
            "pip install 'fused-rnn[bench]'"
        )
    from fused_rnn.bench import commands

    commands.add_benchmarks(parser)


def parser(benchmarks: bool) -> argparse.ArgumentParser:
    """All commands, those of the benchmarks only if wanted."""
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
    if benchmarks:
        add_benchmarks(bench)
    return result


def main() -> None:
    try:
        args = parser(benchmarks=sys.argv[1:2] == ["bench"]).parse_args()
        _check_isa()
        args.run(args)
    except UserError as error:
        sys.exit(str(error))


def _check_isa() -> None:
    try:
        fused_rnn.isa()
    except ValueError as error:  # the environment asks for one in vain
        raise UserError(str(error)) from error
