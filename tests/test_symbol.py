"""mx.sym.FusedRNN: names, inference, binding, files."""

from __future__ import annotations

import inspect
import itertools
import re

import mxnet as mx
import numpy as np
import pytest
import reference
from helpers import (
    check,
    check_gradients,
    check_outputs,
    make,
    operator_attributes,
    operator_inputs,
)
from reference import CELLS, MODES, Gradients

import fused_rnn

NAMES = ("data", "parameters", "state", "state_cell")


def symbol(problem, *, name="layer", **extra):
    return mx.sym.FusedRNN(mx.sym.var("data"), name=name, **operator_attributes(problem, **extra))


def argument_names(problem):
    return ["data", "layer_parameters", "layer_state", "layer_state_cell"][: len(problem.inputs)]


def bind(problem, dtype="float64", grad_req="write", net=None):
    """An executor fed with the problem's inputs; gradients start at 7."""
    net = net if net is not None else symbol(problem)
    names = argument_names(problem)
    executor = net.simple_bind(
        mx.cpu(),
        grad_req=grad_req,
        type_dict={name: dtype for name in names},
        data=problem.x.shape,
    )
    for name, array in zip(names, operator_inputs(problem, dtype)):
        executor.arg_dict[name][:] = array
        if executor.grad_dict.get(name) is not None:
            executor.grad_dict[name][:] = 7
    return executor


def gradients_of(executor, problem):
    return [executor.grad_dict[name].asnumpy() for name in argument_names(problem)]


def heads(problem, dtype="float64"):
    return [mx.nd.array(head, dtype=dtype) for head in problem.heads]


@pytest.mark.parametrize("mode", MODES)
def test_names_are_those_of_the_native_symbol(mode):
    for states, bidirectional in itertools.product((False, True), repeat=2):
        attributes = {
            "mode": mode,
            "state_size": 4,
            "num_layers": 2,
            "bidirectional": bidirectional,
            "state_outputs": states,
        }
        for make_symbol in (mx.sym.FusedRNN, fused_rnn.sym.RNN):
            ours = make_symbol(mx.sym.var("data"), name="layer", **attributes)
            native = mx.sym.RNN(mx.sym.var("data"), name="layer", **attributes)
            assert ours.list_arguments() == native.list_arguments()
            assert ours.list_outputs() == native.list_outputs()
            assert ours.list_auxiliary_states() == []
    assert mx.sym.FusedRNN(mode=mode, state_size=4, num_layers=1, name="a").list_arguments() == (
        ["a_data", "a_parameters", "a_state"] + (["a_state_cell"] if mode == "lstm" else [])
    )


@pytest.mark.parametrize("kind", ["sym", "nd"])
def test_signature_is_that_of_mxnet(kind):
    ours = inspect.signature(getattr(fused_rnn, kind).RNN)
    native = inspect.signature(getattr(mx, kind).FusedRNN)
    assert list(ours.parameters) == list(native.parameters)
    for name, parameter in native.parameters.items():
        assert ours.parameters[name].default == parameter.default, name
    assert all(p.annotation is not p.empty for p in ours.parameters.values())
    described = set(re.findall(r"\w+", inspect.getdoc(getattr(fused_rnn, kind).RNN)))
    assert set(ours.parameters) - {"kwargs"} <= described


def test_default_names_count_up():
    with mx.name.NameManager():
        first = fused_rnn.sym.RNN(mx.sym.var("data"), mode="gru", state_size=4, num_layers=1)
        second = fused_rnn.sym.RNN(first, mode="gru", state_size=4, num_layers=1)
    with mx.name.NameManager():
        native = mx.sym.RNN(mx.sym.var("data"), mode="gru", state_size=4, num_layers=1)
        native = mx.sym.RNN(native, mode="gru", state_size=4, num_layers=1)
    assert len(set(second.list_arguments())) == 5
    assert second.list_arguments() == native.list_arguments()


def test_variables_inherit_the_attributes_of_the_node():
    net = mx.sym.FusedRNN(
        mx.sym.var("data"),
        mode="gru",
        state_size=4,
        num_layers=1,
        name="a",
        attr={"__lr_mult__": "3"},
    )
    attributes = net.attr_dict()
    assert attributes["a_parameters"]["__lr_mult__"] == "3"
    assert attributes["a"]["state_size"] == "4"


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("mode", CELLS)
def test_shapes_and_types_follow_from_the_data(mode, D):
    problem = make(mode, L=3, D=D)
    net = symbol(problem)
    arguments, outputs, _ = net.infer_shape(data=problem.x.shape)
    assert arguments == [value.shape for value in problem.inputs]
    assert outputs == [value.shape for value in problem.outputs() if value is not None]
    for dtype in (np.float32, np.float64):
        arguments, outputs, _ = net.infer_type(data=dtype)
        assert set(arguments) == set(outputs) == {dtype}
    arguments, outputs, _ = net.infer_shape_partial()
    assert len(arguments) == len(problem.inputs)


def test_begin_states_of_unknown_batch_size_are_inferred():
    zeros = mx.sym.zeros((2, 0, 4))
    net = mx.sym.FusedRNN(mx.sym.var("data"), state=zeros, mode="gru", state_size=4, num_layers=2)
    assert net.infer_shape(data=(5, 2, 3))[1] == [(5, 2, 4)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("mode", CELLS)
def test_bind(mode, D, dtype):
    problem = make(mode, L=2, D=D, dtype=dtype)
    executor = bind(problem, dtype)
    for training in (True, False, True):
        executor.forward(is_train=training)
        check_outputs(
            [a.asnumpy() for a in executor.outputs], problem.outputs(), problem.shape, dtype
        )
    executor.backward(heads(problem, dtype))
    check_gradients(gradients_of(executor, problem), problem.gradients(), problem.shape, dtype)


@pytest.mark.parametrize("mode", CELLS)
def test_backward_after_a_forward_in_predict_mode(mode):
    problem = make(mode, L=2, D=2)
    executor = bind(problem)
    executor.forward(is_train=False)
    executor.backward(heads(problem))
    check_gradients(gradients_of(executor, problem), problem.gradients(), problem.shape)


@pytest.mark.parametrize("mode", CELLS)
def test_requests(mode):
    problem = make(mode, L=2, D=2)
    names = argument_names(problem)
    expected = [g for g in problem.gradients() if g is not None]
    for first in range(len(names)):
        requests = dict(
            zip(names, itertools.islice(itertools.cycle(("add", "null", "write")), first, None))
        )
        executor = bind(problem, grad_req=requests)
        for k in (1, 2):
            executor.forward(is_train=True)
            executor.backward(heads(problem))
            for name, gradient in zip(names, expected):
                if requests[name] == "null":
                    assert executor.grad_dict.get(name) is None
                    continue
                target = 7 + k * gradient if requests[name] == "add" else gradient
                actual = executor.grad_dict[name].asnumpy()
                check(actual, target, problem.shape, gradient=True, what=f"{name} {requests}")


@pytest.mark.parametrize("mode", CELLS)
def test_every_output_bound_alone(mode):
    """The output that a caller leaves out may have no memory at all, y included."""
    problem = make(mode, L=2, D=2)
    names = ("dy", "dhN", "dcN")
    for k, expected in enumerate(value for value in problem.outputs() if value is not None):
        executor = bind(problem, net=symbol(problem)[k])
        executor.forward(is_train=True)
        executor.backward(heads(problem)[k : k + 1])
        check(executor.outputs[0].asnumpy(), expected, problem.shape, what=names[k][1:])
        only = problem.replace(**{name: None for name in names if name != names[k]})
        check_gradients(gradients_of(executor, problem), only.gradients(), problem.shape)


@pytest.mark.parametrize("count", [2, 10])
def test_symbols_that_share_weights(count):
    """The executor sums their gradients, from some number of terms on by adding to one array in
    place.
    """
    problem = make("lstm", L=2, D=2)
    variables = [mx.sym.var(name) for name in argument_names(problem)]
    attributes = operator_attributes(problem, state_outputs=False)
    total = mx.sym.add_n(
        *(mx.sym.FusedRNN(*variables, name=f"l{k}", **attributes) for k in range(count))
    )
    executor = bind(problem, net=total)
    executor.forward(is_train=True)
    executor.backward(heads(problem)[:1])
    check(executor.outputs[0].asnumpy(), count * problem.outputs().y, problem.shape, what="y")
    gradients = problem.replace(dhN=None, dcN=None).gradients()
    expected = Gradients(*(count * gradient for gradient in gradients))
    check_gradients(gradients_of(executor, problem), expected, problem.shape)


def test_states_behind_a_block_of_gradients():
    problem = make("lstm", L=2, D=2)
    net = symbol(problem)
    group = mx.sym.Group([net[0], mx.sym.BlockGrad(net[1]), mx.sym.BlockGrad(net[2])])
    executor = bind(problem, net=group)
    executor.forward(is_train=True)
    executor.backward(heads(problem))
    check_outputs([a.asnumpy() for a in executor.outputs], problem.outputs(), problem.shape)
    only = problem.replace(dhN=None, dcN=None)
    check_gradients(gradients_of(executor, problem), only.gradients(), problem.shape)


def test_executor_changes_shape():
    executor = bind(make("lstm", L=2, D=2))
    for T, N in ((9, 3), (2, 1), (5, 2)):
        problem = make("lstm", T=T, N=N, L=2, D=2)
        states = {name: array.shape for name, array in zip(argument_names(problem), problem.inputs)}
        states.pop("layer_parameters")
        executor = executor.reshape(allow_up_sizing=True, **states)
        for name, array in zip(argument_names(problem), operator_inputs(problem)):
            executor.arg_dict[name][:] = array
        executor.forward(is_train=True)
        executor.backward(heads(problem))
        check_outputs([a.asnumpy() for a in executor.outputs], problem.outputs(), problem.shape)
        check_gradients(gradients_of(executor, problem), problem.gradients(), problem.shape)


def test_stacked_symbols():
    """Two operators in one graph, the second on the first's output: equal to one of two layers."""
    problem = make("rnn_tanh", L=2)
    attributes = {"mode": "rnn_tanh", "state_size": 4, "num_layers": 1}
    lower = mx.sym.FusedRNN(mx.sym.var("data"), name="lower", **attributes)
    upper = mx.sym.FusedRNN(lower, name="upper", **attributes)
    executor = upper.simple_bind(mx.cpu(), type_dict={"data": "float64"}, data=problem.x.shape)
    weights = reference.unpack(problem.shape, problem.params)
    for l, name in enumerate(("lower", "upper")):
        part = np.concatenate([weights[l, 0, k].reshape(-1) for k in ("W", "R", "bW", "bR")])
        executor.arg_dict[f"{name}_parameters"][:] = part
        executor.arg_dict[f"{name}_state"][:] = problem.h0[l : l + 1]
    executor.arg_dict["data"][:] = problem.x
    executor.forward(is_train=True)
    executor.backward(heads(problem)[:1])
    check(executor.outputs[0].asnumpy(), problem.outputs().y, problem.shape, what="y")
    dx = problem.replace(dhN=None).gradients().dx
    check(executor.grad_dict["data"].asnumpy(), dx, problem.shape, gradient=True, what="dx")


@pytest.mark.parametrize("mode", CELLS)
def test_files(mode, tmp_path):
    problem = make(mode, L=2, D=2)
    net = symbol(problem)
    path = str(tmp_path / "net.json")
    net.save(path)
    for loaded in (mx.sym.load(path), mx.sym.load_json(net.tojson())):
        assert loaded.list_arguments() == net.list_arguments()
        assert loaded.list_outputs() == net.list_outputs()
        assert loaded.attr_dict() == net.attr_dict()
        executor = bind(problem, net=loaded)
        executor.forward(is_train=True)
        executor.backward(heads(problem))
        check_outputs([a.asnumpy() for a in executor.outputs], problem.outputs(), problem.shape)
        check_gradients(gradients_of(executor, problem), problem.gradients(), problem.shape)


def test_added_gradients_start_anywhere():
    problem = make("lstm", L=2, D=2)
    executor = bind(problem, grad_req="add")
    executor.forward(is_train=True)
    executor.backward(heads(problem))
    expected = Gradients(*(7 + g for g in problem.gradients()))
    check_gradients(gradients_of(executor, problem), expected, problem.shape)
