"""Results do not depend on the number of threads, on who else computes, or on a fork."""

from __future__ import annotations

import concurrent.futures

import numpy as np
import pytest
from helpers import (
    check_gradients,
    check_outputs,
    core_backward,
    core_forward,
    core_gradients,
    make,
    run_code,
)
from reference import CELLS

from fused_rnn import _core

# Enough work that a call uses several threads, and not a multiple of any number of them.
SIZES = {"T": 7, "N": 21, "I": 19, "H": 70, "L": 2, "D": 2}


@pytest.fixture(autouse=True)
def default_threads():
    yield
    _core.set_num_threads(0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("mode", CELLS)
def test_number_of_threads(mode, dtype):
    problem = make(mode, **SIZES, dtype=dtype)
    outputs, gradients = problem.outputs(), problem.gradients()
    for threads in (1, 2, 3, 8):
        _core.set_num_threads(threads)
        assert _core.num_threads() == threads
        y, hN, cN, reserve = core_forward(problem, dtype, training=True)
        check_outputs((y, hN, cN), outputs, problem.shape, dtype)
        check_gradients(core_backward(problem, y, reserve, dtype), gradients, problem.shape, dtype)


SIXTEEN_THREADS = """
from fused_rnn import _core
from helpers import check_gradients, check_outputs, make, operator_gradients

assert _core.num_threads() == 16
steps = {"rnn_relu": 16, "rnn_tanh": 16, "lstm": 5, "gru": 6}
steps.update(lstm_peephole=5, gru_reset_before=6)
for mode, T in steps.items():
    for D in (1, 2):
        problem = make(mode, T=T, N=12, I=40, H=512, D=D, lengths=[*range(T - 3, T + 1)] * 3)
        outputs, gradients = operator_gradients(problem, "float32")
        check_outputs(outputs, problem.outputs(), problem.shape, "float32")
        check_gradients(gradients, problem.gradients(), problem.shape, "float32")
        for threads in (1, 2, 3, 4, 7, 8):
            _core.set_num_threads(threads)
            again = operator_gradients(problem, "float32")
            assert [a.tobytes() for a in again[0]] == [a.tobytes() for a in outputs]
            assert [a.tobytes() for a in again[1]] == [a.tobytes() for a in gradients]
        _core.set_num_threads(0)
"""


def test_sixteen_threads_give_the_bits_of_one():
    """Of a size that has work for all of them, in teams of several sizes."""
    run_code(SIXTEEN_THREADS, OMP_NUM_THREADS="16", OMP_WAIT_POLICY="passive")


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_threads_may_change_between_forward_and_backward(threads):
    problem = make("lstm", **SIZES)
    _core.set_num_threads(threads)
    y, _, _, reserve = core_forward(problem, training=True)
    _core.set_num_threads(9 - threads)
    check_gradients(core_backward(problem, y, reserve), problem.gradients(), problem.shape)


@pytest.mark.parametrize("mode", CELLS)
def test_a_repeated_call_gives_the_same_bits(mode):
    for dtype in ("float64", "float32"):
        problem = make(mode, **SIZES, dtype=dtype)
        first = [*core_forward(problem, dtype)[:3], *core_gradients(problem, dtype)]
        again = [*core_forward(problem, dtype)[:3], *core_gradients(problem, dtype)]
        for a, b in zip(first, again):
            np.testing.assert_array_equal(a, b)


def test_default_number_of_threads_is_restored_by_zero():
    default = _core.num_threads()
    assert default >= 1
    _core.set_num_threads(default + 3)
    _core.set_num_threads(0)
    assert _core.num_threads() == default
    with pytest.raises(ValueError, match="-1"):
        _core.set_num_threads(-1)


def test_callers_on_several_threads():
    """Concurrent calls with shapes and modes of their own; none sees another's buffers."""
    problems = [make(mode, T=6, N=5 + k, I=9, H=30 + k, L=2, D=2) for k, mode in enumerate(CELLS)]
    expected = [(problem.outputs(), problem.gradients()) for problem in problems]

    def repeat(k: int) -> None:
        problem = problems[k % len(problems)]
        outputs, gradients = expected[k % len(problems)]
        for _ in range(10):
            y, hN, cN, reserve = core_forward(problem, training=True)
            check_outputs((y, hN, cN), outputs, problem.shape)
            check_gradients(core_backward(problem, y, reserve), gradients, problem.shape)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(repeat, k) for k in range(8)]:
            done.result(timeout=120)


FORK = """
import multiprocessing
import mxnet as mx
import fused_rnn
from helpers import check_gradients, check_outputs, core_forward, make, operator_gradients

problem = make("lstm", T=5, N=20, I=30, H=128, dtype="float32")

def compute(_):
    outputs, gradients = operator_gradients(problem, "float32")
    return core_forward(problem, "float32")[:3], outputs, gradients

results = [compute(0)]  # starts the parent's threads
with multiprocessing.get_context("fork").Pool(2) as pool:
    results += pool.map_async(compute, range(4)).get(timeout=60)
results.append(compute(0))
for core, outputs, gradients in results:
    check_outputs(core, problem.outputs(), problem.shape, "float32")
    check_outputs(outputs, problem.outputs(), problem.shape, "float32")
    check_gradients(gradients, problem.gradients(), problem.shape, "float32")
print("same")
"""


def test_a_forked_child_computes_the_parents_values():
    assert "same" in run_code(FORK)
