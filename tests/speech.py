"""What the tests of the Deep Speech 2 example share."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from helpers import TESTS, run

ROOT = TESTS.parent
sys.path.insert(0, str(ROOT))
pytest.importorskip("jiwer", reason="no jiwer: pip install '.[deepspeech2]'")
pytest.importorskip("espeakng_loader", reason="no espeak-ng: pip install '.[deepspeech2]'")

from examples.deepspeech2 import corpus  # noqa: E402

SIZE = corpus.Size(24, 6, 6)
# One thread: the problems are tiny, and other processes may want the cores.
ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    "OMP_NUM_THREADS": "1",
}


def program(name: str, *options: object) -> list[str]:
    """The arguments of Python for a program of the example."""
    return ["-m", f"examples.deepspeech2.{name}", *map(str, options)]


def execute(arguments: list[str], code: int = 0) -> str:
    """The output of a program that must end with this code."""
    done: subprocess.CompletedProcess = run(arguments, **ENVIRONMENT)
    assert done.returncode == code, done.stdout
    return done.stdout


def synthesise(folder: Path) -> Path:
    """A small corpus in this cache folder."""
    size = [f"--{name}={value}" for name, value in SIZE._asdict().items()]
    execute(program("corpus", f"--cache={folder}", *size))
    return corpus.folder_of(folder, SIZE, 0)


@functools.lru_cache(maxsize=None)
def cache() -> Path:
    """A cache folder with a small corpus, one for all tests."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    synthesise(folder)
    return folder


def spoken() -> Path:
    """The corpus in it."""
    return corpus.folder_of(cache(), SIZE, 0)
