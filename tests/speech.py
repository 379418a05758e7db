"""What the tests of the Deep Speech 2 example share."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import wave
from pathlib import Path

import numpy as np
import pytest
from helpers import TESTS, run

ROOT = TESTS.parent
sys.path.insert(0, str(ROOT))
pytest.importorskip("jiwer", reason="no jiwer: pip install '.[deepspeech2]'")
pytest.importorskip("espeakng_loader", reason="no espeak-ng: pip install '.[deepspeech2]'")

from examples.deepspeech2 import audio, checkpoint, corpus  # noqa: E402

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


def tone(frequency: float, rate: int, seconds: float = 0.5) -> np.ndarray:
    """A sine."""
    return 0.5 * np.sin(2 * np.pi * frequency * np.arange(round(rate * seconds)) / rate)


def write(path: Path, samples: np.ndarray, rate: int = audio.RATE, channels: int = 1) -> Path:
    """A wav file of 16-bit samples."""
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return path


def bad_wav(kind: str, folder: Path) -> Path:
    """A wav file that cannot be used."""
    path = folder / f"{kind}.wav"
    if kind == "text":
        path.write_text("not a sound")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "bits":
        write(path, tone(440, audio.RATE))
        content = path.read_bytes()
        path.write_bytes(content[:34] + b"\x40" + content[35:])
    elif kind == "truncated":
        write(path, tone(440, audio.RATE))
        path.write_bytes(path.read_bytes()[:5000])
    return path


def training(output: Path, *options: object) -> list[str]:
    """A small run of six steps an epoch."""
    size = ("--utterances", *SIZE)
    common = ("--preset", "tiny", "--cache", cache(), *size, "--batch", 4, "--output", output)
    return program("train", *common, *options)


def parameters(path: Path) -> dict[str, np.ndarray]:
    """Those of a checkpoint."""
    net = checkpoint.load_network(path)
    return {name: p.data().asnumpy() for name, p in net._collect_params_with_prefix().items()}
