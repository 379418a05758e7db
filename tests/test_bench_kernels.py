"""The benchmark of single kernels, as a trial whose figures mean nothing, and its page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build" / "dev" / "bench_kernels"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="bench_kernels is not built")

PANELS = {"tile", "row", "pack", "pack_transposed"}
KINDS = {
    **dict.fromkeys(("float32", "float64"), PANELS | {"gates", "sigmoid", "tanh", "product"}),
    **dict.fromkeys(("float16", "bfloat16"), PANELS | {"widen", "narrow"}),
}
# Takes perf's place: so many instructions for each of the kernel's calls, and as many for the rest.
PERF = """#!/bin/sh
shift 4
"$@" || exit 1
for calls; do :; done
for event in instructions cycles L1-dcache-load-misses; do
  echo "$((1000 + 1000 * calls)),,$event:u,1,100.00,," >&2
done
"""


def quick(*options: str) -> dict:
    done = subprocess.run([str(PROGRAM), "--quick", *options], check=True, capture_output=True)
    return json.loads(done.stdout)


def test_program_measures_every_kind():
    report = quick()
    kinds = {dtype: set() for dtype in KINDS}
    for kind, dtype, _ in (entry["name"].split("/") for entry in report["entries"]):
        kinds[dtype].add(kind)
    assert kinds == KINDS
    for entry in report["entries"]:
        timed = {name: value for name, value in entry.items() if name != "name"}
        assert timed.keys() & {"fma", "read"}, entry  # a probe
        assert all(each["work"] > 0 and len(each["seconds"]) == 1 for each in timed.values())


def test_program_measures_what_is_asked_for():
    names = [entry["name"] for entry in quick("--only", "tile/float32/1")["entries"]]
    assert names == ["tile/float32/1"]
    names = [entry["name"] for entry in quick("--only", "pack")["entries"]]
    assert names and all(name.startswith("pack/") for name in names)


def test_program_rejects_other_options():
    done = subprocess.run([str(PROGRAM), "--slow"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "expected" in done.stderr and "--slow" in done.stderr


def test_page(tmp_path):
    perf = tmp_path / "perf"
    perf.write_text(PERF)
    perf.chmod(0o755)
    page = tmp_path / "kernels.md"
    command = [sys.executable, str(ROOT / "tools" / "kernels_page.py"), "--quick"]
    subprocess.run(
        [*command, "--page", str(page), str(PROGRAM), str(PROGRAM)],
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    text = page.read_text()
    isa = quick("--only", "row")["isa"]
    assert re.search(rf"^## Tiles, {isa}: ", text, re.MULTILINE)
    assert re.search(r"^\| float32 \| dW \| - \| \d+ GFLOP/s, \d+% .* \| \d+ GFLOP/s", text, re.M)
    # 64000 bytes are 1000 lines, of which each call of the stand-in misses all.
    assert re.search(rf"^\| {isa} \| row/float32/64000 \| \S+ \| 1\.00 \| 1\.00 \|$", text, re.M)


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_counters_of_valgrind(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from kernel_counters import counters_of_call

    counts = counters_of_call("valgrind", PROGRAM, [], "row/float32/64000", "scalar")
    assert counts["first-level misses"] == pytest.approx(1000, rel=0.1)  # lines of the weights
    assert counts["instructions"] > 16000 / 4  # vector multiply-adds
