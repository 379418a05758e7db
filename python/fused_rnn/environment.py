"""What runs here: versions, processor, threads. Written into every result."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
from pathlib import Path

import mxnet as mx
import numpy as np

import fused_rnn
from fused_rnn import _core

PACKAGE = Path(fused_rnn.__file__).resolve().parent


class _OneDnnVersion(ctypes.Structure):
    """The start of oneDNN's dnnl_version_t."""

    _fields_ = [("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int)]


def onednn_version() -> str | None:
    """The version of the oneDNN library in the package; None if it was built with another."""
    library = PACKAGE / "libdnnl.so.3"
    if not library.exists():
        return None
    query = ctypes.CDLL(str(library)).dnnl_version
    query.restype = ctypes.POINTER(_OneDnnVersion)
    version = query().contents
    return f"{version.major}.{version.minor}.{version.patch}"


def cpu_model() -> str:
    """The processor's name as Linux knows it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def core_count() -> int:
    """The cores that this process may run on; hyper-threads of one core count once."""

    def core(cpu: int) -> str:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        return siblings.read_text() if siblings.exists() else str(cpu)

    return len(set(map(core, os.sched_getaffinity(0))))


def commit() -> str | None:
    """The commit of a working tree, marked if files differ; None for an installed package."""
    git = ["git", "-C", str(PACKAGE), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(git, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def describe() -> dict[str, str | int | bool | None]:
    """All of it, in the order of printing; None where there is none."""
    return {
        "fused_rnn": fused_rnn.__version__,
        "commit": commit(),
        "mxnet": mx.__version__,
        "numpy": np.__version__,
        "oneDNN": onednn_version(),
        "python": platform.python_version(),
        "cpu": cpu_model(),
        "isa": _core.isa(),
        "gemm": _core.gemm_backend(),
        "threads": _core.num_threads(),
        "installed": fused_rnn.installed(),
    }
