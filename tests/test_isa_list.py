"""An entry in src/base/isas.def is all that an instruction set needs: a build of the kernel tests
with one more (AVX2 under another name) chooses it, and tests all its kernels.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from helpers import TESTS

from fused_rnn import _core

pytestmark = pytest.mark.skipif("avx2" not in _core.isas(), reason="the processor has no AVX2")


def run(*command, **env) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_an_entry_is_all_it_takes(tmp_path):
    cmake = [sys.executable, "-m", "cmake"]
    options = ["-DFUSED_RNN_PYTHON=OFF", "-DFUSED_RNN_TEST_ISA=ON"]
    prefix = f"-DCMAKE_PREFIX_PATH={sys.prefix}"
    run(*cmake, "-S", TESTS.parent, "-B", tmp_path, "-G", "Ninja", *options, prefix)
    run(*cmake, "--build", tmp_path, "--target", "kernel_test")
    output = run(tmp_path / "kernel_test", FUSED_RNN_MAX_ISA="avx2_test")
    assert "in use: avx2_test\n" in output
    tested, again = (
        {line[len(isa) :] for line in output.splitlines() if line.startswith(f"{isa} ")}
        for isa in ("avx2", "avx2_test")
    )
    assert len(tested) > 10
    assert tested == again
