"""The reference itself: its backward against central differences, its layout, its agreement with
the native operator.
"""

from __future__ import annotations

import collections

import mxnet as mx
import numpy as np
import pytest
import reference
from helpers import check_gradients, check_outputs, make, operator_forward, operator_gradients
from reference import CELLS, LSTMS, MODES, Shape

FEATURES = {
    "plain": {},
    "lengths": {"lengths": [5, 2, 0]},
    "clip": {"clip": (-0.2, 0.3)},
    "masks": {"masks": True},
    "everything": {"lengths": [1, 5, 3], "clip": (-0.3, 0.2), "masks": True},
}


def with_masks(problem):
    """Replaces a request for masks by masks."""
    options = dict(problem.options)
    if options.pop("masks", None):
        shape = problem.shape
        rng = np.random.default_rng(7)
        size = (shape.T, shape.N, shape.D * shape.S)
        options["masks"] = [2.0 * (rng.random(size) < 0.5) for _ in range(shape.L - 1)]
    return problem.replace(options=options)


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("L", [1, 3])
@pytest.mark.parametrize("mode", CELLS)
def test_backward_is_the_derivative_of_forward(mode, L, D, feature):
    for P in (0, 2) if mode in LSTMS else (0,):
        problem = with_masks(make(mode, T=5, N=3, I=3, H=4, L=L, D=D, P=P, **FEATURES[feature]))
        if mode not in LSTMS:
            problem.options.pop("clip", None)
        for analytic, numeric in zip(problem.gradients(), problem.numeric_gradients()):
            if analytic is not None:
                np.testing.assert_allclose(analytic, numeric, rtol=1e-7, atol=1e-8)


def test_parameters_are_weights_first_then_biases():
    shape = Shape("lstm", T=1, N=1, I=3, H=2, L=2, D=2, P=1)
    vector = np.arange(shape.param_count, dtype=float)
    parts = reference.unpack(shape, vector)
    assert shape.param_count == 2 * (8 * (3 + 1) + 2) + 2 * (8 * (2 + 1) + 2) + 4 * 2 * 8
    assert parts[0, 0, "W"][0, 0] == 0
    assert parts[0, 0, "R"][0, 0] == 24
    assert parts[0, 0, "Wp"][0, 0] == 32
    assert parts[0, 1, "W"][0, 0] == 34
    assert parts[1, 0, "W"].shape == (8, 2)
    assert parts[0, 0, "bW"][0] == 2 * 34 + 2 * 26
    assert parts[1, 1, "bR"][-1] == shape.param_count - 1
    np.testing.assert_array_equal(reference.pack(shape, parts), vector)


def test_peepholes_come_after_the_biases():
    shape = Shape("lstm_peephole", T=1, N=1, I=3, H=2, L=2, D=2, P=1)
    plain = Shape("lstm", T=1, N=1, I=3, H=2, L=2, D=2, P=1).param_count
    vector = np.arange(shape.param_count, dtype=float)
    parts = reference.unpack(shape, vector)
    assert shape.param_count == plain + 4 * 6
    assert [parts[l, d, "p"][0] - plain for l, d in shape.cells()] == [0, 6, 12, 18]
    np.testing.assert_array_equal(reference.pack(shape, parts), vector)


def test_one_step_by_hand():
    """The cells once more, as sums of numbers."""
    x, h, c = 0.7, -0.4, 0.9
    w = np.array([0.3, -0.2, 0.5, 0.8])
    r = np.array([-0.6, 0.4, 0.2, -0.1])
    bw = np.array([0.1, 0.2, -0.3, 0.4])
    br = np.array([-0.2, 0.3, 0.1, 0.25])

    def s(value):
        return 1 / (1 + np.exp(-value))

    def run(mode, gates):
        shape = Shape(mode, 1, 1, 1, 1)
        params = np.concatenate([*(v[:gates] for v in (w, r, bw, br)), peepholes[mode]])
        c0 = np.full((1, 1, 1), c) if mode in LSTMS else None
        return reference.forward(shape, np.full((1, 1, 1), x), params, np.full((1, 1, 1), h), c0)

    peepholes = collections.defaultdict(list, lstm_peephole=[0.5, -0.3, 0.7])

    a, b = w * x + bw, r * h + br
    assert run("rnn_tanh", 1).y.item() == pytest.approx(np.tanh(a[0] + b[0]), rel=1e-15)
    assert run("rnn_relu", 1).y.item() == pytest.approx(max(0, a[0] + b[0]), rel=1e-15)
    cell = s(a[1] + b[1]) * c + s(a[0] + b[0]) * np.tanh(a[2] + b[2])
    assert run("lstm", 4).cN.item() == pytest.approx(cell, rel=1e-15)
    assert run("lstm", 4).y.item() == pytest.approx(s(a[3] + b[3]) * np.tanh(cell), rel=1e-15)
    z = s(a[1] + b[1])
    new = np.tanh(a[2] + s(a[0] + b[0]) * b[2])
    assert run("gru", 3).y.item() == pytest.approx((1 - z) * new + z * h, rel=1e-15)
    new = np.tanh(a[2] + r[2] * (s(a[0] + b[0]) * h) + br[2])
    expected = pytest.approx((1 - z) * new + z * h, rel=1e-15)
    assert run("gru_reset_before", 3).y.item() == expected
    i, f = s(a[0] + b[0] + 0.5 * c), s(a[1] + b[1] - 0.3 * c)
    cell = f * c + i * np.tanh(a[2] + b[2])
    assert run("lstm_peephole", 4).cN.item() == pytest.approx(cell, rel=1e-15)
    hidden = s(a[3] + b[3] + 0.7 * cell) * np.tanh(cell)
    assert run("lstm_peephole", 4).y.item() == pytest.approx(hidden, rel=1e-15)


def test_a_padded_sample_is_its_own_shorter_run():
    for mode in CELLS:
        padded = make(mode, T=6, N=1, L=2, D=2, lengths=[4])
        padded.x[4:] = np.nan
        short = padded.replace(shape=Shape(mode, 4, 1, 3, 4, 2, 2), x=padded.x[:4], options={})
        for long, expected in zip(padded.outputs(), short.outputs()):
            if expected is not None:
                np.testing.assert_array_equal(long[:4], expected)
        assert not padded.outputs().y[4:].any()


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("L", [1, 3])
@pytest.mark.parametrize("mode", MODES)
def test_the_native_operator_agrees_where_it_is_right(mode, L, D):
    """float32 on its oneDNN path: forward and every gradient. A second judge that shares nothing
    with the reference.
    """
    problem = make(mode, L=L, D=D, dtype="float32")
    outputs, gradients = operator_gradients(problem, "float32", op=mx.nd.RNN)
    check_outputs(outputs, problem.outputs(), problem.shape, "float32")
    check_gradients(gradients, problem.gradients(), problem.shape, "float32")
    # double, forward; relu is left out: natively it is float32-accurate
    if mode != "rnn_relu":
        problem = make(mode, L=L, D=D)
        check_outputs(operator_forward(problem, op=mx.nd.RNN), problem.outputs(), problem.shape)
