"""The one parameter of a Gluon layer and its parts: initial values, sharing, copies."""

from __future__ import annotations

import copy
import threading

import mxnet as mx
import numpy as np
import pytest
from helpers import check, make, nd
from mxnet.gluon import rnn as stock
from reference import MODES
from test_gluon_layer import HYBRID, inputs_for, layer_for

from fused_rnn import gluon


@pytest.mark.parametrize("input_size", [0, 3])
@pytest.mark.parametrize(
    "kind, options",
    [
        ("RNN", {"activation": "tanh"}),
        ("GRU", {"num_layers": 2, "bidirectional": True}),
        ("LSTM", {"i2h_bias_initializer": mx.init.LSTMBias(2.0), "num_layers": 12}),
        ("LSTM", {"h2h_weight_initializer": mx.init.Orthogonal(), "h2h_bias_initializer": "ones"}),
    ],
)
def test_initial_values_are_those_of_mxnet(kind, options, input_size):
    layers = []
    for module in (stock, gluon):
        layer = getattr(module, kind)(4, prefix="net_", input_size=input_size, **options)
        mx.random.seed(7)
        np.random.seed(7)
        layer.initialize(mx.init.Xavier())
        layer(mx.nd.ones((1, 1, 3)))
        layers.append(layer)
    native, ours = layers
    assert list(native._reg_params) == list(ours.parameters.parts)
    for name, parameter in native._reg_params.items():
        part = getattr(ours, name)
        assert (part.name, part.shape, part.dtype) == (
            parameter.name,
            parameter.shape,
            parameter.dtype,
        )
        np.testing.assert_array_equal(part.data().asnumpy(), parameter.data().asnumpy(), name)


def test_an_initialiser_for_the_parameter_itself_comes_first():
    layer = gluon.LSTM(2, input_size=3)
    layer.parameters.initialize(mx.init.Constant(0.25))
    assert (layer.parameters.data().asnumpy() == 0.25).all()
    layer.parameters.initialize(default_init=mx.init.One(), force_reinit=True)
    assert (layer.l0_i2h_weight.data().asnumpy() == 1).all()
    assert (layer.l0_i2h_bias.data().asnumpy() == 0).all()


def test_parts_are_windows():
    layer = gluon.GRU(2, input_size=3, bidirectional=True)
    layer.initialize()
    layer.r0_h2h_weight.set_data(mx.nd.full((6, 2), 7))
    layer.l0_i2h_bias.data()[:] = 5
    values = layer.parameters.data().asnumpy()
    assert (values == 7).sum() == 12 and (values == 5).sum() == 6
    assert (layer.r0_h2h_weight.data().asnumpy() == 7).all()
    with mx.autograd.record():
        loss = (layer.r0_h2h_weight.data() ** 2).sum()
    loss.backward()
    np.testing.assert_array_equal(layer.r0_h2h_weight.grad().asnumpy(), np.full((6, 2), 14))
    assert (layer.parameters.grad().asnumpy() != 0).sum() == 12


@pytest.mark.parametrize("how", HYBRID)
def test_layers_share_one_parameter(how):
    problem = make("gru", L=2)
    first = layer_for(problem, how=how)
    second = gluon.GRU(4, 2, dtype="float64", params=first.params)
    if HYBRID[how] is not None:
        second.hybridize(**HYBRID[how])
    assert second.parameters is first.parameters
    data, states, _ = inputs_for(problem)
    with mx.autograd.record():
        total = (first(data, states)[0] + second(data, states)[0]).sum()
    total.backward()
    twice = problem.replace(dy=2 * np.ones_like(problem.dy), dhN=None)
    actual = first.parameters.grad().asnumpy()
    check(actual, twice.gradients().dparams, problem.shape, gradient=True)


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_unfused_cells_share_the_parameter(mode, hybridize):
    """Their gradients too."""
    problem = make(mode, L=2, D=2)
    layer = layer_for(problem)
    cells = layer._unfuse()
    if hybridize:
        cells.hybridize()
    data, states, _ = inputs_for(problem)
    begin = [state[k] for k in range(4) for state in states]
    with mx.autograd.record():
        y, _ = cells.unroll(problem.shape.T, data, begin, layout="TNC", merge_outputs=True)
    y.backward(nd(problem.dy))
    check(y.asnumpy(), problem.outputs().y, problem.shape)
    expected = problem.replace(dhN=None, dcN=None).gradients().dparams
    check(layer.parameters.grad().asnumpy(), expected, problem.shape, gradient=True)


def test_parameters_that_cannot_be_shared():
    with pytest.raises(ValueError, match="separate parameters"):
        gluon.LSTM(2, params=stock.LSTM(2).params)
    with pytest.raises(ValueError, match="another kind of layer"):
        gluon.LSTM(2, params=gluon.LSTM(3).params)
    with pytest.raises(ValueError, match="another kind of layer"):
        gluon.LSTM(2, params=gluon.LSTM(2, dtype="float64").params)


def test_copies_are_independent():
    layer = gluon.GRU(2, input_size=3)
    layer.initialize()
    other = copy.deepcopy(layer)
    other.l0_h2h_weight.set_data(mx.nd.full((6, 2), 9))
    assert (other.parameters.data().asnumpy() == 9).sum() == 12
    assert not (layer.parameters.data().asnumpy() == 9).any()


@pytest.mark.parametrize("input_size", [0, 3])
def test_initialised_again(input_size):
    layer = gluon.GRU(2, input_size=input_size)
    layer.initialize(mx.init.Constant(1))
    layer.initialize(mx.init.Constant(2), force_reinit=True)
    layer(mx.nd.ones((1, 1, 3)))
    for part in (layer.l0_i2h_weight, layer.l0_h2h_weight):
        assert (part.data().asnumpy() == 2).all()


def test_values_set_before_the_input_size_is_known():
    layer = gluon.GRU(2)
    layer.initialize()
    layer.l0_h2h_weight.set_data(mx.nd.full((6, 2), 7))
    layer.l0_i2h_bias.set_data(mx.nd.full((6,), 5))
    layer(mx.nd.ones((1, 1, 3)))
    assert (layer.l0_h2h_weight.data().asnumpy() == 7).all()
    assert (layer.l0_i2h_bias.data().asnumpy() == 5).all()
    assert (layer.l0_h2h_bias.data().asnumpy() == 0).all()
    with pytest.raises(AssertionError, match="incompatible"):
        layer.l0_h2h_weight.set_data(mx.nd.ones((6, 3)))


class Interrupted(dict):
    """A dictionary; another thread interrupts the first walk through it after one value."""

    def __init__(self, items, task):
        super().__init__(items)
        self.task = task

    def values(self):
        walk = iter(super().values())
        yield next(walk)
        task, self.task = self.task, None
        if task is not None:
            thread = threading.Thread(target=task)
            thread.start()
            thread.join()
        yield from walk


def test_two_threads_ask_for_parts_at_once():
    """What one of them is making is not there for the other before it is whole."""
    layer = gluon.LSTM(4, input_size=3)
    layer.initialize()
    mx.gluon.Trainer(gluon.split_params(layer), "sgd")
    whole, found = layer.parameters, []
    first, *_, last = whole.parts.values()
    whole.reset_ctx(mx.cpu())  # the views that the Trainer asked for are of the former arrays
    whole.parts = Interrupted(whole.parts, lambda: found.append(last.data()))
    begin = first.data()
    assert whole.parts.task is None
    begin[:], found[0][:] = 7, 8  # both are windows into the whole, and none is of former arrays
    values = whole.data().asnumpy()
    assert (values[: begin.size] == 7).all() and (values[-found[0].size :] == 8).all()
