"""The operator in a Gluon block: eager, hybridized, with memory and shapes planned ahead,
exported.
"""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
from helpers import (
    check,
    check_gradients,
    check_outputs,
    make,
    operator_attributes,
    operator_inputs,
)
from reference import CELLS

HYBRID = {
    "eager": None,
    "hybridized": {},
    "static_alloc": {"static_alloc": True},
    "static_shape": {"static_alloc": True, "static_shape": True},
}


class Layer(mx.gluon.HybridBlock):
    """The bare operator with its flat parameter vector as the block's parameter."""

    def __init__(self, problem, dtype="float64", **extra):
        super().__init__()
        self.attributes = operator_attributes(problem, **extra)
        with self.name_scope():
            self.weights = self.params.get("weights", shape=problem.params.shape, dtype=dtype)
        self.initialize()
        self.weights.set_data(mx.nd.array(problem.params, dtype=dtype))

    def hybrid_forward(self, F, data, *states, weights):
        return F.FusedRNN(data, weights, *states, **self.attributes)


def layer(problem, how, dtype="float64", **extra):
    net = Layer(problem, dtype, **extra)
    if HYBRID[how] is not None:
        net.hybridize(**HYBRID[how])
    return net


def step(net, problem, dtype="float64", *, add=False):
    """One training step; returns outputs and gradients."""
    data, _, *states = operator_inputs(problem, dtype)
    for array in (data, *states):
        array.attach_grad("add" if add else "write")
    with mx.autograd.record():
        outputs = net(data, *states)
    mx.autograd.backward(outputs, [mx.nd.array(head, dtype=dtype) for head in problem.heads])
    gradients = [data.grad, net.weights.grad(), *(state.grad for state in states)]
    return [a.asnumpy() for a in outputs], [g.asnumpy() for g in gradients]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("mode", CELLS)
def test_training_and_prediction_alternate(mode, how, dtype):
    problem = make(mode, L=2, D=2, dtype=dtype)
    net = layer(problem, how, dtype)
    data, _, *states = operator_inputs(problem, dtype)
    expected, gradients = problem.outputs(), problem.gradients()
    for _ in range(3):
        y = [a.asnumpy() for a in net(data, *states)]
        check_outputs(y, expected, problem.shape, dtype)
        outputs, actual = step(net, problem, dtype)
        check_outputs(outputs, expected, problem.shape, dtype)
        check_gradients(actual, gradients, problem.shape, dtype)


@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("mode", CELLS)
def test_lengths_of_sequences_and_batches_vary(mode, how):
    """Buffers grow and are used again for less: no result may depend on what was there."""
    first = make(mode, L=2, D=2)
    net = layer(first, how)
    for T, N in ((5, 2), (11, 7), (1, 1), (5, 2), (3, 9)):
        problem = make(mode, T=T, N=N, L=2, D=2).replace(params=first.params)
        outputs, gradients = step(net, problem)
        check_outputs(outputs, problem.outputs(), problem.shape)
        check_gradients(gradients, problem.gradients(), problem.shape)


@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("mode", CELLS)
def test_forward_again_before_backward(mode, how):
    """A second forward through the same block may not spoil what the first backward needs."""
    problems = [make(mode, L=2, D=2, seed=seed) for seed in (1, 2)]
    problems[1] = problems[1].replace(params=problems[0].params)
    net = layer(problems[0], how)
    data, _, *states = operator_inputs(problems[0])
    data.attach_grad()
    with mx.autograd.record():
        outputs = net(data, *states)
    step(net, problems[1])
    again, _, *other_states = operator_inputs(problems[1])
    net(again, *other_states)[0].wait_to_read()
    heads = [mx.nd.array(head, dtype="float64") for head in problems[0].heads]
    mx.autograd.backward(outputs, heads)
    expected = problems[0].gradients()
    check(data.grad.asnumpy(), expected.dx, problems[0].shape, gradient=True, what="dx")
    actual = net.weights.grad().asnumpy()
    check(actual, expected.dparams, problems[0].shape, gradient=True, what="dparams")


@pytest.mark.parametrize("how", HYBRID)
def test_gradients_are_added(how):
    problem = make("gru", L=2, D=2)
    net = layer(problem, how)
    net.weights.grad_req = "add"
    net.weights.zero_grad()
    for k in (1, 2, 3):
        step(net, problem, add=True)
        actual = net.weights.grad().asnumpy()
        target = k * problem.gradients().dparams
        check(actual, target, problem.shape, gradient=True, what="dparams")


@pytest.mark.parametrize("how", HYBRID)
def test_frozen_weights_and_unwanted_data_gradient(how):
    """First-layer training wants no data gradient; fine-tuning wants no weight gradient."""
    problem = make("lstm", L=3, D=2)
    heads = [mx.nd.array(head, dtype="float64") for head in problem.heads]
    net = layer(problem, how)
    data, _, *states = operator_inputs(problem)
    with mx.autograd.record():
        outputs = net(data, *states)
    mx.autograd.backward(outputs, heads)
    actual, expected = net.weights.grad().asnumpy(), problem.gradients()
    check(actual, expected.dparams, problem.shape, gradient=True, what="dparams")
    net = Layer(problem)
    net.weights.grad_req = "null"
    if HYBRID[how] is not None:
        net.hybridize(**HYBRID[how])
    data.attach_grad()
    with mx.autograd.record():
        outputs = net(data, *states)
    mx.autograd.backward(outputs, heads)
    check(data.grad.asnumpy(), expected.dx, problem.shape, gradient=True, what="dx")


@pytest.mark.parametrize("mode", CELLS)
def test_exported_model(mode, tmp_path):
    problem = make(mode, L=2, D=2, dtype="float32")
    net = layer(problem, "hybridized", "float32")
    data, _, *states = operator_inputs(problem, "float32")
    net(data, *states)
    path = str(tmp_path / "net")
    net.export(path)
    names = ["data0", *(f"data{k + 1}" for k in range(len(states)))]
    loaded = mx.gluon.SymbolBlock.imports(f"{path}-symbol.json", names, f"{path}-0000.params")
    outputs = [a.asnumpy() for a in loaded(data, *states)]
    check_outputs(outputs, problem.outputs(), problem.shape, "float32")
    net.save_parameters(path)
    other = layer(problem.replace(params=np.zeros_like(problem.params)), "hybridized", "float32")
    other.load_parameters(path)
    outputs = [a.asnumpy() for a in other(data, *states)]
    check_outputs(outputs, problem.outputs(), problem.shape, "float32")
