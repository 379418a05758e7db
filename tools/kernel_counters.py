"""Instructions and cache misses of kernels: by the processor's counters if perf can read them, else
by valgrind's simulation.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

# Command by tool, and where its output has which counter.
TOOLS = {
    "perf": (
        ["perf", "stat", "-x,", "-e", "instructions:u,cycles:u,L1-dcache-load-misses:u"],
        {
            "instructions": r"^(\d+),[^,]*,instructions",
            "cycles": r"^(\d+),[^,]*,cycles",
            "first-level misses": r"^(\d+),[^,]*,L1-dcache-load-misses",
        },
    ),
    "valgrind": (
        ["valgrind", "--tool=cachegrind", "--cache-sim=yes"],  # writes a file where it runs
        {
            "instructions": r"I\s+refs:\s+([\d,]+)",
            "first-level misses": r"D1\s+misses:\s+([\d,]+)",
            "last-level misses": r"LLd misses:\s+([\d,]+)",
        },
    ),
}
CALLS = (1, 11)  # what the later ones add is the kernel's


def counters_of_call(
    tool: str, program: Path, options: list[str], name: str, isa: str
) -> dict[str, float]:
    """Of one call of the kernel that bench_kernels knows by `name`; empty if the tool is not there,
    or lacks the counters or the instruction set.
    """
    command, patterns = TOOLS[tool]
    if not shutil.which(command[0]):
        return {}
    counts = []
    for calls in CALLS:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [*command, str(program.resolve()), *options, "--only", name, "--calls", str(calls)],
                env={**os.environ, "FUSED_RNN_MAX_ISA": isa},
                cwd=folder,
                capture_output=True,
                text=True,
            )
        found = {key: re.search(p, done.stderr, re.MULTILINE) for key, p in patterns.items()}
        if done.returncode != 0 or f'"isa": "{isa}"' not in done.stdout or None in found.values():
            return {}
        counts.append({key: int(match[1].replace(",", "")) for key, match in found.items()})
    few, many = counts
    return {key: (many[key] - few[key]) / (CALLS[1] - CALLS[0]) for key in patterns}
