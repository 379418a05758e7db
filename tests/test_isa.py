"""Every instruction set that the CPU has passes the core's tests; the variable that caps it is
checked.
"""

from __future__ import annotations

import pytest
from helpers import (
    check_gradients,
    check_outputs,
    core_forward,
    core_gradients,
    make,
    run,
    run_tests,
)

from fused_rnn import _core

LEVELS = _core.isas()


@pytest.mark.parametrize("level", LEVELS)
def test_level(level):
    """In a process where fresh memory holds huge numbers, so that a value which nobody wrote
    shows.
    """
    run_tests(
        "test_core_forward.py",
        "test_core_backward.py",
        "test_fuzz.py",
        "test_isa.py::test_long_wide_sequence",
        f"test_isa.py::test_this_process_uses[{level}]",
        FUSED_RNN_MAX_ISA=level,
        MALLOC_PERTURB_="128",
    )


@pytest.mark.parametrize("level", LEVELS)
def test_this_process_uses(level):
    if level != _core.isa():
        pytest.skip(f"this process uses {_core.isa()}; test_level starts one for each level")


def test_long_wide_sequence():
    problem = make("lstm", T=101, N=2, I=256, H=256, D=2, dtype="float32")
    check_outputs(core_forward(problem, "float32"), problem.outputs(), problem.shape, "float32")
    check_gradients(
        core_gradients(problem, "float32"), problem.gradients(), problem.shape, "float32"
    )


def test_an_unknown_level_is_an_error():
    code = (
        "from helpers import core_forward, make\n"
        "try:\n"
        "    core_forward(make('lstm'))\n"
        "except ValueError as error:\n"
        "    print('refused:', error)\n"
    )
    output = run(["-c", code], FUSED_RNN_MAX_ISA="avx3").stdout
    assert "FUSED_RNN_MAX_ISA" in output
    assert "avx3" in output
    assert all(level in output for level in LEVELS), output
