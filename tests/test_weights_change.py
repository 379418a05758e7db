"""No prediction uses weights from before a change, by whichever route they were changed.

An operator that keeps weights in a layout of its own must see every change, also one made in place
through another array or past MXNet altogether. Between two predictions each test changes the
weights of a live operator, and compares with the reference for the new weights. It predicts three
times first, so that what is kept from call to call would be there.
"""

from __future__ import annotations

import threading
from functools import partial

import mxnet as mx
import numpy as np
import pytest
from helpers import check, make, operator_attributes, operator_inputs
from reference import CELLS
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


@pytest.fixture(autouse=True, params=[0, 15], ids=["one by one", "in bulk"])
def bulk(request):
    """Operators are pushed to the engine one by one, or in segments of up to 15."""
    with mx.engine.bulk(request.param):
        yield


def expect(predict, problem):
    for _ in range(3):
        y = predict()
        y = y[0] if isinstance(y, (list, tuple)) else y
        check(y.asnumpy(), problem.outputs().y, problem.shape, DTYPE, what="y")


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.__name__)
@pytest.mark.parametrize("mode", CELLS)
def test_arrays(mode, route):
    for T in (1, 6):
        before, after = problems(mode, T)
        arrays = operator_inputs(before, DTYPE)
        attributes = operator_attributes(before)
        expect(partial(mx.nd.FusedRNN, *arrays, **attributes), before)
        route(arrays[1], mx.nd.array(after.params, dtype=DTYPE))
        expect(partial(mx.nd.FusedRNN, *arrays, **attributes), after)


@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("mode", CELLS)
def test_memory_shared_with_numpy(mode, how):
    """No write counter sees this one."""
    before, after = problems(mode, 1)
    memory = before.params.astype(DTYPE)
    data, _, *states = operator_inputs(before, DTYPE)
    net = layer(before, how, DTYPE)
    net.weights._data[0] = mx.nd.from_numpy(memory[:])  # makes the view read-only, not memory
    expect(partial(net, data, *states), before)
    memory[:] = after.params
    expect(partial(net, data, *states), after)


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
@pytest.mark.parametrize("mode", CELLS)
def test_blocks(mode, how, route, tmp_path):
    before, after = problems(mode, 6)
    net = layer(before, how, DTYPE)
    data, _, *states = operator_inputs(before, DTYPE)
    expect(partial(net, data, *states), before)
    route(net, mx.nd.array(after.params, dtype=DTYPE), str(tmp_path / "weights"))
    expect(partial(net, data, *states), after)


@pytest.mark.parametrize("how", HYBRID)
def test_training_between_predictions(how):
    before, after = problems("lstm", 6)
    net = layer(before, how, DTYPE)
    data, _, *states = operator_inputs(before, DTYPE)
    for problem in (before, after, before):
        net.weights.set_data(mx.nd.array(problem.params, dtype=DTYPE))
        expect(partial(net, data, *states), problem)
        with mx.autograd.record():
            outputs = net(data, *states)
        outputs[0].backward()
        expect(partial(list, outputs), problem)
        expect(partial(net, data, *states), problem)


@pytest.mark.parametrize("mode", CELLS)
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
        expect(lambda: module.forward(batch, is_train=False) or module.get_outputs(), problem)
    executor = net.bind(mx.cpu(), dict(zip(net.list_arguments(), operator_inputs(before, DTYPE))))
    expect(executor.forward, before)
    executor.copy_params_from({"layer_parameters": new})
    expect(executor.forward, after)


@pytest.mark.parametrize("how", HYBRID)
def test_weights_that_an_operator_of_the_same_graph_writes(how):
    before, after = problems("lstm", 1)
    data, parameters, *states = operator_inputs(before, DTYPE)
    change = mx.nd.array(after.params - before.params, dtype=DTYPE)

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, weights, change, share, data, *states):
            weights = F.broadcast_add(weights, F.broadcast_mul(change, share))
            return F.FusedRNN(data, weights, *states, **operator_attributes(before))

    net = Net()
    if HYBRID[how] is not None:
        net.hybridize(**HYBRID[how])
    for share, problem in ((0, before), (1, after), (0, before)):
        inputs = (parameters, change, mx.nd.array([share], dtype=DTYPE), data, *states)
        expect(partial(net, *inputs), problem)


def test_executors_that_share_arrays():
    before, after = problems("gru", 1)
    net = mx.sym.FusedRNN(mx.sym.var("data"), name="layer", **operator_attributes(before))
    arrays = dict(zip(net.list_arguments(), operator_inputs(before, DTYPE)))
    executors = [net.bind(mx.cpu(), arrays) for _ in range(2)]
    for problem in (before, after):
        arrays["layer_parameters"][:] = mx.nd.array(problem.params, dtype=DTYPE)
        for executor in executors:
            expect(executor.forward, problem)


def test_threads_with_weights_of_their_own():
    both = problems("lstm", 1)
    faults = []

    def work(problem):
        try:
            arrays = operator_inputs(problem, DTYPE)
            for _ in range(20):
                expect(partial(mx.nd.FusedRNN, *arrays, **operator_attributes(problem)), problem)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(problem,)) for problem in (*both, *both)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_another_array_at_the_same_address():
    """MXNet's pool hands freed memory out again: an address does not identify weights."""
    before, after = problems("gru", 1)
    attributes = operator_attributes(before)
    for problem in (before, after, before, after):
        data, parameters, state = operator_inputs(problem, DTYPE)
        expect(partial(mx.nd.FusedRNN, data, parameters, state, **attributes), problem)
        del parameters
    assert not np.array_equal(before.params, after.params)
