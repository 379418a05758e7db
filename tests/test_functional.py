"""fused_rnn.functional: the core for users of NumPy."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from helpers import check, check_gradients, check_outputs, make
from reference import CELLS, LSTMS, Gradients

from fused_rnn import _core, functional

FUNCTIONS = {
    "lstm": functional.lstm,
    "gru": functional.gru,
    "rnn_tanh": functional.rnn,
    "rnn_relu": functional.rnn,
    "lstm_peephole": functools.partial(functional.lstm, peephole=True),
    "gru_reset_before": functools.partial(functional.gru, reset_after=False),
}


def call(problem, dtype="float64", **extra):
    shape, options = problem.shape, problem.options
    keywords = {"num_layers": shape.L, "bidirectional": shape.D == 2}
    if shape.mode.startswith("rnn"):
        keywords["activation"] = shape.mode[4:]
    if shape.P:
        keywords["projection_size"] = shape.P
    if "clip" in options:
        keywords["clip_min"], keywords["clip_max"] = options["clip"]
    if "lengths" in options:
        keywords["lengths"] = options["lengths"]
    inputs = [value.astype(dtype) for value in problem.inputs]
    return FUNCTIONS[shape.mode](*inputs, **{**keywords, **extra})


def heads(problem, dtype="float64"):
    return [head.astype(dtype) for head in problem.heads]


CASES = [
    (mode, options)
    for mode in CELLS
    for options in ({}, {"L": 3, "D": 2}, {"L": 2, "D": 2, "N": 3, "lengths": [5, 0, 2]})
] + [(mode, {"L": 2, "D": 2, "P": 2, "clip": (-0.3, 0.4)}) for mode in LSTMS]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("mode, options", CASES)
def test_outputs_and_gradients(mode, options, dtype):
    problem = make(mode, dtype=dtype, **options)
    outputs = call(problem, dtype, training=True)
    assert all(output.dtype == dtype for output in outputs)
    check_outputs(outputs, problem.outputs(), problem.shape, dtype)
    gradients = outputs.backward(*heads(problem, dtype))
    check_gradients(gradients, problem.gradients(), problem.shape, dtype)
    for trained, predicted in zip(outputs, call(problem, dtype)):
        np.testing.assert_array_equal(trained, predicted)


@pytest.mark.parametrize("mode", CELLS)
def test_states_are_zero_by_default(mode):
    problem = make(mode, L=2, D=2)
    zero = problem.replace(h0=problem.h0 * 0, c0=None if problem.c0 is None else problem.c0 * 0)
    activation = {"activation": mode[4:]} if mode.startswith("rnn") else {}
    outputs = FUNCTIONS[mode](
        problem.x,
        problem.params,
        hidden_size=4,
        num_layers=2,
        bidirectional=True,
        training=True,
        **activation,
    )
    check_outputs(outputs, zero.outputs(), zero.shape)
    check_gradients(outputs.backward(*problem.heads), zero.gradients(), zero.shape)


def test_one_state_of_a_projected_lstm_is_enough():
    problem = make("lstm", P=2)
    options = {"projection_size": 2}
    y = functional.lstm(problem.x, problem.params, c0=problem.c0, **options).y
    check(y, problem.replace(h0=problem.h0 * 0).outputs().y, problem.shape, what="y")
    y = functional.lstm(problem.x, problem.params, problem.h0, hidden_size=4, **options).y
    check(y, problem.replace(c0=problem.c0 * 0).outputs().y, problem.shape, what="y")


def test_wanted_gradients_and_missing_heads():
    problem = make("lstm", L=2)
    outputs = call(problem, training=True)
    expected = problem.replace(dhN=None, dcN=None).gradients()
    some = outputs.backward(dy=problem.dy, wanted=["params", "c0"])
    assert some.x is None and some.h0 is None
    check_gradients(
        outputs.backward(problem.dy),
        Gradients(expected.dx, expected.dparams, expected.dh0, expected.dc0),
        problem.shape,
    )
    check(some.params, expected.dparams, problem.shape, gradient=True, what="params")
    check(some.c0, expected.dc0, problem.shape, gradient=True, what="c0")
    with pytest.raises(ValueError, match="wanted.*'weights'"):
        outputs.backward(problem.dy, wanted=["weights"])


@pytest.mark.parametrize("mode", CELLS)
def test_dropout(mode):
    """A seed makes a mask, in training only, and the gradients use the same one."""
    problem = make(mode, T=6, N=4, L=2, H=16)
    plain, first, again, other = (
        call(problem, training=training, dropout=0.5, dropout_seed=seed)
        for training, seed in ((False, 1), (True, 1), (True, 1), (True, 2))
    )
    check_outputs(plain, problem.outputs(), problem.shape)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.y, other.y)
    assert not np.array_equal(first.y, plain.y)
    step = 1e-6 * np.sign(problem.x)
    ends = [
        call(
            problem.replace(x=problem.x + sign * step), training=True, dropout=0.5, dropout_seed=1
        ).y
        for sign in (1, -1)
    ]
    gradients = first.backward(problem.dy)
    slope = ((ends[0] - ends[1]) * problem.dy).sum() / 2
    assert slope == pytest.approx((gradients.x * step).sum(), rel=1e-5)


def test_gradient_descent_learns():
    """The sign of the sum of the inputs so far."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 64, 1))
    target = np.tanh(2 * np.cumsum(x, axis=0))
    params = rng.uniform(-0.5, 0.5, 3 * 8 * (1 + 8 + 2))
    losses = []
    for _ in range(60):
        outputs = functional.gru(x, params, hidden_size=8, training=True)
        error = outputs.y - target
        losses.append((error**2).mean())
        params -= 20 * outputs.backward(2 * error / error.size, wanted=["params"]).params
    assert losses[-1] < 0.5 * losses[0]


X, PARAMS = np.zeros((5, 2, 3)), np.zeros(108)
BAD = {
    "no size": (lambda: functional.gru(X, PARAMS), "hidden_size"),
    "other size": (
        lambda: functional.gru(X, PARAMS, np.zeros((1, 2, 4)), hidden_size=5),
        r"h0: .* 5 .*\(1, 2, 4\)",
    ),
    "flat input": (lambda: functional.gru(X[0], PARAMS, hidden_size=4), r"x: .*\(2, 3\)"),
    "parameters": (lambda: functional.gru(X, PARAMS[1:], hidden_size=4), "params: .*107"),
    "types": (lambda: functional.gru(X, PARAMS.astype("float32"), hidden_size=4), "params: .*64"),
    "integers": (lambda: functional.gru(X.astype(int), PARAMS, hidden_size=4), "x: .*int64"),
    "activation": (
        lambda: functional.rnn(X, PARAMS, hidden_size=4, activation="sigmoid"),
        "activation: .*'sigmoid'",
    ),
    "lengths": (
        lambda: functional.gru(X, PARAMS, hidden_size=4, lengths=[1, 6]),
        r"length\[1\]: .*6",
    ),
    "prediction": (
        lambda: functional.gru(X, PARAMS, hidden_size=4).backward(X),
        "training=True",
    ),
    "one bound": (
        lambda: functional.lstm(X, np.zeros(144), hidden_size=4, clip_min=0.0),
        "clip_min alone",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_calls(case):
    run, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        run()


# ---- Arrays that a recording holds, changed between forward and backward

LENGTHS = np.array([5, 3])
HELD = {"x": ("lstm", {}), "params": ("gru", {}), "h0": ("rnn_tanh", {}), "c0": ("lstm", {})}
HELD = {**HELD, "lengths": ("gru", {"lengths": LENGTHS}), "y": ("rnn_relu", {})}


def recorded(mode, dtype="float64", arrange=np.array, **extra):
    """The outputs of a training call and the arrays that its recording holds, by name."""
    problem = make(mode, L=2, dtype=dtype)
    held = dict(zip(("x", "params", "h0", "c0"), (arrange(value) for value in problem.inputs)))
    held = {name: array.astype(dtype, copy=False) for name, array in held.items()}
    lengths = extra.pop("lengths", None)
    keywords = {"activation": mode[4:]} if mode.startswith("rnn") else {}
    if lengths is not None:
        held["lengths"] = keywords["lengths"] = arrange(lengths)
    inputs = [array for name, array in held.items() if name != "lengths"]
    outputs = FUNCTIONS[mode](*inputs, num_layers=2, training=True, **keywords, **extra)
    return outputs, {**held, "y": outputs.y}, problem


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("name", HELD)
def test_a_changed_array_is_refused_by_name(name, dtype):
    mode, options = HELD[name]
    outputs, held, problem = recorded(mode, dtype, **options)
    dy = problem.dy.astype(dtype)
    expected = outputs.backward(dy)
    element = held[name].reshape(-1)[-1:]
    before = element.copy()
    element -= 1
    with pytest.raises(ValueError, match=rf"^{name}: changed since the forward call.*copy"):
        outputs.backward(dy)
    element[:] = before
    for first, again in zip(expected, outputs.backward(dy)):  # as it was, and any number of times
        np.testing.assert_array_equal(again, first)


def test_the_loss_in_place():
    outputs, held, problem = recorded("gru")
    y = outputs.y
    expected = outputs.backward(y - problem.dy).params
    y -= problem.dy
    with pytest.raises(ValueError, match=r"^y: .*backward\(y - target\)"):
        outputs.backward(y)
    again, _, _ = recorded("gru")
    np.testing.assert_array_equal(again.backward(again.y - problem.dy).params, expected)


@pytest.mark.parametrize("name", ["x", "params", "h0", "c0", "lengths"])
def test_arrays_with_gaps(name):
    def with_gaps(array):
        return np.repeat(array, 2, axis=-1)[..., ::2]

    outputs, held, problem = recorded("lstm", arrange=with_gaps, lengths=LENGTHS)
    outputs.backward(problem.dy)
    assert not held[name].flags.c_contiguous
    held[name].base[..., 1::2] += 1  # what lies between does not count
    outputs.backward(problem.dy)
    held[name][..., 0] -= 1
    with pytest.raises(ValueError, match=rf"^{name}: changed"):
        outputs.backward(problem.dy)


def test_arrays_that_share_memory_are_all_named():
    """The input of a second call is a view of the first one's output, and both its states are one
    array.
    """
    below, _, _ = recorded("lstm")
    params, state = np.full(4 * 4 * (4 + 4 + 2), 0.1), np.full((1, 2, 4), 0.5)
    above = functional.lstm(below.y[1:], params, state, state, training=True)
    below.y[-1] *= 2
    state += 1
    with pytest.raises(ValueError, match="^y: changed"):
        below.backward(below.y)
    with pytest.raises(ValueError, match="^x, h0, c0: changed"):
        above.backward(above.y)


@pytest.mark.parametrize("size", [0, 1, 9, (1 << 18) + 3])  # up to more than one piece of the hash
def test_content_hash(size):
    values = np.random.default_rng(0).standard_normal(size)
    found = _core.content_hash(values)
    assert (
        found == _core.content_hash(values.copy()) == _core.content_hash(np.repeat(values, 2)[::2])
    )
    assert found != _core.content_hash(np.append(values, 0))
    for k in {0, size // 2, size - 1} & set(range(size)):
        changed = values.copy()
        changed[k] = np.nextafter(changed[k], np.inf)
        assert found != _core.content_hash(changed)
    if size > 1:
        assert found != _core.content_hash(values[::-1])


def test_a_list_of_lengths_and_new_shapes_do_no_harm():
    problem = make("gru")
    x, params, lengths = problem.x.copy(), problem.params.copy(), [5, 3]
    outputs = functional.gru(x, params, hidden_size=4, lengths=lengths, training=True)
    expected = outputs.backward(problem.dy)
    lengths[0] = 1
    x.shape, params.shape = (-1,), (2, -1)  # the same contents
    for first, again in zip(expected, outputs.backward(problem.dy)):
        np.testing.assert_array_equal(again, first)
