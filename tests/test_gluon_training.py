"""Training the Gluon layers with a Trainer: the parameter as a whole, and its parts."""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
from helpers import make, nd
from reference import unpack
from test_gluon_layer import inputs_for, layer_for

from fused_rnn import gluon

RATE, DECAY = 0.1, 0.01


def backward(layer, problem):
    data, states, _ = inputs_for(problem)
    with mx.autograd.record():
        y, finals = layer(data, states)
    mx.autograd.backward([y, *finals], [nd(head) for head in problem.heads])


def sgd(params, **options):
    options = {"learning_rate": RATE, "wd": DECAY, **options}
    return mx.gluon.Trainer(params, "sgd", options)


def stepped(problem, rate=RATE, decay=DECAY):
    return problem.params - rate * (problem.gradients().dparams + decay * problem.params)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("how", ["eager", "static"])
def test_a_step_changes_the_next_prediction(how, split):
    problem = make("lstm", L=2, D=2)
    layer = layer_for(problem, how=how)
    trainer = sgd(gluon.split_params(layer) if split else layer.collect_params())
    for _ in range(3):
        expected = stepped(problem)
        backward(layer, problem)
        trainer.step(1)
        actual = layer.parameters.data().asnumpy()
        np.testing.assert_allclose(actual, expected, atol=1e-8)
        problem = problem.replace(params=actual)
        data, states, _ = inputs_for(problem)
        y = layer(data, states)[0].asnumpy()
        np.testing.assert_allclose(y, problem.outputs().y, atol=1e-9)


@pytest.mark.parametrize("select", ["lr_mult", "wd_mult", "grad_req"])
def test_a_part_has_its_own_options(select):
    problem = make("gru", L=2)
    layer = layer_for(problem)
    params = gluon.split_params(layer)
    layer.collect_params(".*bias").setattr(select, "null" if select == "grad_req" else 0)
    trainer = sgd(params)
    backward(layer, problem)
    trainer.step(1)
    expected = unpack(problem.shape, stepped(problem))
    before = unpack(problem.shape, problem.params)
    without = unpack(problem.shape, stepped(problem, decay=0))
    actual = unpack(problem.shape, layer.parameters.data().asnumpy())
    for key, value in actual.items():
        target = expected[key]
        if key[2] in ("bW", "bR"):
            target = (without if select == "wd_mult" else before)[key]
        np.testing.assert_allclose(value, target, atol=1e-8, err_msg=str(key))


@pytest.mark.parametrize("name, value", [("lr_mult", 0.5), ("wd_mult", 0), ("grad_req", "null")])
def test_options_of_a_part_are_not_lost_in_silence(name, value):
    layer = layer_for(make("gru"))
    setattr(layer.l0_i2h_bias, name, value)
    with pytest.raises(ValueError, match="l0_i2h_bias.*split_params"):
        sgd(layer.collect_params())
    layer = layer_for(make("gru"))
    sgd(layer.collect_params())
    with pytest.raises(ValueError, match="no effect.*split_params"):
        setattr(layer.l0_i2h_bias, name, value)
    layer.collect_params().setattr(name, value)
    assert getattr(layer.l0_i2h_bias, name) == value


@pytest.mark.parametrize("split", [False, True])
def test_stale_gradients_are_noticed(split):
    problem = make("gru")
    layer = layer_for(problem)
    trainer = sgd(gluon.split_params(layer) if split else layer.collect_params())
    with pytest.raises(UserWarning, match="has not been updated by backward"):
        trainer.step(1)
    backward(layer, problem)
    layer.l0_i2h_bias.data().asnumpy()
    trainer.step(1)
    once = layer.parameters.data().asnumpy()
    with pytest.raises(UserWarning, match="has not been updated by backward"):
        trainer.step(1)
    trainer.step(1, ignore_stale_grad=True)
    np.testing.assert_array_equal(layer.parameters.data().asnumpy(), once)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("on_kvstore", [False, True])
def test_two_contexts(on_kvstore, split):
    """Each has half of the batch; the parameters end equal, as after one step on all of it."""
    problem = make("lstm", N=4)
    halves = [
        problem.replace(
            **{
                name: np.ascontiguousarray(getattr(problem, name)[:, half])
                for name in ("x", "h0", "c0", "dy", "dhN", "dcN")
            }
        )
        for half in (slice(0, 2), slice(2, 4))
    ]
    contexts = [mx.cpu(0), mx.cpu(1)]
    layer = layer_for(problem)
    layer.collect_params().reset_ctx(contexts)
    params = gluon.split_params(layer) if split else layer.collect_params()
    trainer = mx.gluon.Trainer(params, "sgd", {"learning_rate": RATE}, update_on_kvstore=on_kvstore)
    for ctx, half in zip(contexts, halves):
        data, states, _ = inputs_for(half)
        with mx.autograd.record():
            y, finals = layer(data.as_in_context(ctx), [s.as_in_context(ctx) for s in states])
        mx.autograd.backward([y, *finals], [nd(h).as_in_context(ctx) for h in half.heads])
    trainer.step(1)
    for data in layer.parameters.list_data():
        np.testing.assert_allclose(data.asnumpy(), stepped(problem, decay=0), atol=1e-8)


@pytest.mark.parametrize("split", [False, True])
def test_accumulated_gradients(split):
    problem = make("rnn_tanh")
    layer = layer_for(problem)
    params = gluon.split_params(layer) if split else layer.collect_params()
    layer.parameters.grad_req = "add"
    trainer = sgd(params)
    for _ in range(2):
        params.zero_grad()
        expected = problem.params - RATE * (
            2 * problem.gradients().dparams + DECAY * problem.params
        )
        backward(layer, problem)
        backward(layer, problem)
        trainer.step(1)
        actual = layer.parameters.data().asnumpy()
        np.testing.assert_allclose(actual, expected, atol=1e-8)
        problem = problem.replace(params=actual)


@pytest.mark.parametrize("split", [False, True])
def test_trainer_before_the_input_size_is_known(split):
    layer = gluon.GRU(4)
    layer.initialize(mx.init.Constant(0.1))
    trainer = sgd(gluon.split_params(layer) if split else layer.collect_params())
    with mx.autograd.record():
        loss = layer(mx.nd.ones((3, 2, 5))).sum()
    loss.backward()
    before = layer.parameters.data().asnumpy()
    gradient = layer.parameters.grad().asnumpy()
    trainer.step(1)
    expected = before - RATE * (gradient + DECAY * before)
    np.testing.assert_allclose(layer.parameters.data().asnumpy(), expected, rtol=1e-5)


def test_select_parameters():
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.LSTM(4, 2, input_size=3), mx.gluon.nn.Dense(1, in_units=4))
    whole, dense = "net_lstm0_parameters", ["net_dense0_weight", "net_dense0_bias"]
    assert list(net.collect_params()) == [whole, *dense]
    assert list(net.collect_params(".*lstm")) == [whole]
    assert list(net.collect_params(".*l[01]_")) == [whole]
    biases = [f"net_lstm0_l{k}_{kind}_bias" for k in (0, 1) for kind in ("i2h", "h2h")]
    assert list(net.collect_params(".*bias")) == [*biases, dense[1]]
    assert list(net.collect_params(".*l0_h2h_weight")) == ["net_lstm0_l0_h2h_weight"]
    assert len(list(gluon.split_params(net))) == 10


def test_what_a_part_cannot_do():
    part = layer_for(make("gru")).l0_i2h_bias
    for call in (part.initialize, lambda: part.reset_ctx(mx.cpu())):
        with pytest.raises(ValueError, match="'gru.*parameters'"):
            call()
    with pytest.raises(ValueError, match="grad_req.*expected 'null'"):
        part.grad_req = "add"
