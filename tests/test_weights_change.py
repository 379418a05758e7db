"""No prediction uses weights from before a change, by whichever route they were changed.

An operator that keeps weights in a layout of its own must see every change, also one made in place
through another array or past MXNet altogether. Between two predictions each test changes the
weights of a live operator, and compares with the reference for the new weights.
"""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
from helpers import check, make, operator_attributes, operator_inputs
from reference import MODES
from test_hybridize import HYBRID, layer

DTYPE = "float32"


def change_whole(array, new):
    array[:] = new


def change_slices(array, new):
    for begin in range(0, len(new), 50):
        array[begin : begin + 50] = new[begin : begin + 50]


def change_elements(array, new):
    index = mx.nd.arange(len(new), dtype="int32")
    array[index] = new


def copy_to(array, new):
    new.copyto(array)


def through_reshape(array, new):
    array.reshape((2, -1))[:] = new.reshape((2, -1))


def through_slice(array, new):
    half = len(new) // 2
    array[:half][:] = new[:half]
    array[half:][:] = new[half:]


def out_argument(array, new):
    mx.nd.elemwise_add(new, mx.nd.zeros_like(new), out=array)


def in_place_operator(array, new):
    array -= array
    array += new


def optimizer_step(array, new):
    mx.nd.sgd_update(array, array - new, lr=1.0, out=array)


def kvstore_pull(array, new):
    store = mx.kv.create("local")
    store.init(0, new)
    store.pull(0, out=array)


ROUTES = [
    change_whole,
    change_slices,
    change_elements,
    copy_to,
    through_reshape,
    through_slice,
    out_argument,
    in_place_operator,
    optimizer_step,
    kvstore_pull,
]


def problems(mode, T):
    """A problem and the same one with other weights."""
    first = make(mode, T=T, L=2, D=2, dtype=DTYPE)
    other = make(mode, T=T, L=2, D=2, dtype=DTYPE, seed=1)
    return first, first.replace(params=other.params)


def expect(y, problem):
    y = y[0] if isinstance(y, (list, tuple)) else y
    check(y.asnumpy(), problem.outputs().y, problem.shape, DTYPE, what="y")


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.__name__)
@pytest.mark.parametrize("mode", MODES)
def test_arrays(mode, route):
    for T in (1, 6):
        before, after = problems(mode, T)
        arrays = operator_inputs(before, DTYPE)
        attributes = operator_attributes(before)
        expect(mx.nd.FusedRNN(*arrays, **attributes), before)
        route(arrays[1], mx.nd.array(after.params, dtype=DTYPE))
        expect(mx.nd.FusedRNN(*arrays, **attributes), after)


@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("mode", MODES)
def test_memory_shared_with_numpy(mode, how):
    """No write counter sees this one."""
    before, after = problems(mode, 1)
    memory = before.params.astype(DTYPE)
    data, _, *states = operator_inputs(before, DTYPE)
    net = layer(before, how, DTYPE)
    net.weights._data[0] = mx.nd.from_numpy(memory[:])  # makes the view read-only, not memory
    expect(net(data, *states), before)
    memory[:] = after.params
    expect(net(data, *states), after)


def set_data(net, new, path):
    net.weights.set_data(new)


def load_parameters(net, new, path):
    mx.nd.save(path, {"weights": new})
    net.load_parameters(path)


def write_into_data(net, new, path):
    net.weights.data()[:] = new


def trainer_step(net, new, path):
    """The gradient is the difference, so one SGD step of rate 1 leads to the new weights."""
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0, "wd": 0.0})
    with mx.autograd.record():
        loss = (net.weights.data() * (net.weights.data() - new).detach()).sum()
    loss.backward()
    trainer.step(1)


@pytest.mark.parametrize("route", [set_data, load_parameters, write_into_data, trainer_step])
@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("mode", MODES)
def test_blocks(mode, how, route, tmp_path):
    before, after = problems(mode, 6)
    net = layer(before, how, DTYPE)
    data, _, *states = operator_inputs(before, DTYPE)
    expect(net(data, *states), before)
    route(net, mx.nd.array(after.params, dtype=DTYPE), str(tmp_path / "weights"))
    expect(net(data, *states), after)


@pytest.mark.parametrize("how", HYBRID)
def test_training_between_predictions(how):
    before, after = problems("lstm", 6)
    net = layer(before, how, DTYPE)
    data, _, *states = operator_inputs(before, DTYPE)
    for problem in (before, after, before):
        net.weights.set_data(mx.nd.array(problem.params, dtype=DTYPE))
        expect(net(data, *states), problem)
        with mx.autograd.record():
            outputs = net(data, *states)
        outputs[0].backward()
        expect(outputs, problem)
        expect(net(data, *states), problem)


@pytest.mark.parametrize("mode", MODES)
def test_module_and_executor(mode):
    before, after = problems(mode, 6)
    net = mx.sym.FusedRNN(mx.sym.var("data"), name="layer", **operator_attributes(before))
    values = dict(zip(net.list_arguments(), operator_inputs(before, DTYPE)))
    new = mx.nd.array(after.params, dtype=DTYPE)
    module = mx.mod.Module(net[0], data_names=["data"], label_names=None)
    module.bind([("data", before.x.shape)], for_training=False)
    batch = mx.io.DataBatch([values.pop("data")])
    for problem in (before, after, before):
        values["layer_parameters"] = mx.nd.array(problem.params, dtype=DTYPE)
        module.set_params(values, {})
        module.forward(batch, is_train=False)
        expect(module.get_outputs(), problem)
    executor = net.bind(mx.cpu(), dict(zip(net.list_arguments(), operator_inputs(before, DTYPE))))
    expect(executor.forward(), before)
    executor.copy_params_from({"layer_parameters": new})
    expect(executor.forward(), after)


def test_another_array_at_the_same_address():
    """MXNet's pool hands freed memory out again: an address does not identify weights."""
    before, after = problems("gru", 1)
    attributes = operator_attributes(before)
    for problem in (before, after, before, after):
        data, parameters, state = operator_inputs(problem, DTYPE)
        expect(mx.nd.FusedRNN(data, parameters, state, **attributes), problem)
        del parameters
    assert not np.array_equal(before.params, after.params)
