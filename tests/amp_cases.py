"""Tests of a process under mx.contrib.amp.init; test_amp.py starts it once for each type, so this
name is not collected.
"""

from __future__ import annotations

import os

import mxnet as mx
import numpy as np
import pytest
from helpers import check, check_outputs, make, operator_attributes, to_numpy
from mxnet.contrib import amp
from reference import MODES

import fused_rnn

DTYPE = os.environ["AMP_DTYPE"]
amp.init(DTYPE)

CLASSES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}
LENGTHS = [5, 3]


def layer_of(module, problem, **options):
    """A layer of a module with the problem's parameters."""
    shape = problem.shape
    if shape.mode.startswith("rnn"):
        options["activation"] = shape.mode[4:]
    layer = getattr(module, CLASSES[shape.mode])(
        shape.H, shape.L, bidirectional=shape.D == 2, input_size=shape.I, **options
    )
    layer.initialize()
    flat = mx.nd.array(problem.params)
    begin = 0
    parts = fused_rnn.gluon.split_params(layer).values()
    for part in sorted(parts, key=lambda part: part.name.endswith("bias")):
        part.set_data(flat[begin : begin + part.data().size].reshape(part.shape))
        begin += part.data().size
    return layer


def data_and_states(problem):
    x, _, *states = (mx.nd.array(value) for value in problem.inputs)
    return x, states


@pytest.mark.parametrize("converted", [False, True])
@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_layers(mode, D, hybridize, converted):
    problem = make(mode, L=2, D=D, dtype="float16")
    layer = layer_of(mx.gluon.rnn if converted else fused_rnn.gluon, problem)
    if converted:
        fused_rnn.convert(layer)
    if hybridize:
        layer.hybridize()
    x, states = data_and_states(problem)
    y, finals = layer(x, states)
    # As with MXNet's own layers, which it computes in float32 next to bfloat16.
    assert y.dtype == (np.float16 if DTYPE == "float16" else np.float32)
    check_outputs([to_numpy(a) for a in (y, *finals)], problem.outputs(), problem.shape, DTYPE)
    if converted and hybridize:  # MXNet's layers keep to the graph of their first call
        return
    zero = problem.replace(h0=problem.h0 * 0, c0=None if problem.c0 is None else problem.c0 * 0)
    check(to_numpy(layer(x)), zero.outputs().y, problem.shape, DTYPE)


def test_inputs_of_the_other_type():
    """What an operator before the layer gives, with parameters and states in float32."""
    problem = make("gru", dtype="bfloat16")
    layer = layer_of(fused_rnn.gluon, problem)
    x, states = data_and_states(problem)
    dtype = amp.amp.bfloat16 if DTYPE == "bfloat16" else DTYPE
    y, _ = layer(mx.nd.amp_cast(x, dtype=dtype), states)
    check(to_numpy(y), problem.outputs().y, problem.shape, DTYPE)


@pytest.mark.parametrize("length_type", ["float32", "int32"])
@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("module", ["ours", "converted"])
def test_long_sequences(module, hybridize, length_type):
    """A float16 would hold 2500 or 2502."""
    problem = make("gru", T=2503, H=1, I=1, dtype="float16", lengths=[2501, 2499])
    kind = fused_rnn.gluon if module == "ours" else mx.gluon.rnn
    layer = layer_of(kind, problem, use_sequence_length=True)
    if module == "converted":
        fused_rnn.convert(layer)
    if hybridize:
        layer.hybridize()
    x, states = data_and_states(problem)
    lengths = mx.nd.array(problem.options["lengths"], dtype=length_type)
    y, _ = layer(x, states, lengths)
    assert [np.flatnonzero(to_numpy(y)[:, n, 0]).max() for n in (0, 1)] == [2500, 2498]
    check(to_numpy(y), problem.outputs().y, problem.shape, DTYPE)
    for wrong in ([2501.5, 3], [2504, 3]):
        with pytest.raises((mx.MXNetError, ValueError), match="length"):
            layer(x, states, mx.nd.array(wrong))[0].asnumpy()


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("between", ["nothing", "norm", "dropout"])
def test_stack(between, hybridize):
    below, above = make("lstm", H=3, dtype="float16"), make("gru", dtype="float16", seed=1)
    make_block = {
        "nothing": None,
        "norm": fused_rnn.gluon.SequenceBatchNorm,
        "dropout": lambda: fused_rnn.gluon.LockedDropout(0.5),
    }[between]
    net = fused_rnn.gluon.Stack(
        *(layer_of(fused_rnn.gluon, p, use_sequence_length=True) for p in (below, above)),
        between=make_block,
    )
    net.initialize()
    if hybridize:
        net.hybridize()
    x, lengths = mx.nd.array(below.x), mx.nd.array(LENGTHS)
    y = to_numpy(net(x, None, lengths))
    zero = {"h0": 0 * below.h0, "c0": 0 * below.c0, "options": {"lengths": LENGTHS}}
    middle = below.replace(**zero).outputs().y
    if between == "norm":  # whose statistics are the initial ones
        middle /= np.sqrt(1 + 1e-5)
    expected = above.replace(x=middle, h0=0 * above.h0, options={"lengths": LENGTHS}).outputs().y
    check(y, expected, make("gru", L=3).shape, DTYPE)
    with mx.autograd.record():
        loss = (net(x, None, lengths) ** 2).mean()
    loss.backward()
    for param in net.collect_params().values():
        if param.grad_req != "null":
            assert np.isfinite(to_numpy(param.grad())).all()


@pytest.mark.parametrize("api", ["nd", "sym"])
def test_operator_functions(api):
    problem = make("lstm", L=2, dtype="float16")
    arrays = [mx.nd.array(value) for value in problem.inputs]
    attributes = operator_attributes(problem)
    for function in (
        getattr(mx, api).FusedRNN,
        getattr(mx, api).op.FusedRNN,
        getattr(fused_rnn, api).RNN,
    ):
        if api == "nd":
            found = function(*arrays, **attributes)
        else:
            names = ["data", "parameters", "state", "state_cell"]
            symbol = function(*map(mx.sym.var, names), **attributes)
            found = symbol.eval(ctx=mx.cpu(), **dict(zip(names, arrays)))
        check_outputs(map(to_numpy, found), problem.outputs(), problem.shape, DTYPE)


def test_cell():
    problem = make("gru", L=2, D=2, dtype="float16")
    cell = fused_rnn.rnn.FusedRNNCell(4, 2, mode="gru", bidirectional=True, prefix="")
    symbol, _ = cell.unroll(5, mx.sym.var("data"), layout="TNC", merge_outputs=True)
    x, params = mx.nd.array(problem.x), mx.nd.array(problem.params)
    executor = symbol.simple_bind(mx.cpu(), data=x.shape)
    executor.arg_dict["parameters"][:] = params
    (y,) = executor.forward(is_train=True, data=x)
    check(to_numpy(y), problem.replace(h0=problem.h0 * 0).outputs().y, problem.shape, DTYPE)
    executor.backward([mx.nd.ones_like(y)])
    assert np.isfinite(executor.grad_dict["parameters"].asnumpy()).all()


def test_numpy_arrays_stay_as_they_are():
    """AMP does not know npx, MXNet's own operators included."""
    problem = make("gru", dtype="float32")
    with mx.util.np_shape(True), mx.util.np_array(True):
        layer = fused_rnn.gluon.GRU(4, input_size=3)
        layer.initialize()
        layer.parameters.set_data(mx.np.array(problem.params, dtype="float32"))
        x, h = (mx.np.array(v, dtype="float32") for v in (problem.x, problem.h0))
        for hybridize in (False, True):
            layer.hybridize(hybridize)
            y, _ = layer(x, h)
            check(y.asnumpy(), problem.outputs().y, problem.shape, "float32")


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("split", [False, True])
def test_training_with_a_scaled_loss(split, hybridize):
    """The sign of the sum of the inputs so far."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 32, 1)).astype("float32")
    target = mx.nd.array(np.tanh(2 * np.cumsum(x, axis=0)))
    net = mx.gluon.nn.HybridSequential()
    net.add(fused_rnn.gluon.LSTM(8, weight_drop=0.1), fused_rnn.gluon.GRU(1))
    mx.random.seed(0)
    net.initialize(mx.init.Uniform(0.5))
    if hybridize:
        net.hybridize()
    net(mx.nd.array(x))
    params = fused_rnn.gluon.split_params(net) if split else net.collect_params()
    trainer = mx.gluon.Trainer(params, "adam", {"learning_rate": 0.05}, update_on_kvstore=False)
    amp.init_trainer(trainer)
    losses = []
    for _ in range(40):
        with mx.autograd.record():
            y = mx.nd.amp_cast(net(mx.nd.array(x)), dtype="float32")
            loss = ((y - target) ** 2).mean()
            with amp.scale_loss(loss, trainer) as scaled:
                mx.autograd.backward(scaled)
        trainer.step(1)
        losses.append(loss.asscalar())
    assert losses[-1] < 0.6 * losses[0]


def test_lists_are_those_of_rnn():
    dtype = amp.amp.bfloat16 if DTYPE == "bfloat16" else DTYPE
    for names in (amp.list_lp16_ops, amp.list_fp32_ops, amp.list_widest_type_cast):
        assert ("FusedRNN" in names(dtype)) == ("RNN" in names(dtype))
    assert mx.nd.RNN.__code__ is mx.nd.FusedRNN.__code__  # both wrapped by AMP
