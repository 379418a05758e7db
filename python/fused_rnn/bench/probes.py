"""What the processor can do at most, measured: the roofs of the roofline."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterable

from fused_rnn import _core

SECONDS = 0.03  # of one probe
# Loads the core alone: importing the package would import MXNet.
_PEAKS = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("_core", sys.argv[1])
core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
peaks = {dtype: core.fma_peak(dtype, int(sys.argv[2]), 0.2) for dtype in ("float32", "float64")}
print(json.dumps(peaks))
"""


def fma_peak(dtype: str, threads: int) -> float:
    """GFLOP/s that the threads reach now. 16-bit types are computed in float32."""
    return _core.fma_peak("float64" if dtype == "float64" else "float32", threads, SECONDS)


@functools.lru_cache(maxsize=None)
def read_bandwidth(size: int, threads: int) -> float:
    """GB/s of reading a buffer of that size again and again; the best of five."""
    smallest = 1 << 16
    return max(_core.read_bandwidth(max(size, smallest), threads, SECONDS) for _ in range(5))


def peaks_by_isa(threads: int) -> dict[str, dict[str, float]]:
    """GFLOP/s by instruction set and type; a process for each set, since it is chosen only once."""
    result = {}
    for isa in _core.isas():
        done = subprocess.run(
            [sys.executable, "-c", _PEAKS, _core.__file__, str(threads)],
            env={**os.environ, "FUSED_RNN_MAX_ISA": isa},
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise RuntimeError(f"FMA peak of {isa}: {done.stderr.strip()}")
        result[isa] = json.loads(done.stdout)
    return result


class Neighbours:
    """How much of the processors others take: a library whose threads spin for each other can be
    many times slower beside a busy process, so that a ratio means little then.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self.pids = [os.getpid(), *pids]
        self.share()

    def share(self) -> float:
        """Of all processors' time since the last call, what neither these processes nor idleness
        took. Time that a hypervisor gave to other machines counts.
        """
        now = (*_machine_ticks(), sum(map(_process_ticks, self.pids)))
        before, self.ticks = getattr(self, "ticks", now), now
        total, busy, own = (new - old for new, old in zip(now, before))
        return max(0.0, (busy - own) / total) if total else 0.0


def _machine_ticks() -> tuple[int, int]:
    """In all, and of those not idle."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return sum(fields), sum(fields) - fields[3] - fields[4]  # idle, waiting for a disk


def _process_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])  # in user mode, in the kernel


def cache_sizes() -> dict[str, int]:
    """Bytes of the data caches of the first processor, by level."""
    sizes = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        if (index / "type").read_text().strip() != "Instruction":
            size = (index / "size").read_text().strip()  # as in 512K
            sizes["L" + (index / "level").read_text().strip()] = int(size[:-1]) << 10
    return dict(sorted(sizes.items()))


def bandwidths(threads: int) -> dict[str, dict[str, float]]:
    """GB/s by level: buffers that fill half of the threads' own caches, half of the shared last
    one, and eight times that.
    """
    caches = cache_sizes()
    last = max(caches)
    sizes = {name: size * threads // 2 for name, size in caches.items() if name not in ("L1", last)}
    sizes[last] = caches[last] // 2
    sizes["DRAM"] = min(8 * caches[last], 512 << 20)
    return {
        name: {"bytes": size, "gbs": read_bandwidth(size, threads)} for name, size in sizes.items()
    }


def measure(threads: int) -> dict[str, Any]:
    """All of it."""
    return {
        "threads": threads,
        "fma_peak_gflops": peaks_by_isa(threads),
        "caches_bytes": cache_sizes(),
        "read_bandwidth": bandwidths(threads),
    }
