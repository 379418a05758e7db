"""Tests of a process in which RNN itself runs on our kernels; test_install.py starts it, so this
name is not collected.
"""

from __future__ import annotations

import gc
import os
import warnings

import mxnet as mx
import numpy as np
import pytest
import reference
from helpers import (
    check,
    check_gradients,
    check_outputs,
    make,
    nd,
    operator_attributes,
    operator_forward,
    operator_gradients,
    operator_inputs,
)
from reference import MODES

import fused_rnn

DTYPES = ("float64", "float32")


def states() -> int:
    mx.nd.waitall()
    gc.collect()
    mx.nd.waitall()
    return fused_rnn.memory()["states"]


def test_installed():
    """By the variable at import where the parent set it, else by this call: what ran natively
    before it ends well.
    """
    problem = make("lstm", L=2, D=2, dtype="float32")
    heads = [nd(head, "float32") for head in problem.heads]
    arrays = operator_inputs(problem, "float32")
    for array in arrays:
        array.attach_grad()
    with mx.autograd.record():
        outputs = mx.nd.RNN(*arrays, **operator_attributes(problem))
    mx.nd.waitall()
    net = mx.sym.RNN(mx.sym.var("data"), **operator_attributes(problem))
    executor = net.simple_bind(mx.cpu(), data=problem.x.shape)
    for name, array in zip(net.list_arguments(), arrays):
        executor.arg_dict[name][:] = array
    executor.forward(is_train=True)
    block = gluon_layer(problem, "float32")
    block.hybridize(static_alloc=True)
    with mx.autograd.record():
        y = block(arrays[0], arrays[2:])[0]
    y.wait_to_read()

    if os.environ.get("FUSED_RNN_INSTALL") != "1":
        assert not fused_rnn.installed()
        fused_rnn.install()
    assert fused_rnn.installed()
    fused_rnn.install()
    assert fused_rnn.installed()

    expected = problem.gradients()
    mx.autograd.backward(outputs, heads)
    gradients = [array.grad.asnumpy() for array in arrays]
    check_gradients(gradients, expected, problem.shape, "float32")
    for _ in range(2):
        executor.backward(heads)
        gradients = [executor.grad_dict[name].asnumpy() for name in net.list_arguments()]
        check_gradients(gradients, expected, problem.shape, "float32")
        executor.forward(is_train=True)
        check_outputs(
            [a.asnumpy() for a in executor.outputs], problem.outputs(), problem.shape, "float32"
        )
    y.backward(heads[0])
    only = problem.replace(dhN=None, dcN=None).gradients().dparams
    check(gluon_gradients(block, problem), only, problem.shape, "float32", gradient=True)
    check(block(arrays[0], arrays[2:])[0].asnumpy(), problem.outputs().y, problem.shape, "float32")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_imperative(mode, D, dtype):
    """Double relu, and gradients of three layers in double: what native gets wrong."""
    problem = make(mode, L=3, D=D, dtype=dtype)
    expected = problem.outputs()
    for op in (mx.nd.RNN, fused_rnn.nd.RNN, mx.nd.FusedRNN):
        check_outputs(operator_forward(problem, dtype, op=op), expected, problem.shape, dtype)
        outputs, gradients = operator_gradients(problem, dtype, op=op)
        check_outputs(outputs, expected, problem.shape, dtype)
        check_gradients(gradients, problem.gradients(), problem.shape, dtype)


def test_the_kernels_are_ours():
    problem = make("lstm", L=2)
    arrays = operator_inputs(problem)
    arrays[0].attach_grad()
    before = states()
    with mx.autograd.record():
        y = mx.nd.RNN(*arrays, **operator_attributes(problem))
    assert states() == before + 1
    y[0].backward()
    del y
    assert states() == before


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_symbol_and_json(mode, loaded):
    problem = make(mode, L=3, D=2)
    net = mx.sym.RNN(mx.sym.var("data"), name="layer", **operator_attributes(problem))
    if loaded:
        net = mx.sym.load_json(net.tojson())
    before = states()
    executor = net.simple_bind(mx.cpu(), type_dict={"data": "float64"}, data=problem.x.shape)
    for name, array in zip(net.list_arguments(), operator_inputs(problem)):
        executor.arg_dict[name][:] = array
    executor.forward(is_train=True)
    assert states() == before + 1
    executor.backward([mx.nd.array(head, dtype="float64") for head in problem.heads])
    check_outputs([a.asnumpy() for a in executor.outputs], problem.outputs(), problem.shape)
    gradients = [executor.grad_dict[name].asnumpy() for name in net.list_arguments()]
    check_gradients(gradients, problem.gradients(), problem.shape)


@pytest.mark.parametrize("mode", MODES)
def test_numpy_front_end(mode):
    problem = make(mode, L=2, D=2)
    mx.npx.set_np()
    try:
        keys = ("data", "parameters", "state", "state_cell")
        arrays = {k: mx.np.array(v, dtype="float64") for k, v in zip(keys, problem.inputs)}
        outputs = mx.npx.rnn(**arrays, **operator_attributes(problem))
        check_outputs([a.asnumpy() for a in outputs], problem.outputs(), problem.shape)
    finally:
        mx.npx.reset_np()


GLUON = {
    "rnn_relu": lambda H, **k: mx.gluon.rnn.RNN(H, activation="relu", **k),
    "rnn_tanh": lambda H, **k: mx.gluon.rnn.RNN(H, activation="tanh", **k),
    "lstm": mx.gluon.rnn.LSTM,
    "gru": mx.gluon.rnn.GRU,
}
PARTS = {
    "W": "i2h_weight",
    "R": "h2h_weight",
    "bW": "i2h_bias",
    "bR": "h2h_bias",
    "Wp": "h2r_weight",
}


def gluon_layer(problem, dtype="float64", **extra):
    """mx.gluon.rnn's layer with the problem's weights."""
    s = problem.shape
    net = GLUON[s.mode](
        s.H, num_layers=s.L, bidirectional=s.D == 2, input_size=s.I, dtype=dtype, **extra
    )
    net.initialize()
    for (l, d, name), value in reference.unpack(s, problem.params).items():
        parameter = getattr(net, f"{'lr'[d]}{l}_{PARTS[name]}")
        parameter.set_data(mx.nd.array(value, dtype=dtype))
    return net


def gluon_gradients(net, problem):
    parts = {
        (l, d, name): getattr(net, f"{'lr'[d]}{l}_{PARTS[name]}").grad().asnumpy()
        for l, d, name, _ in problem.shape.blocks()
    }
    return reference.pack(problem.shape, parts)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hybrid", [None, {}, {"static_alloc": True, "static_shape": True}])
@pytest.mark.parametrize("mode", MODES)
def test_gluon_layers(mode, hybrid, dtype):
    problem = make(mode, L=3, D=2, dtype=dtype)
    net = gluon_layer(problem, dtype)
    if hybrid is not None:
        net.hybridize(**hybrid)
    data, _, *initial = operator_inputs(problem, dtype)
    for _ in range(2):
        for array in (data, *initial):
            array.attach_grad()
        with mx.autograd.record():
            y, final = net(data, initial)
        outputs = [y, *final]
        heads = [mx.nd.array(head, dtype=dtype) for head in problem.heads]
        mx.autograd.backward(outputs, heads)
        check_outputs([a.asnumpy() for a in outputs], problem.outputs(), problem.shape, dtype)
        gradients = [data.grad.asnumpy(), gluon_gradients(net, problem)]
        gradients += [array.grad.asnumpy() for array in initial]
        check_gradients(gradients, problem.gradients(), problem.shape, dtype)


@pytest.mark.parametrize("mode", MODES)
def test_batch_first_layout(mode):
    """NTC changes the axes of data and output only: states stay layer, batch, channel."""
    problem = make(mode, T=7, N=8, L=2)
    time_first = gluon_layer(problem)
    batch_first = gluon_layer(problem, layout="NTC")
    data, _, *initial = operator_inputs(problem)
    y, final = time_first(data, initial)
    swapped, same = batch_first(data.swapaxes(0, 1), initial)
    np.testing.assert_array_equal(swapped.swapaxes(0, 1).asnumpy(), y.asnumpy())
    for a, b in zip(same, final):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
    check(y.asnumpy(), problem.outputs().y, problem.shape, what="y")


def test_default_states_and_training_without_data_gradient():
    """The ordinary first layer: states left out, gradients of weights only."""
    problem = make("gru", L=3, D=2)
    problem.h0[:] = 0
    net = gluon_layer(problem)
    data = operator_inputs(problem)[0]
    with mx.autograd.record():
        y = net(data)
    y.backward(mx.nd.array(problem.dy, dtype="float64"))
    check(y.asnumpy(), problem.outputs().y, problem.shape, what="y")
    expected = problem.replace(dhN=None).gradients().dparams
    check(gluon_gradients(net, problem), expected, problem.shape, gradient=True, what="dparams")


@pytest.mark.parametrize("mode", MODES)
def test_fused_cell(mode):
    problem = make(mode, L=2, D=2, dtype="float32")
    cell = mx.rnn.FusedRNNCell(
        4, num_layers=2, mode=mode, bidirectional=True, get_next_state=True, prefix="layer_"
    )
    begin = [mx.sym.var(name) for name in ("h0", "c0")[: len(problem.inputs) - 2]]
    outputs, final = cell.unroll(
        5, mx.sym.var("data"), begin_state=begin, layout="TNC", merge_outputs=True
    )
    net = mx.sym.Group([outputs, *final])
    executor = net.simple_bind(mx.cpu(), data=problem.x.shape)
    names = ("data", "layer_parameters", "h0", "c0")
    for name, value in zip(names, problem.inputs):
        executor.arg_dict[name][:] = value
    executor.forward(is_train=True)
    executor.backward([mx.nd.array(head) for head in problem.heads])
    check_outputs(
        [a.asnumpy() for a in executor.outputs], problem.outputs(), problem.shape, "float32"
    )
    gradients = [executor.grad_dict[name].asnumpy() for name in names[: len(problem.inputs)]]
    check_gradients(gradients, problem.gradients(), problem.shape, "float32")


def test_module_on_two_contexts():
    """A batch split over two devices gives the whole batch's output and summed gradients."""
    problem = make("gru", T=7, N=8, L=2, dtype="float32")
    problem.h0[:] = 0
    cell = mx.rnn.FusedRNNCell(4, num_layers=2, mode="gru", prefix="layer_")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MXNet advises against NTC
        net, _ = cell.unroll(7, mx.sym.var("data"), layout="NTC", merge_outputs=True)
    module = mx.mod.Module(
        net, data_names=["data"], label_names=None, context=[mx.cpu(0), mx.cpu(1)]
    )
    module.bind([mx.io.DataDesc("data", (8, 7, 3), layout="NTC")], for_training=True)
    module.init_params(arg_params={"layer_parameters": mx.nd.array(problem.params)}, aux_params={})
    module.init_optimizer(
        optimizer="sgd", optimizer_params={"learning_rate": 1.0, "rescale_grad": 1.0, "wd": 0.0}
    )
    batch_first = mx.nd.array(problem.x.swapaxes(0, 1))
    module.forward(mx.io.DataBatch([batch_first]), is_train=True)
    y = module.get_outputs()[0].asnumpy().swapaxes(0, 1)
    check(y, problem.outputs().y, problem.shape, "float32", what="y")
    module.backward([mx.nd.array(problem.dy.swapaxes(0, 1))])
    module.update()
    after = module.get_params()[0]["layer_parameters"].asnumpy()
    expected = problem.params - problem.replace(dhN=None).gradients().dparams
    check(after, expected, problem.shape, "float32", gradient=True, what="parameters")


def test_exported_layer(tmp_path):
    problem = make("lstm", L=2, D=2, dtype="float32")
    net = gluon_layer(problem, "float32")
    net.hybridize()
    data, _, *initial = operator_inputs(problem, "float32")
    net(data, initial)
    path = str(tmp_path / "net")
    net.export(path)
    names = ["data0", "data1", "data2"]
    loaded = mx.gluon.SymbolBlock.imports(f"{path}-symbol.json", names, f"{path}-0000.params")
    outputs = [a.asnumpy() for a in loaded(data, *initial)]
    check_outputs(outputs, problem.outputs(), problem.shape, "float32")


def test_bad_calls_still_say_the_native_words():
    problem = make("lstm", dtype="float32")
    data, parameters, *initial = operator_inputs(problem, "float32")
    with pytest.raises(mx.MXNetError, match="Shape inconsistent, Provided = "):
        mx.nd.RNN(data, parameters[:-1], *initial, **operator_attributes(problem)).wait_to_read()


def test_weights_change_between_predictions():
    problem = make("lstm", T=1, dtype="float32")
    other = problem.replace(params=make("lstm", T=1, seed=1, dtype="float32").params)
    net = gluon_layer(problem, "float32")
    net.hybridize(static_alloc=True, static_shape=True)
    data, _, *initial = operator_inputs(problem, "float32")
    check(net(data, initial)[0].asnumpy(), problem.outputs().y, problem.shape, "float32")
    for (l, d, name), value in reference.unpack(problem.shape, other.params).items():
        getattr(net, f"{'lr'[d]}{l}_{PARTS[name]}").set_data(mx.nd.array(value))
    check(net(data, initial)[0].asnumpy(), other.outputs().y, problem.shape, "float32")
