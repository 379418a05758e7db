"""Steps of a stream against the whole sequence."""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
from helpers import check, check_outputs, gluon_class, make
from mxnet.gluon import rnn as stock
from reference import CELLS, LSTMS, VARIANTS

from fused_rnn import Stream, gluon


def stream_for(problem, dtype="float64", **options):
    shape = problem.shape
    if problem.options.get("clip") is not None:
        options["clip_min"], options["clip_max"] = problem.options["clip"]
    stream = Stream(
        shape.mode,
        problem.params.astype(dtype),
        hidden_size=shape.H,
        num_layers=shape.L,
        projection_size=shape.P,
        batch_size=shape.N,
        **options,
    )
    stream.states = problem.inputs[2:]
    return stream


PROBLEMS = [(mode, {}) for mode in CELLS]
PROBLEMS += [(mode, {"P": 3, "clip": (-0.3, 0.2)}) for mode in LSTMS]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("mode, options", PROBLEMS)
def test_steps_make_the_sequence(mode, options, dtype):
    problem = make(mode, T=7, L=2, dtype=dtype, **options)
    stream = stream_for(problem, dtype)
    x = problem.x.astype(dtype)
    y = [stream(step) for step in x[:3]]
    y += [*stream(x[3:6]), *stream(x[6:6]), stream(x[6])]
    assert y[0].dtype == np.dtype(dtype)
    check_outputs([np.stack(y), *stream.states], problem.outputs(), problem.shape, dtype)


FROM_LAYER = [(gluon, mode) for mode in CELLS]
FROM_LAYER += [(stock, mode) for mode in CELLS if mode not in VARIANTS]


@pytest.mark.parametrize("module, mode", FROM_LAYER)
def test_from_layer(module, mode):
    kind, options = gluon_class(mode)
    layer = getattr(module, kind)(4, 2, **options)
    layer.initialize(mx.init.Uniform(0.5))
    x = mx.nd.random.uniform(-1, 1, shape=(5, 2, 3))
    expected = layer(x).asnumpy()
    stream = Stream.from_layer(layer, batch_size=2)
    np.testing.assert_allclose([stream(step) for step in x.asnumpy()], expected, atol=1e-5)
    # The stream has a copy of the parameters.
    layer.initialize(mx.init.One(), force_reinit=True)
    stream.reset()
    np.testing.assert_allclose(stream(x.asnumpy()), expected, atol=1e-5)


def test_from_a_layer_with_projection_and_clipping():
    layer = gluon.LSTM(4, 2, projection_size=2, state_clip_min=-0.1, state_clip_max=0.1)
    layer.initialize(mx.init.Uniform(0.9))
    x = mx.nd.random.uniform(-1, 1, shape=(5, 1, 3))
    expected = layer(x).asnumpy()
    np.testing.assert_allclose(Stream.from_layer(layer)(x.asnumpy()), expected, atol=1e-6)


def test_rows_begin_anew():
    problem = make("lstm", N=3, L=2)
    stream = stream_for(problem)
    stream(problem.x)
    before = stream.states
    stream.reset([0, 2])
    for state, old in zip(stream.states, before):
        assert not state[:, [0, 2]].any()
        np.testing.assert_array_equal(state[:, 1], old[:, 1])
    stream.reset()
    assert not any(state.any() for state in stream.states)


def test_another_stream_has_states_of_its_own():
    problem = make("gru", N=2, L=2)
    stream = stream_for(problem)
    other = stream.another(batch_size=1)
    for t, x in enumerate(problem.x):
        y = stream(x)
        other.states = [stream.states[0][:, :1]]
        other.reset()
        other(problem.x[t, :1])
        check(y, problem.outputs().y[t], problem.shape)
    states = stream.states
    states[0][:] = 9
    assert not (stream.states[0] == 9).any()


def test_parameters_are_copied():
    problem = make("gru")
    params = problem.params.copy()
    stream = Stream("gru", params, hidden_size=4, batch_size=2)
    stream.states = [problem.h0]
    params[:] = 0
    check(stream(problem.x), problem.outputs().y, problem.shape)


def test_errors():
    problem = make("lstm", L=2)
    stream = stream_for(problem)
    before = stream.states
    for x, words in (
        (problem.x[0, :, :2], "N = 2 and I = 3, found"),
        (problem.x[0, 0], "found"),
        (problem.x.astype("float32"), "float"),
    ):
        with pytest.raises(ValueError, match=words):
            stream(x)
    for state, old in zip(stream.states, before):
        np.testing.assert_array_equal(state, old)
    with pytest.raises(ValueError, match="states: expected 2, found 1"):
        stream.states = [problem.h0]
    with pytest.raises(ValueError, match=r"states: expected shape \(2, 2, 4\)"):
        stream.states = [problem.h0[:1], problem.c0]
    with pytest.raises(ValueError, match="mode: expected one of"):
        Stream("LSTM", problem.params, hidden_size=4)
    with pytest.raises(ValueError, match="params: expected a vector of"):
        Stream("lstm", problem.params[1:], hidden_size=4, num_layers=2)
    with pytest.raises(ValueError, match="projection"):
        Stream("gru", make("gru").params, hidden_size=4, projection_size=2)
    with pytest.raises(ValueError, match="clip"):
        Stream("lstm", problem.params, hidden_size=4, num_layers=2, clip_min=1)
    bidirectional = gluon.GRU(4, bidirectional=True, input_size=3)
    bidirectional.initialize()
    with pytest.raises(ValueError, match="bidirectional"):
        Stream.from_layer(bidirectional)
    with pytest.raises(TypeError, match="expected a recurrent layer"):
        Stream.from_layer(mx.gluon.nn.Dense(3))
