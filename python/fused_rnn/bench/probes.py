"""What the processor can do at most, measured: the roofs of the roofline."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fused_rnn import _core
from fused_rnn.bench import environment

ISAS = ("scalar", "avx2", "avx512")
SECONDS = 0.03  # of one probe
_PEAK = "from fused_rnn import _core; print(_core.isa(), _core.fma_peak('{}', {}, 0.2))"


def fma_peak(dtype: str, threads: int) -> float:
    """GFLOP/s that the threads reach now. 16-bit types are computed in float32."""
    return _core.fma_peak("float64" if dtype == "float64" else "float32", threads, SECONDS)


@functools.lru_cache(maxsize=None)
def read_bandwidth(size: int, threads: int) -> float:
    """GB/s of reading a buffer of that size again and again; the best of five."""
    smallest = 1 << 16
    return max(_core.read_bandwidth(max(size, smallest), threads, SECONDS) for _ in range(5))


def peaks_by_isa(threads: int) -> dict[str, dict[str, float]]:
    """GFLOP/s by instruction set and type; each set in a process of its own, which is held to it."""
    result: dict[str, dict[str, float]] = {}
    for isa in ISAS:
        variables = {**os.environ, "FUSED_RNN_MAX_ISA": isa}
        variables["PYTHONPATH"] = str(environment.PACKAGE.parent)
        for dtype in ("float32", "float64"):
            code = _PEAK.format(dtype, threads)
            done = subprocess.run(
                [sys.executable, "-c", code], env=variables, capture_output=True, text=True
            )
            if done.returncode != 0:
                raise RuntimeError(f"FMA peak of {isa}: {done.stderr.strip()}")
            used, peak = done.stdout.split()
            if used == isa:  # else this processor lacks it
                result.setdefault(isa, {})[dtype] = float(peak)
    return result


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
