"""The core's gradients: against central differences, against the reference for larger sizes, and
its requests.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import reference
from helpers import (
    check,
    check_gradients,
    core_backward,
    core_forward,
    core_gradients,
    make,
)
from reference import CELLS, LSTMS, Gradients

DTYPES = ("float64", "float32")
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33)
NAMES = ("dx", "dparams", "dh0", "dc0")


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("L", [1, 2, 3, 4])
@pytest.mark.parametrize("mode", CELLS)
def test_gradients_are_central_differences(mode, L, D):
    for sizes in ({"I": 3, "H": 4}, {"T": 3, "I": 4, "H": 5}):
        problem = make(mode, L=L, D=D, **sizes)
        actual = core_gradients(problem)
        for name, a, e in zip(NAMES, actual, problem.numeric_gradients()):
            if e is not None:
                np.testing.assert_allclose(a, e, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("L", [1, 2, 3])
@pytest.mark.parametrize("mode", CELLS)
def test_gradients(mode, L, D, dtype):
    for I, H in ((10, 5), (5, 10), (6, 6)):
        problem = make(mode, I=I, H=H, L=L, D=D, dtype=dtype)
        check_gradients(core_gradients(problem, dtype), problem.gradients(), problem.shape, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("H", SIZES)
@pytest.mark.parametrize("mode", CELLS)
def test_sizes(mode, H, dtype):
    for N in SIZES:
        problem = make(mode, T=2, N=N, I=H % 5 + 1, H=H, dtype=dtype)
        check_gradients(core_gradients(problem, dtype), problem.gradients(), problem.shape, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", CELLS)
def test_every_size_one_or_two(mode, dtype):
    for T, N, I, H in np.ndindex(2, 2, 2, 2):
        problem = make(mode, T + 1, N + 1, I + 1, H + 1, L=2, D=2, dtype=dtype)
        check_gradients(core_gradients(problem, dtype), problem.gradients(), problem.shape, dtype)


@pytest.mark.parametrize("mode", CELLS)
def test_long_sequences_of_one_unit(mode):
    problem = make(mode, T=1024, N=4, I=4, H=1)
    expected = problem.gradients()
    for _ in range(10):  # a write past a buffer of size 1 shows in a later call
        check_gradients(core_gradients(problem), expected, problem.shape)


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("L", [2, 3])
@pytest.mark.parametrize("mode", CELLS)
def test_bias_gradients_reach_every_layer(mode, L, D):
    problem = make(mode, T=3, I=4, H=5, L=L, D=D)
    parts = reference.unpack(problem.shape, core_gradients(problem)[1])
    for l, d in problem.shape.cells():
        input_side, recurrent_side = parts[l, d, "bW"], parts[l, d, "bR"]
        assert np.abs(input_side).min() > 0 or mode == "rnn_relu"
        assert np.abs(input_side).max() > 0
        same = (
            2 * 5 if mode == "gru" else len(input_side)
        )  # the reset gate multiplies n's recurrent side only
        np.testing.assert_allclose(input_side[:same], recurrent_side[:same], rtol=1e-12)
        if mode == "gru":
            assert not np.allclose(input_side[same:], recurrent_side[same:])


def test_gru_uses_the_gates_and_not_their_inputs():
    """Large weights saturate the gates: a stored pre-activation taken for a gate gives other
    gradients.
    """
    problem = make("gru", T=4)
    problem.params *= 3
    for name, a, e in zip(NAMES, core_gradients(problem), problem.numeric_gradients()):
        if e is not None:
            np.testing.assert_allclose(a, e, rtol=1e-6, atol=1e-7, err_msg=name)


HEADS = ("dy", "dhN", "dcN")


@pytest.mark.parametrize("mode", CELLS)
def test_missing_head_gradients_are_zero(mode):
    problem = make(mode, L=2, D=2)
    heads = HEADS if mode in LSTMS else HEADS[:2]
    for count in range(len(heads)):
        for given in itertools.combinations(heads, count):
            partial = problem.replace(**{name: None for name in HEADS if name not in given})
            check_gradients(core_gradients(partial), partial.gradients(), problem.shape)


@pytest.mark.parametrize("mode", CELLS)
def test_head_gradient_of_one_direction(mode):
    for unused in (slice(0, 4), slice(4, 8)):
        problem = make(mode, L=2, D=2)
        problem.dy[..., unused] = 0
        partial = problem.replace(dhN=None, dcN=None)
        check_gradients(core_gradients(partial), partial.gradients(), problem.shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", CELLS)
def test_every_mix_of_requests(mode, dtype):
    """null leaves an array untouched, write overwrites it, add adds to it."""
    problem = make(mode, L=2, D=2, dtype=dtype)
    y, _, _, reserve = core_forward(problem, dtype, training=True)
    expected = problem.gradients()
    names = NAMES if mode in LSTMS else NAMES[:3]
    for requests in itertools.product(("null", "write", "add"), repeat=len(names)):
        given = {name: np.full(getattr(expected, name).shape, 7, dtype) for name in names}
        reqs = {f"{name}_req": request for name, request in zip(names, requests)}
        result = core_backward(problem, y, reserve, dtype, **given, **reqs)
        for name, request, returned in zip(names, requests, result):
            if request == "null":
                assert returned is None
                assert np.all(given[name] == 7), (name, requests)
                continue
            assert returned is given[name]
            target = getattr(expected, name) + (7 if request == "add" else 0)
            check(returned, target, problem.shape, dtype, gradient=True, what=f"{name} {requests}")


@pytest.mark.parametrize("mode", CELLS)
def test_backward_runs_again_on_the_same_reserve(mode):
    problem = make(mode, L=3, D=2)
    y, _, _, reserve = core_forward(problem, training=True)
    frozen = y.copy(), reserve.copy()
    expected = problem.gradients()
    sums = [None if e is None else np.full(e.shape, 7.0) for e in expected]
    given = {name: array for name, array in zip(NAMES, sums) if array is not None}
    requests = {f"{name}_req": "add" for name in given}
    for k in (1, 2):
        core_backward(problem, y, reserve, **given, **requests)
        target = Gradients(*(None if e is None else 7 + k * e for e in expected))
        check_gradients(sums, target, problem.shape)
    np.testing.assert_array_equal(y, frozen[0])
    np.testing.assert_array_equal(reserve, frozen[1])


def test_backward_allocates_what_is_not_given():
    problem = make("gru", D=2)
    dx, dparams, dh0, dc0 = core_gradients(problem)
    assert dc0 is None
    check_gradients((dx, dparams, dh0, None), problem.gradients(), problem.shape)


@pytest.mark.parametrize("mode", CELLS)
def test_precisions_alternate_in_one_process(mode):
    for dtype in DTYPES * 2:
        problem = make(mode, L=2, D=2, dtype=dtype)
        check_gradients(core_gradients(problem, dtype), problem.gradients(), problem.shape, dtype)


def test_a_nan_head_gradient_stays_in_its_sample():
    problem = make("lstm", N=3, L=2, D=2)
    problem.dy[0, 1, 0] = np.nan
    dx = core_gradients(problem)[0]
    expected = problem.gradients().dx
    np.testing.assert_array_equal(np.isnan(dx), np.isnan(expected))
    well = [0, 2]
    check(dx[:, well], expected[:, well], problem.shape, gradient=True, what="dx")
