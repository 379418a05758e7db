"""The core's outputs, over modes, layers, directions and the sizes around vectors and tiles."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from helpers import check, check_outputs, core_forward, make
from reference import CELLS, EPS, Outputs, Shape

from fused_rnn import _core

DTYPES = ("float64", "float32")
SIZES = (
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    9,
    15,
    16,
    17,
    31,
    32,
    33,
)  # vector widths and tile sizes, one less, one more


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("L", [1, 2, 3])
@pytest.mark.parametrize("mode", CELLS)
def test_outputs(mode, L, D, dtype):
    for I, H in ((3, 4), (10, 5), (5, 10), (6, 6)):
        problem = make(mode, I=I, H=H, L=L, D=D, dtype=dtype)
        inference = core_forward(problem, dtype)
        assert inference[3] is None
        check_outputs(inference, problem.outputs(), problem.shape, dtype)
        training = core_forward(problem, dtype, training=True)
        assert training[3].dtype == np.uint8
        check_outputs(training, problem.outputs(), problem.shape, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("H", SIZES)
@pytest.mark.parametrize("mode", CELLS)
def test_sizes(mode, H, dtype):
    for N in SIZES:
        problem = make(mode, T=2, N=N, I=H % 5 + 1, H=H, dtype=dtype)
        check_outputs(core_forward(problem, dtype), problem.outputs(), problem.shape, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", CELLS)
def test_every_size_one_or_two(mode, dtype):
    for T, N, I, H in np.ndindex(2, 2, 2, 2):
        problem = make(mode, T + 1, N + 1, I + 1, H + 1, L=2, D=2, dtype=dtype)
        check_outputs(core_forward(problem, dtype), problem.outputs(), problem.shape, dtype)


@pytest.mark.parametrize("mode", CELLS)
def test_long_sequences_of_one_unit(mode):
    problem = make(mode, T=1024, N=4, I=4, H=1, dtype="float32")
    check_outputs(core_forward(problem, "float32"), problem.outputs(), problem.shape, "float32")


@pytest.mark.parametrize("mode", CELLS)
def test_inputs_that_are_projected_part_by_part(mode):
    """A layer projects the inputs of some steps at a time, and keeps no more: twice the steps take
    the same workspace. Parts of the two directions, and of falling lengths, end elsewhere.
    """
    sizes = {"T": 90, "N": 32, "I": 5, "H": 1100 if mode.startswith("rnn") else 300}

    def workspace(T: int) -> int:
        return _core.sizes(mode, T, *list(sizes.values())[1:])["workspace_inference"]

    assert workspace(90) == workspace(180)
    for lengths in (None, [90] * 10 + list(range(22))):
        options = {} if lengths is None else {"lengths": lengths}
        problem = make(mode, **sizes, D=2, dtype="float32", **options)
        outputs = core_forward(problem, "float32")
        check_outputs(outputs, problem.outputs(), problem.shape, "float32")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", CELLS)
def test_a_stack_is_a_chain_of_layers(mode, dtype):
    """Layers may not be merged when an output is narrower or wider than the next one's input."""
    for L in (2, 4):
        for I in (6, 3):
            whole = make(mode, I=I, H=6, L=L, dtype=dtype)
            weights = reference.unpack(whole.shape, whole.params)
            below = whole.x
            for l in range(L):
                shape = Shape(mode, whole.shape.T, whole.shape.N, below.shape[-1], 6)
                names = [name for _, _, name, _ in shape.blocks()]
                layer = whole.replace(
                    shape=shape,
                    x=below,
                    params=reference.pack(
                        shape, {(0, 0, name): weights[l, 0, name] for name in names}
                    ),
                    h0=whole.h0[l : l + 1],
                    c0=None if whole.c0 is None else whole.c0[l : l + 1],
                )
                outputs = Outputs(*core_forward(layer, dtype)[:3])
                below = outputs.y.astype(np.float64)
            y, hN, cN, _ = core_forward(whole, dtype)
            check(y, below, whole.shape, dtype, what="y")
            check(hN[-1:], outputs.hN.astype(np.float64), whole.shape, dtype, what="hN")


@pytest.mark.parametrize("dtype", DTYPES)
def test_gru_rows_do_not_depend_on_the_batch(dtype):
    """The buffer of R h must hold this step's values only: bR = 0 and h0 = 0 make a stale one
    show, NaN most of all.
    """
    for N in (1, 2, 3, 4, 5, 8, 9, 16, 17):
        problem = make("gru", N=N, H=8, dtype=dtype)
        weights = reference.unpack(problem.shape, problem.params)
        weights[0, 0, "bR"][:] = 0
        problem.h0[:] = 0
        core_forward(
            problem.replace(x=np.full_like(problem.x, np.nan)), dtype
        )  # leaves NaN in recycled memory
        y = core_forward(problem, dtype)[0]
        check(y, problem.outputs().y, problem.shape, dtype, what="y")
        for n in range(N):
            row = slice(n, n + 1)
            alone = problem.replace(
                shape=Shape("gru", 5, 1, 3, 8), x=problem.x[:, row], h0=problem.h0[:, row]
            )
            expected = core_forward(alone, dtype)[0].astype(np.float64)
            check(y[:, row], expected, problem.shape, dtype, what=f"row {n}")


EXTREMES = (
    0.0,
    1e-30,
    1e-4,
    0.5,
    9.0,
    20.0,
    40.0,
    88.0,
    89.0,
    104.0,
    710.0,
    746.0,
    1e3,
    1e30,
    np.inf,
)


def _one_step(mode: str, H: int, biases: np.ndarray, dtype: str) -> Outputs:
    """One step from zero states on zero inputs: pre-activations are exactly the biases."""
    problem = make(mode, T=1, N=2, I=1, H=H)
    weights = reference.unpack(problem.shape, np.zeros(problem.shape.param_count))
    weights[0, 0, "bW"] = biases
    problem = problem.replace(
        x=problem.x * 0,
        params=reference.pack(problem.shape, weights),
        h0=problem.h0 * 0,
        c0=None if problem.c0 is None else problem.c0 * 0,
    )
    with np.errstate(over="ignore"):
        return Outputs(*core_forward(problem, dtype)[:3])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("H", [1, 3, 4, 7, 8, 9, 16, 17, 33])
def test_activations_over_their_whole_range(H, dtype):
    """Every lane and the tail see every magnitude: results stay in range and near the truth."""
    values = np.array([sign * value for value in EXTREMES for sign in (1, -1)])
    values = values.astype(dtype).astype(np.float64)
    limit = 4 * EPS[dtype]
    for first in range(len(values)):
        a = np.resize(np.roll(values, -first), H)
        expected = np.tanh(a)
        tanh = _one_step("rnn_tanh", H, a, dtype).y[0, 1]
        assert np.all(np.abs(tanh) <= 1)
        np.testing.assert_allclose(tanh, expected, rtol=0, atol=limit)
        # cN = sigmoid(i) * tanh(g) with g large
        gates = np.concatenate([a, np.zeros(H), np.full(H, 60.0), np.zeros(H)])
        sigmoid = _one_step("lstm", H, gates, dtype).cN[0, 1]
        assert np.all((sigmoid >= 0) & (sigmoid <= 1))
        np.testing.assert_allclose(sigmoid, reference.sigmoid(a), rtol=0, atol=limit)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", CELLS)
def test_nan_stays_in_its_sample(mode, dtype):
    for N, sick in ((1, 0), (3, 1), (9, 8)):
        problem = make(mode, N=N, H=9, L=2, D=2, dtype=dtype)
        problem.x[1, sick, 0] = np.nan
        y = core_forward(problem, dtype)[0]
        expected = problem.outputs().y
        assert np.isnan(expected[1, sick]).all()
        np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
        well = np.arange(N) != sick
        limit = reference.tolerance(problem.shape, dtype, expected)
        np.testing.assert_allclose(y[:, well], expected[:, well], rtol=0, atol=limit)


@pytest.mark.parametrize("mode", CELLS)
def test_precisions_alternate_in_one_process(mode):
    for dtype in DTYPES * 2:
        problem = make(mode, L=2, D=2, dtype=dtype)
        outputs = core_forward(problem, dtype)
        assert outputs[0].dtype == dtype
        check_outputs(outputs, problem.outputs(), problem.shape, dtype)


def test_inputs_are_left_alone_and_may_be_strided():
    from fused_rnn import _core

    problem = make("lstm", D=2)
    strided = [np.repeat(value, 2, axis=-1)[..., ::2] for value in problem.inputs]
    frozen = [value.copy() for value in strided]
    outputs = _core.forward("lstm", *strided, bidirectional=True)
    check_outputs(outputs, problem.outputs(), problem.shape)
    for value, before in zip(strided, frozen):
        np.testing.assert_array_equal(value, before)
