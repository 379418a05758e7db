"""Options of the benchmarks: what they may be, and what is said if they are not."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable

from fused_rnn import environment
from fused_rnn._errors import UserError

MOST_THREADS = 1024
LARGEST = 2**31 - 1  # MXNet's sizes


def whole(least: int, most: int = LARGEST) -> Callable[[str], int]:
    """For argparse: a whole number within these limits."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"expected a whole number from {least} to {most}, got {text!r}"
            )
        return value

    return parse


def seconds(text: str) -> float:
    """For argparse: a time."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds, 0 or more, got {text!r}")
    return value


def add_common(parser: argparse.ArgumentParser, budget: int, least_rounds: int) -> None:
    """Rounds, budget, threads and output."""
    parser.add_argument(
        "--rounds", type=whole(least_rounds), default=10, help=f"{least_rounds} or more (10)"
    )
    parser.add_argument(
        "--budget",
        type=seconds,
        default=budget,
        metavar="SECONDS",
        help=f"fewer rounds if these do not fit into it ({budget})",
    )
    parser.add_argument(
        "--threads",
        type=whole(1, MOST_THREADS),
        help="of all (OMP_NUM_THREADS, or one per core)",
    )
    parser.add_argument("--output", type=Path, default=Path("bench_results"), metavar="DIR")


def thread_count(args: argparse.Namespace) -> int:
    """As the option says, or the environment, or the machine."""
    text = os.environ.get("OMP_NUM_THREADS")
    if args.threads or not text:
        return args.threads or environment.core_count()
    try:
        return whole(1, MOST_THREADS)(text)
    except argparse.ArgumentTypeError as error:
        raise UserError(f"OMP_NUM_THREADS: {error}") from error


def prepare_folder(path: Path, option: str) -> None:
    """Makes a folder unless it is there. Fails now rather than after a long run."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise UserError(f"{option}: cannot write to {path}: {error.strerror}") from error


def read_json(path: Path) -> Any:
    """The content of a file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: expected UTF-8: {error}") from error
    except ValueError as error:
        raise UserError(f"{path}: expected JSON: {error}") from error
    except RecursionError as error:
        raise UserError(f"{path}: expected JSON, nested less deep") from error


def check_memory(needed: int) -> None:
    """Fails if a problem takes more bytes than the machine has left."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable" and needed > int(value.split()[0]) << 10:
            left = int(value.split()[0]) / 1e6
            raise UserError(f"sizes: they take {needed / 1e9:.1f} GB, {left:.1f} GB are free")


def command() -> str:
    """The command line of this run, for its results."""
    return shlex.join(["python", "-m", "fused_rnn", *sys.argv[1:]])


def free_stem(stem: Path, environment: dict[str, Any]) -> Path:
    """That of the files of a run: with a number if those without are of another kind of run, so
    that none is overwritten but by its like.
    """
    found = stem
    for number in itertools.count(2):
        path = found.with_name(found.name + ".json")
        if not path.exists() or _is_alike(path, environment):
            break
        found = stem.with_name(f"{stem.name}-{number}")
    return found


def _is_alike(path: Path, environment: dict[str, Any]) -> bool:
    """Whether a file is of a run by the same command on the same threads and instructions."""
    try:
        earlier = read_json(path)["environment"]
        return all(earlier[name] == environment[name] for name in ("command", "threads", "isa"))
    except (UserError, KeyError, TypeError):
        return False
