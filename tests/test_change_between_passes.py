"""Inputs or outputs that change between a forward and its backward, by whichever route.

The backward gives the gradient at the values that are there when it runs, or, if only the output
was changed, that of the forward; with dropout, whose mask belongs to one forward, it may refuse. It
never mixes the two.
"""

from __future__ import annotations

import ctypes

import mxnet as mx
import numpy as np
import pytest
from helpers import check, check_gradients, make, operator_attributes, operator_inputs
from reference import CELLS
from test_dropout import operator_masks
from test_hybridize import HYBRID, layer

import fused_rnn

DTYPE = "float32"


@pytest.fixture(params=[False, True], ids=["reserve", "recompute"])
def recompute(request):
    """The rule does not depend on whether a reserve is kept."""
    fused_rnn.set_recompute(request.param)
    yield
    fused_rnn.set_recompute(False)


def shared(values) -> tuple:
    """An NDArray, and the NumPy memory that it is."""
    memory = np.ascontiguousarray(values, DTYPE)
    return mx.nd.from_numpy(memory[...]), memory  # makes the view read-only, not memory


class Recording:
    """A recorded call on arrays that share NumPy's memory."""

    def __init__(self, problem, p=0.0):
        self.problem = problem
        self.arrays, self.memory = map(list, zip(*map(shared, problem.inputs)))
        for array in self.arrays:
            array.attach_grad("add")
        lengths = problem.options.get("lengths")
        self.lengths = None if lengths is None else mx.nd.array(lengths, dtype="int32")
        with mx.autograd.record():
            self.outputs = mx.nd.FusedRNN(
                *self.arrays,
                *([] if lengths is None else [self.lengths]),
                **operator_attributes(problem, p=p),
            )
        mx.nd.waitall()

    def backward(self, retain_graph=False):
        for array in self.arrays:
            array.grad[:] = 1
        heads = [mx.nd.array(head, dtype=DTYPE) for head in self.problem.heads]
        mx.autograd.backward(self.outputs, heads, retain_graph=retain_graph)
        return [array.grad.asnumpy() - 1 for array in self.arrays]


def changed(problem, which: int):
    """The problem with another value of one input."""
    name = ("x", "params", "h0", "c0")[which]
    other = make(problem.shape.mode, *sizes(problem), dtype=DTYPE, seed=1)
    return problem.replace(**{name: getattr(other, name)})


def sizes(problem):
    s = problem.shape
    return s.T, s.N, s.I, s.H, s.L, s.D, s.P


def expect(gradients, problem):
    check_gradients(gradients, problem.gradients(), problem.shape, DTYPE)


@pytest.mark.parametrize("T", [1, 6])
@pytest.mark.parametrize("mode", CELLS)
def test_inputs_changed_through_numpy(mode, T, recompute):
    before = make(mode, T=T, L=2, D=2, dtype=DTYPE)
    for which in range(len(before.inputs)):
        after = changed(before, which)
        recording = Recording(before)
        recording.memory[which][...] = after.inputs[which]
        expect(recording.backward(), after)


@pytest.mark.parametrize("mode", CELLS)
def test_inputs_changed_through_mxnet(mode, recompute):
    before = make(mode, T=6, L=2, D=2, dtype=DTYPE)
    for which in range(len(before.inputs)):
        after = changed(before, which)
        recording = Recording(before)
        recording.arrays[which][:] = mx.nd.array(after.inputs[which], dtype=DTYPE)
        expect(recording.backward(), after)


def through_mxnet(y, new):
    y[:] = mx.nd.array(new, dtype=DTYPE)


def through_numpy(y, new):
    y.wait_to_read()
    pointer = ctypes.c_void_p()
    mx.base.check_call(mx.base._LIB.MXNDArrayGetData(y.handle, ctypes.byref(pointer)))
    memory = (ctypes.c_float * y.size).from_address(pointer.value)
    np.frombuffer(memory, DTYPE).reshape(y.shape)[...] = new


@pytest.mark.parametrize("p", [0.0, 0.5])
@pytest.mark.parametrize("change", [through_mxnet, through_numpy])
@pytest.mark.parametrize("mode", CELLS)
def test_output_changed(mode, change, p, recompute):
    """The gradient is the forward's, with dropout too; so is that of a second backward."""
    problem = make(mode, T=6, L=2, D=2, dtype=DTYPE)
    expected = problem
    if p:
        expected = problem.replace(options={"masks": operator_masks(problem.shape, p, seed=8)})
    mx.random.seed(8)
    recording = Recording(problem, p)
    change(recording.outputs[0].detach(), np.full(recording.outputs[0].shape, 0.25))
    for k in (1, 2):
        expect(recording.backward(retain_graph=k == 1), expected)


@pytest.mark.parametrize("mode", CELLS)
def test_everything_changed(mode, recompute):
    """Between two backwards, too."""
    before = make(mode, T=6, L=2, D=2, dtype=DTYPE)
    after = before
    for which in range(len(before.inputs)):
        after = changed(after, which)
    recording = Recording(before)
    expect(recording.backward(retain_graph=True), before)
    for memory, value in zip(recording.memory, after.inputs):
        memory[...] = value
    through_mxnet(recording.outputs[0].detach(), 0.25 * np.ones(recording.outputs[0].shape))
    expect(recording.backward(), after)


def test_lengths_changed(recompute):
    before = make("gru", T=6, N=3, L=2, D=2, dtype=DTYPE, lengths=[6, 2, 4])
    after = before.replace(options={"lengths": [3, 0, 6]})
    recording = Recording(before)
    recording.lengths[:] = mx.nd.array([3, 0, 6], dtype="int32")
    expect(recording.backward(), after)


def test_padding_changed_is_no_change(recompute):
    """With dropout: the mask is still the right one."""
    problem = make("lstm", T=6, N=3, L=2, D=2, dtype=DTYPE, lengths=[6, 2, 4])
    masks = operator_masks(problem.shape, 0.5, seed=8)
    mx.random.seed(8)
    recording = Recording(problem, 0.5)
    recording.memory[0][4:, 1] = np.nan
    expect(recording.backward(), problem.replace(options={**problem.options, "masks": masks}))


@pytest.mark.parametrize("which", range(4))
def test_a_mask_is_used_for_its_own_forward_only(which, recompute):
    before = make("lstm", T=6, N=4, H=16, L=2, dtype=DTYPE)
    recording = Recording(before, 0.5)
    recording.memory[which][...] = changed(before, which).inputs[which]
    with pytest.raises(mx.MXNetError, match="dropout mask"):
        recording.backward()
    mx.nd.waitall()
    expect(Recording(before).backward(), before)


@pytest.mark.parametrize("size", [2, 15])
@pytest.mark.parametrize("how", HYBRID)
def test_bulk_segments(how, size):
    """MXNet counts a write when the whole segment that holds it ends."""
    before = make("lstm", T=6, L=2, D=2, dtype=DTYPE)
    after = changed(before, 1)
    net = layer(before, how, DTYPE)
    data, _, *states = operator_inputs(before, DTYPE)
    heads = [mx.nd.array(head, dtype=DTYPE) for head in before.heads]
    new = mx.nd.array(after.params, dtype=DTYPE)
    net(data, *states)
    mx.nd.waitall()
    with mx.engine.bulk(size):
        with mx.autograd.record():
            outputs = net(data, *states)
        mx.nd.elemwise_add(new, mx.nd.zeros_like(new), out=net.weights.data())
        mx.autograd.backward(outputs, heads)
    actual = net.weights.grad().asnumpy()
    expected = after.gradients().dparams
    check(actual, expected, before.shape, DTYPE, gradient=True, what="dparams")


@pytest.mark.parametrize("how", HYBRID)
def test_blocks(how, recompute):
    before = make("gru", T=6, L=2, D=2, dtype=DTYPE)
    after = changed(before, 1)
    memory = np.ascontiguousarray(before.params, DTYPE)
    net = layer(before, how, DTYPE)
    net.weights._data[0] = weights = mx.nd.from_numpy(memory[:])
    weights.attach_grad()
    data, _, *states = operator_inputs(before, DTYPE)
    heads = [mx.nd.array(head, dtype=DTYPE) for head in before.heads]
    for _ in range(2):
        memory[:] = before.params
        with mx.autograd.record():
            outputs = net(data, *states)
        mx.nd.waitall()
        memory[:] = after.params
        mx.autograd.backward(outputs, heads)
        expected = after.gradients().dparams
        check(weights.grad.asnumpy(), expected, before.shape, DTYPE, gradient=True, what="dparams")


def test_executor():
    """Its arguments, and its output, between forward and backward."""
    before = make("lstm", T=6, L=2, D=2, dtype=DTYPE)
    net = mx.sym.FusedRNN(mx.sym.var("data"), name="a", **operator_attributes(before))
    names = net.list_arguments()
    heads = [mx.nd.array(head, dtype=DTYPE) for head in before.heads]
    for which in range(len(names)):
        after = changed(before, which)
        arrays, memory = zip(*map(shared, before.inputs))
        grads = {name: mx.nd.zeros_like(array) for name, array in zip(names, arrays)}
        executor = net.bind(mx.cpu(), dict(zip(names, arrays)), grads)
        executor.forward(is_train=True)
        mx.nd.waitall()
        memory[which][...] = after.inputs[which]
        executor.backward(heads)
        expect([grads[name].asnumpy() for name in names], after)
        memory[which][...] = before.inputs[which]
        outputs = executor.forward(is_train=True)
        outputs[0][:] = 0.25
        executor.backward(heads)
        expect([grads[name].asnumpy() for name in names], before)
