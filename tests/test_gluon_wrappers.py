"""What goes around the Gluon layers: dropout, normalisation, stacks, cell states."""

from __future__ import annotations

from functools import partial

import mxnet as mx
import numpy as np
import pytest
import reference
from helpers import check, make, nd
from reference import Shape, unpack
from test_gluon_layer import HYBRID, inputs_for, layer_for, with_zero_states

from fused_rnn import gluon


@pytest.fixture(autouse=True)
def seeded():
    mx.random.seed(1)


def hybridized(block, how):
    if HYBRID[how] is not None:
        block.hybridize(**HYBRID[how])
    return block


def in_training(block, *args):
    with mx.autograd.record():
        return block(*args)


# weight_drop


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize(
    "mode, options",
    [("gru", {}), ("rnn_tanh", {"L": 3, "D": 2}), ("lstm", {"L": 2, "D": 2, "P": 3})],
)
def test_weight_drop(mode, options, how, deferred):
    """Only recurrent weights are dropped: those have no gradient, all others have theirs."""
    problem = make(mode, T=4, N=3, H=6, **options)
    layer = layer_for(problem, how=how, weight_drop=0.5, input_size=0 if deferred else 3)
    data, states, _ = inputs_for(problem)
    if deferred:
        layer(data, states)
        layer.parameters.set_data(nd(problem.params))
    check(layer(data, states)[0].asnumpy(), problem.outputs().y, problem.shape)
    seen = []
    for _ in range(2):
        with mx.autograd.record():
            y, _ = layer(data, states)
        y.backward()
        dropped = {}
        for key, gradient in unpack(problem.shape, layer.parameters.grad().asnumpy()).items():
            assert gradient.any(), key
            dropped[key] = (gradient == 0).mean() if key[2] == "R" else 0
            if key[2] == "R":
                assert 0.2 < dropped[key] < 0.8, key
            elif mode != "rnn_relu":
                assert (gradient != 0).all(), key
        seen.append(y.asnumpy())
    assert (seen[0] != seen[1]).any()


def test_weight_drop_scales_what_it_keeps():
    problem = make("rnn_tanh", T=1, H=8)
    params = reference.pack(
        problem.shape,
        {
            key: np.full(part.shape, 0.01) if key[2] == "R" else np.zeros(part.shape)
            for key, part in unpack(problem.shape, problem.params).items()
        },
    )
    problem = problem.replace(params=params, h0=np.ones_like(problem.h0))
    layer = layer_for(problem, weight_drop=0.75)
    data, states, _ = inputs_for(problem)
    kept = np.arctanh(in_training(layer, data, states)[0].asnumpy()) / 0.04
    np.testing.assert_allclose(kept, kept.round(), atol=1e-9)
    assert (kept[:, 0] == kept[:, 1]).all()  # one mask for the batch
    assert kept.min() < kept.max() <= 8


# Dropout of activations


@pytest.mark.parametrize("numpy_mode", [False, True])
@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("how", HYBRID)
def test_locked_dropout(how, layout, numpy_mode):
    with mx.util.np_shape(numpy_mode), mx.util.np_array(numpy_mode):
        x = (mx.np if numpy_mode else mx.nd).ones((20, 20, 20))
        block = hybridized(gluon.LockedDropout(0.25, layout), how)
        assert (block(x).asnumpy() == 1).all()
        y = in_training(block, x).asnumpy()
    y = y.swapaxes(0, 1) if layout == "NTC" else y
    assert (y == y[:1]).all()
    np.testing.assert_allclose(np.unique(y), [0, 4 / 3], rtol=1e-6)
    assert 0.65 < (y[0] > 0).mean() < 0.85


@pytest.mark.parametrize("how", HYBRID)
def test_variational_dropout(how):
    problem = make("lstm", T=6, H=20, I=10)
    block = gluon.VariationalDropout(layer_for(problem), inputs=0.5, outputs=0.5)
    hybridized(block, how)
    data, states, _ = inputs_for(problem)
    for _ in range(2):
        expected = with_zero_states(problem).outputs().y
        check(block(data).asnumpy(), expected, problem.shape)
        y, finals = block(data, states)
        check(y.asnumpy(), problem.outputs().y, problem.shape)
        check(finals[1].asnumpy(), problem.outputs().cN, problem.shape)
    data.attach_grad()
    with mx.autograd.record():
        y, _ = block(data, block.begin_state(2, dtype="float64"))
    y.backward()
    for values in (y.asnumpy(), data.grad.asnumpy()):
        dropped = values == 0
        assert (dropped == dropped[0]).all() and 0.2 < dropped.mean() < 0.8


@pytest.mark.parametrize("make_block", [partial(gluon.LockedDropout, 0.1), gluon.SequenceBatchNorm])
def test_layout_is_checked(make_block):
    with pytest.raises(ValueError, match="layout: expected 'TNC' or 'NTC', found 'CNT'"):
        make_block(layout="CNT")


def test_rate_is_checked():
    with pytest.raises(ValueError, match=r"rate: expected a number in \[0, 1\), found 1"):
        gluon.LockedDropout(1)


# SequenceBatchNorm


def norm_expected(x, lengths, gamma, beta):
    """Result, and mean and variance of the steps that count."""
    valid = np.arange(len(x))[:, None] < np.asarray(lengths)
    mean, variance = x[valid].mean(axis=0), x[valid].var(axis=0)
    y = (x - mean) / np.sqrt(variance + 1e-5) * gamma + beta
    return np.where(valid[:, :, None], y, 0), mean, variance


@pytest.mark.parametrize("numpy_mode", [False, True])
@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("how", HYBRID)
def test_padding_does_not_count(how, layout, numpy_mode):
    rng = np.random.default_rng(0)
    x, lengths = rng.normal(3, 2, (6, 3, 4)).astype("float32"), [6, 2, 0]
    x[2:, 1], x[:, 2] = np.nan, 1e6
    swap = (lambda a: a.swapaxes(0, 1)) if layout == "NTC" else (lambda a: a)
    with mx.util.np_shape(numpy_mode), mx.util.np_array(numpy_mode):
        array = mx.np.array if numpy_mode else mx.nd.array
        block = gluon.SequenceBatchNorm(layout, momentum=0.5)
        block.initialize()
        hybridized(block, how)
        data = array(swap(x), dtype="float32")
        block(data, array(lengths))
        gamma, beta = np.array([1, 2, 3, 0.5]), np.array([0, 1, -1, 2])
        block.gamma.set_data(array(gamma))
        block.beta.set_data(array(beta))
        y, mean, variance = norm_expected(x, lengths, gamma, beta)
        data.attach_grad()
        actual = in_training(block, data, array(lengths))
        actual.backward()
        np.testing.assert_allclose(swap(actual.asnumpy()), y, atol=1e-5)
        mx.nd.waitall()  # MXNet's BatchNorm does not tell its engine that it writes statistics
        np.testing.assert_allclose(block.running_mean.data().asnumpy(), mean / 2, rtol=1e-5)
        np.testing.assert_allclose(
            block.running_var.data().asnumpy(), 0.5 + variance / 2, rtol=1e-5
        )
        gradient = swap(data.grad.asnumpy())
        assert not gradient[2:, 1].any() and not gradient[:, 2].any()
        predicted = swap(block(data, array(lengths)).asnumpy())
    scale = gamma / np.sqrt(0.5 + variance / 2 + 1e-5)
    np.testing.assert_allclose(predicted[:, 0], (x[:, 0] - mean / 2) * scale + beta, atol=1e-4)


def test_full_lengths_are_as_none():
    """Output, running statistics and gradients are those of mx.gluon.nn.BatchNorm."""
    x = np.random.default_rng(0).normal(1, 2, (6, 3, 4))
    dy = np.random.default_rng(1).normal(size=x.shape)
    results = []
    for block, lengths in (
        (mx.gluon.nn.BatchNorm(axis=2), ()),
        (gluon.SequenceBatchNorm(), ()),
        (gluon.SequenceBatchNorm(), (mx.nd.array([6, 6, 6]),)),
    ):
        block.initialize()
        data = mx.nd.array(x)
        data.attach_grad()
        y = in_training(block, data, *lengths)
        y.backward(mx.nd.array(dy))
        parts = [block.gamma.grad(), block.beta.grad()]
        parts += [block.running_mean.data(), block.running_var.data()]
        results.append([a.asnumpy() for a in (y, data.grad, *parts)])
    for others in results[1:]:
        for ours, native in zip(others, results[0]):
            np.testing.assert_allclose(ours, native, atol=1e-4)


@pytest.mark.parametrize("dtype, limit", [("float64", 1e-9), ("float16", 1e-2)])
def test_normalisation_in_other_types(dtype, limit):
    x = np.random.default_rng(0).normal(1, 2, (6, 3, 4))
    block = gluon.SequenceBatchNorm()
    block.initialize()
    block.cast(dtype)
    y = in_training(block, mx.nd.array(x, dtype=dtype), mx.nd.array([6, 2, 3]))
    assert y.dtype == np.dtype(dtype)
    expected = norm_expected(x, [6, 2, 3], np.ones(4), np.zeros(4))[0]
    np.testing.assert_allclose(y.asnumpy(), expected, atol=limit)


# Stack


def two_layers(layout="TNC", **options):
    lower = make("gru", N=3, T=5, I=3, H=4, D=2)
    upper = make("lstm", N=3, T=5, I=8, H=6)
    return lower, upper, [layer_for(problem, layout, **options) for problem in (lower, upper)]


@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("how", HYBRID)
def test_stack(how, layout):
    lower, upper, layers = two_layers(layout)
    stack = hybridized(gluon.Stack(*layers), how)
    below = lower.outputs()
    upper = upper.replace(x=below.y)
    expected = upper.outputs()
    data, first, _ = inputs_for(lower, layout)
    _, second, _ = inputs_for(upper, layout)
    for _ in range(2):
        y, (lower_final, upper_final) = stack(data, [first, second])
        y = y.asnumpy().swapaxes(0, 1) if layout == "NTC" else y.asnumpy()
        check(y, expected.y, upper.shape)
        check(lower_final[0].asnumpy(), below.hN, lower.shape)
        check(upper_final[1].asnumpy(), expected.cN, upper.shape)
        zeros = stack.begin_state(3, dtype="float64")
        np.testing.assert_array_equal(stack(data).asnumpy(), stack(data, zeros)[0].asnumpy())


@pytest.mark.parametrize("how", HYBRID)
def test_stack_with_normalisation_and_lengths(how, tmp_path):
    """Padding changes nothing, in training too; saved and read with its running statistics."""
    data = mx.nd.random.normal(shape=(5, 3, 3))
    lengths = mx.nd.array([5, 2, 3])

    def stack_of():
        return gluon.Stack(
            gluon.GRU(4, bidirectional=True, use_sequence_length=True),
            gluon.LSTM(6, use_sequence_length=True),
            between=gluon.SequenceBatchNorm,
        )

    stack = stack_of()
    stack.initialize(mx.init.Normal(0.5))
    hybridized(stack, how)
    y = in_training(stack, data, None, lengths).asnumpy()
    padded = mx.nd.concat(data, mx.nd.full((4, 3, 3), np.nan), dim=0)
    longer = in_training(stack, padded, None, lengths).asnumpy()
    np.testing.assert_allclose(longer[:5], y, atol=1e-5)
    assert not longer[5:].any()
    path = str(tmp_path / "stack.params")
    stack.save_parameters(path)
    other = stack_of()
    other.load_parameters(path)
    predictions = [net(data, sequence_length=lengths).asnumpy() for net in (stack, other)]
    np.testing.assert_allclose(*predictions, atol=1e-6)


def test_stack_trains_in_a_network():
    net = mx.gluon.nn.HybridSequential()
    stack = gluon.Stack(gluon.LSTM(8), gluon.GRU(5), between=lambda: gluon.LockedDropout(0.1))
    net.add(stack, mx.gluon.nn.Dense(1, flatten=False))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02})
    data = mx.nd.random.normal(shape=(6, 4, 3))
    target = mx.nd.cumsum(data[:, :, :1], axis=0)
    losses = []
    for _ in range(60):
        with mx.autograd.record():
            loss = ((net(data) - target) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(loss.asscalar())
    assert np.mean(losses[-5:]) < 0.4 * losses[0]


def test_stack_of_two_layouts_is_refused():
    with pytest.raises(ValueError, match="layers: expected one layout"):
        gluon.Stack(gluon.LSTM(2), gluon.LSTM(2, layout="NTC"))


# CellStateLSTM


def cell_states(problem):
    """c_t from runs over the first steps alone."""
    shape, lengths = problem.shape, problem.options.get("lengths") or [problem.shape.T] * 9
    cells = []
    for t in range(1, shape.T + 1):
        part = Shape("lstm", t, shape.N, shape.I, shape.H, P=shape.P)
        options = {**problem.options, "lengths": [min(t, n) for n in lengths[: shape.N]]}
        c = reference.forward(part, problem.x[:t], *problem.inputs[1:], **options).cN[0]
        cells.append(np.where(np.array(lengths[: shape.N])[:, None] >= t, c, 0))
    return np.stack(cells)


def cell_state_layer(problem, layout="TNC"):
    plain = layer_for(problem, layout)
    layer = gluon.CellStateLSTM(
        problem.shape.H,
        layout=layout,
        dtype="float64",
        projection_size=problem.shape.P,
        state_clip_min=plain._lstm_state_clip_min,
        state_clip_max=plain._lstm_state_clip_max,
        use_sequence_length=plain._use_sequence_length,
    )
    layer.initialize()
    layer.hybridize()
    layer(*inputs_for(problem, layout))
    layer.parameters.set_data(nd(problem.params))
    return layer


@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize(
    "options", [{}, {"lengths": [5, 2, 0], "N": 3}, {"P": 3, "clip": (-0.2, 0.3)}]
)
def test_cell_states(options, layout):
    problem = make("lstm", **options)
    layer = cell_state_layer(problem, layout)
    swap = (lambda a: a.swapaxes(0, 1)) if layout == "NTC" else (lambda a: a)
    data, states, lengths = inputs_for(problem, layout)
    y, cells, finals = layer(data, states, lengths)
    expected = problem.outputs()
    check(swap(y.asnumpy()), expected.y, problem.shape)
    check(finals[0].asnumpy(), expected.hN, problem.shape)
    check(finals[1].asnumpy(), expected.cN, problem.shape)
    check(swap(cells.asnumpy()), cell_states(problem), problem.shape)
    y, cells = layer(data, None, lengths)
    zero = with_zero_states(problem)
    check(swap(y.asnumpy()), zero.outputs().y, problem.shape)
    check(swap(cells.asnumpy()), cell_states(zero), problem.shape)


def test_gradients_of_cell_states():
    problem = make("lstm", T=3, H=2, lengths=[3, 2])
    layer = cell_state_layer(problem)
    data, states, lengths = inputs_for(problem)
    weight = np.random.default_rng(3).normal(size=(3, 2, 2))

    def loss(x, params):
        return (cell_states(problem.replace(x=x, params=params)) * weight).sum()

    data.attach_grad()
    with mx.autograd.record():
        _, cells, _ = layer(data, states, lengths)
        total = (cells * nd(weight)).sum()
    total.backward()
    for actual, values, of in (
        (data.grad, problem.x, lambda v: loss(v, problem.params)),
        (layer.parameters.grad(), problem.params, lambda v: loss(problem.x, v)),
    ):
        expected = reference.central_differences(
            lambda copies, of=of: np.array([of(copy) for copy in copies]), values
        )
        np.testing.assert_allclose(actual.asnumpy(), expected, atol=1e-7)


def test_cell_states_in_numpy_mode():
    with mx.util.np_shape(True), mx.util.np_array(True):
        layer = gluon.CellStateLSTM(4, input_size=3)
        layer.initialize()
        data = mx.np.ones((5, 2, 3))
        y, cells = layer(data)
        assert isinstance(cells, mx.np.ndarray) and cells.shape == (5, 2, 4)
        plain = gluon.LSTM(4, params=layer.params)
        np.testing.assert_allclose(y.asnumpy(), plain(data).asnumpy(), atol=1e-6)


@pytest.mark.parametrize("options", [{"num_layers": 2}, {"bidirectional": True}])
def test_cell_states_of_one_layer_and_direction_only(options):
    with pytest.raises(ValueError, match="expected one layer and direction"):
        gluon.CellStateLSTM(4, **options)


def test_cell_states_are_not_for_symbols():
    with pytest.raises(NotImplementedError, match="expected arrays"):
        gluon.CellStateLSTM(4)(mx.sym.var("data"))
