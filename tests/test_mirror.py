"""Memory mirroring: MXNet computes nodes again for the backward (MXNET_BACKWARD_DO_MIRROR, or the
attribute __force_mirroring__). Dropout must then have one mask, that of the output.
"""

from __future__ import annotations

import contextlib

import mxnet as mx
import numpy as np
import pytest
from helpers import (
    check_gradients,
    check_outputs,
    make,
    operator_attributes,
    operator_inputs,
    run_tests,
)
from masks import find
from reference import CELLS, Gradients
from test_hybridize import HYBRID, layer, step

import fused_rnn


@pytest.fixture(params=["environment", "attribute"])
def mirrored(request, monkeypatch):
    """Attributes of nodes to be mirrored."""
    if request.param == "attribute":
        return {"__force_mirroring__": "True"}
    monkeypatch.setenv("MXNET_BACKWARD_DO_MIRROR", "1")
    return {}


def symbol(problem, p, attr, name="a"):
    return mx.sym.FusedRNN(
        *map(mx.sym.var, ("data", *(f"{name}_{kind}" for kind in ("parameters", "state")))),
        *([] if problem.c0 is None else [mx.sym.var(f"{name}_state_cell")]),
        **operator_attributes(problem, p=p),
        name=name,
        attr=attr,
    )


def bind(net, problem, request="write"):
    executor = net.simple_bind(
        mx.cpu(), request, type_dict={"data": "float64"}, data=problem.x.shape
    )
    for array, value in zip(executor.arg_arrays, operator_inputs(problem)):
        array[:] = value
    return executor


def heads(problem):
    return [mx.nd.array(head, dtype="float64") for head in problem.heads]


def masks_of(shape, attr, p, seed):
    """Found by running probes in executors as the problem is."""

    def run(probe):
        executor = bind(symbol(probe, p, attr), probe)
        mx.random.seed(seed)
        return executor.forward(is_train=True)[0].asnumpy()

    return find(shape, run)


def copies(executor):
    return executor.debug_str().count("Name=a_mirror\n")


@pytest.mark.parametrize("L", [2, 3])
@pytest.mark.parametrize("mode", CELLS)
def test_one_mask(mode, L, mirrored):
    problem = make(mode, T=6, N=4, H=8, L=L, D=2)
    executor = bind(symbol(problem, 0.5, mirrored), problem)
    assert copies(executor) == 1
    for seed in (1, 2, 3):
        expected = problem.replace(options={"masks": masks_of(problem.shape, mirrored, 0.5, seed)})
        mx.random.seed(seed)
        outputs = executor.forward(is_train=True)
        check_outputs([a.asnumpy() for a in outputs], expected.outputs(), problem.shape)
        executor.backward(heads(problem))
        gradients = [array.asnumpy() for array in executor.grad_arrays]
        check_gradients(gradients, expected.gradients(), problem.shape)


def test_without_waiting_between_the_passes(mirrored):
    """Many iterations in flight: each copy has the mask of its own iteration."""
    problem = make("rnn_relu", T=6, N=4, H=8, L=2)
    executor = bind(symbol(problem, 0.5, mirrored), problem)
    found = []
    mx.random.seed(3)
    for _ in range(50):
        outputs = executor.forward(is_train=True)
        executor.backward(heads(problem))
        found.append([a.copy() for a in (*outputs, *executor.grad_arrays)])
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MXNET_BACKWARD_DO_MIRROR", raising=False)
        plain = bind(symbol(problem, 0.5, {}), problem)
    assert (copies(executor), copies(plain)) == (1, 0)
    mx.random.seed(3)
    for copied in found:
        outputs = plain.forward(is_train=True)
        plain.backward(heads(problem))
        for a, b in zip(copied, (*outputs, *plain.grad_arrays)):
            np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def test_gradient_of_the_output_itself(mirrored):
    """With ReLU and positive weights the network is linear for a fixed mask: <y, head> is
    <x, dx> where nothing else feeds it, which holds for the output's own mask only.
    """
    shape = make("rnn_relu", T=6, N=4, I=8, H=8, L=2)
    problem = shape.replace(x=np.abs(shape.x), h0=0 * shape.h0, dhN=0 * shape.dhN)
    weights = np.abs(problem.params)
    weights[-4 * 8 :] = 0
    problem = problem.replace(params=weights)
    executor = bind(symbol(problem, 0.5, mirrored), problem)
    for _ in range(5):
        y = executor.forward(is_train=True)[0].asnumpy()
        executor.backward(heads(problem))
        dx = executor.grad_arrays[0].asnumpy()
        np.testing.assert_allclose((y * problem.dy).sum(), (problem.x * dx).sum(), rtol=1e-9)


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_the_original_keeps_no_reserve(p, mirrored):
    """Its backward goes to the copy: to keep one would take the memory that mirroring saves."""
    problem = make("lstm", T=40, N=8, H=32, L=2)
    executor = bind(symbol(problem, p, mirrored), problem)
    mx.nd.waitall()
    before = fused_rnn.memory()["reserve"]
    executor.forward(is_train=True)
    mx.nd.waitall()
    assert fused_rnn.memory()["reserve"] == before
    executor.backward(heads(problem))
    mx.nd.waitall()
    assert fused_rnn.memory()["reserve"] == before


def test_added_gradients_and_predictions_between(mirrored):
    problem = make("gru", T=6, N=4, H=8, L=2)
    executor = bind(symbol(problem, 0.5, mirrored), problem, "add")
    totals = []
    for seed in (1, 2):
        expected = problem.replace(
            options={"masks": masks_of(problem.shape, mirrored, 0.5, seed)}
        ).gradients()
        mx.random.seed(seed)
        executor.forward(is_train=False)
        mx.nd.waitall()  # an executor's calls look at the latest is_train when they run
        executor.forward(is_train=True)
        executor.backward(heads(problem))
        totals.append(expected)
    total = Gradients(*(None if a is None else a + b for a, b in zip(*totals)))
    gradients = [array.asnumpy() for array in executor.grad_arrays]
    check_gradients(gradients, total, problem.shape)
    executor = bind(symbol(problem, 0.5, mirrored), problem)
    executor.forward(is_train=False)
    executor.backward(heads(problem))
    gradients = [array.asnumpy() for array in executor.grad_arrays]
    check_gradients(gradients, problem.gradients(), problem.shape)


def test_a_stack_of_nodes_in_several_executors(mirrored):
    """Nodes of one name and the same inputs in several graphs, bound and run in turn."""
    problem = make("lstm", T=6, N=4, I=8, H=8, L=2)

    def bound(attr):
        first = symbol(problem, 0.5, attr, "a")
        second = symbol(problem, 0.5, attr, "b")
        second = mx.sym.FusedRNN(
            first[0],
            *map(mx.sym.var, second.list_arguments()[1:]),
            **operator_attributes(problem, p=0.5),
            name="b",
            attr=attr,
        )
        executor = second.simple_bind(mx.cpu(), type_dict={"data": "float64"}, data=problem.x.shape)
        values = dict(zip(first.list_arguments(), operator_inputs(problem)))
        for name, array in executor.arg_dict.items():
            array[:] = values[name.replace("b_", "a_")]
        return executor

    def run(executors):
        mx.random.seed(4)
        for executor in executors:
            executor.forward(is_train=True)
        for executor in executors:
            executor.backward(heads(problem))
        return [[a.asnumpy() for a in (*e.outputs, *e.grad_arrays)] for e in executors]

    found = run([bound(mirrored) for _ in range(3)])
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MXNET_BACKWARD_DO_MIRROR", raising=False)
        expected = run([bound({}) for _ in range(3)])
    for actual, plain in zip(found, expected):
        for a, b in zip(actual, plain):
            np.testing.assert_array_equal(a, b)


def test_module(mirrored):
    problem = make("rnn_tanh", T=6, N=4, H=8, L=2)
    masks = masks_of(problem.shape, mirrored, 0.5, 7)
    net = symbol(problem, 0.5, mirrored)[0]
    net._set_attr(__layout__="TNC")
    names = net.list_arguments()
    module = mx.mod.Module(net, data_names=names[:1], label_names=None, fixed_param_names=None)
    data = mx.io.DataDesc("data", problem.x.shape, "float64", layout="TNC")
    module.bind([data], inputs_need_grad=True)
    arrays = dict(zip(names, operator_inputs(problem)))
    batch = mx.io.DataBatch([arrays.pop("data")])
    module.set_params(arrays, {})
    mx.random.seed(7)
    module.forward(batch, is_train=True)
    module.backward(heads(problem)[:1])
    expected = problem.replace(options={"masks": masks}, dhN=None)
    check_outputs([module.get_outputs()[0].asnumpy()], expected.outputs(), problem.shape)
    dx = module.get_input_grads()[0].asnumpy()
    gradients = module._exec_group.grad_arrays
    check_gradients([dx, *(g[0].asnumpy() for g in gradients)], expected.gradients(), problem.shape)


def test_inputs_changed_between_the_passes_are_refused(mirrored):
    problem = make("gru", T=6, N=4, H=8, L=2)
    executor = bind(symbol(problem, 0.5, mirrored), problem)
    executor.forward(is_train=True)
    executor.arg_dict["a_parameters"][:] = 0.1
    executor.backward(heads(problem))
    with pytest.raises(mx.MXNetError, match="'a_mirror'.*copy of 'a'.*MXNET_BACKWARD_DO_MIRROR"):
        executor.grad_arrays[0].wait_to_read()
    with contextlib.suppress(mx.MXNetError):  # of the other gradients
        mx.nd.waitall()
    executor = bind(symbol(problem, 0, mirrored), problem)
    executor.forward(is_train=True)
    executor.backward(heads(problem))
    check_gradients([a.asnumpy() for a in executor.grad_arrays], problem.gradients(), problem.shape)


def test_nodes_of_one_name_are_refused(mirrored):
    """One input and the same weights twice, for two masks: the copies look alike."""
    problem = make("gru", T=6, N=4, H=8, L=2)

    def run(second):
        variables = [mx.sym.var(name) for name in ("data", "parameters", "state")]
        attributes = operator_attributes(problem, p=0.5, state_outputs=False)
        first, other = (
            mx.sym.FusedRNN(*variables, **attributes, name=name, attr=mirrored)
            for name in ("a", second)
        )
        net = first + other
        executor = bind(net, problem)
        executor.forward(is_train=True)
        executor.backward(heads(problem)[0])
        return executor.grad_arrays[0]

    gradient = run("a")
    with pytest.raises(mx.MXNetError, match="several nodes named 'a'"):
        gradient.wait_to_read()
    with contextlib.suppress(mx.MXNetError):
        mx.nd.waitall()
    assert np.isfinite(run("b").asnumpy()).all()


@pytest.mark.parametrize("how", HYBRID)
def test_blocks_are_not_mirrored(how, monkeypatch):
    """MXNet mirrors graphs of executors only; the setting changes nothing here."""
    problem = make("lstm", L=2, D=2)

    def run():
        mx.random.seed(2)
        return step(layer(problem, how, p=0.5), problem)

    plain = run()
    monkeypatch.setenv("MXNET_BACKWARD_DO_MIRROR", "1")
    for a, b in zip(sum(plain, []), sum(run(), [])):
        np.testing.assert_array_equal(a, b)


def test_a_node_that_is_merely_called_so():
    """Without an original of that name it is a node as any other."""
    problem = make("gru", L=2)
    executor = bind(symbol(problem, 0.5, {}, "lonely_mirror"), problem)
    y = executor.forward(is_train=True)[0].asnumpy()
    assert not np.array_equal(executor.forward(is_train=True)[0].asnumpy(), y)


def test_dropout_under_the_setting():
    """All that is known of masks, and of executors, holds with it."""
    run_tests("test_dropout.py", "test_symbol.py", MXNET_BACKWARD_DO_MIRROR="1", timeout=300)
