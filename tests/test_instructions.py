"""tools/check_instructions.py finds what it is to find; `make test` runs it on the real build."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import TESTS

TOOL = TESTS.parent / "tools" / "check_instructions.py"
CONVERT = """
#include <immintrin.h>
float Widen(unsigned short half) { return _cvtsh_ss(half); }
"""
COUNT = "int Count(unsigned long x) { return __builtin_popcountl(x); }"
PLAIN = "float Sum(float a, float b) { return a + b; }"
TRAILING_ZEROS = "int Trailing(unsigned x) { return x == 0 ? 32 : __builtin_ctz(x); }"
AVX2 = "avx sse3 ssse3 sse4.1 sse4.2 popcnt xsave"
REQUIRED = {"scalar": "", "avx2": AVX2, "avx512": AVX2 + " avx512f"}


def build_folder(folder: Path, code: str, options=(), target="rnn", required=REQUIRED) -> Path:
    """As CMake makes one, of one object and a cpu_test."""
    source, output = folder / "one.cc", f"CMakeFiles/{target}.dir/one.cc.o"
    source.write_text(code)
    (folder / output).parent.mkdir(parents=True)
    command = ["g++", "-O2", *options, "-o", output, "-c", str(source)]
    subprocess.run(command, cwd=folder, check=True)
    entry = {"directory": str(folder), "command": " ".join(command), "output": output}
    (folder / "compile_commands.json").write_text(json.dumps([entry]))
    program = folder / "cpu_test"
    lines = "".join(f"echo '{isa}: {names}'\n" for isa, names in required.items())
    program.write_text(f"#!/bin/sh\n{lines}echo '7 checks passed'\n")
    program.chmod(0o755)
    return folder


def check(folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, str(TOOL), folder.name],
        cwd=folder.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def test_a_planted_instruction_is_named(tmp_path):
    folder = build_folder(tmp_path, CONVERT, ["-mf16c"], "kernels_avx2")
    code, printed = check(folder)
    assert code == 1
    (held, let) = (line for line in printed.splitlines() if "f16c is not asked" in line)
    assert "vcvtph2ps" in held
    assert "-mf16c" in let


def test_what_is_asked_of_the_cpu_may_be_used(tmp_path):
    required = {**REQUIRED, "avx2": REQUIRED["avx2"] + " f16c"}
    folder = build_folder(tmp_path, CONVERT, ["-mf16c"], "kernels_avx2", required)
    assert check(folder)[0] == 0


@pytest.mark.parametrize("target", ["rnn", "kernels_scalar"])
def test_other_objects_are_of_the_baseline(tmp_path, target):
    folder = build_folder(tmp_path, COUNT, ["-mpopcnt"], target)
    code, printed = check(folder)
    assert code == 1
    assert "popcnt is not asked" in printed
    assert f"{target}.dir" in printed


def test_options_count_without_an_instruction(tmp_path):
    folder = build_folder(tmp_path, PLAIN, ["-mbmi2"], "kernels_avx2")
    code, printed = check(folder)
    assert code == 1
    assert "bmi2 is not asked of the CPU: -mbmi2" in printed


@pytest.mark.parametrize("code", [PLAIN, TRAILING_ZEROS])
def test_the_baseline_passes(tmp_path, code):
    assert check(build_folder(tmp_path, code)) == (
        0,
        "3 instruction sets, 0 uses of what the CPU is not asked for\n",
    )
