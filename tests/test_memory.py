"""Operator states hold a reserve from a forward to its backward, and nothing else."""

from __future__ import annotations

import gc

import mxnet as mx
import numpy as np
import pytest
from helpers import check, core_arguments, make, operator_attributes, operator_inputs, run_code
from test_hybridize import HYBRID, layer, step
from test_symbol import bind, heads

import fused_rnn

SIZES = {"T": 20, "N": 4, "I": 8, "H": 32, "L": 2, "D": 2}


def memory():
    """The live states' bytes, once nothing that is out of reach is left."""
    mx.nd.waitall()
    gc.collect()
    mx.nd.waitall()
    return fused_rnn.memory()


@pytest.fixture(autouse=True)
def nothing_left_over():
    """A test starts and ends with the same live states."""
    before = memory()
    yield
    assert memory() == before


def sizes(problem, dtype="float64"):
    arguments = core_arguments(problem)
    s = problem.shape
    return fused_rnn.sizes(s.mode, s.T, s.N, s.I, s.H, dtype=dtype, **arguments)


def test_a_recorded_call_holds_its_reserve_until_it_is_forgotten():
    problem = make("lstm", **SIZES)
    before = memory()
    arrays = operator_inputs(problem)
    arrays[0].attach_grad()
    with mx.autograd.record():
        y = mx.nd.FusedRNN(*arrays, **operator_attributes(problem, state_outputs=False))
    y.wait_to_read()
    held = memory()
    assert held["states"] == before["states"] + 1
    assert held["reserve"] - before["reserve"] >= sizes(problem)["reserve"]
    del y
    assert memory() == before


def test_prediction_leaves_nothing():
    problem = make("gru", **SIZES)
    before = memory()
    arrays = operator_inputs(problem)
    for _ in range(5):
        mx.nd.FusedRNN(*arrays, **operator_attributes(problem))
    assert memory() == before


@pytest.mark.parametrize("p", [0.0, 0.5])
@pytest.mark.parametrize("how", HYBRID)
def test_training_mode_without_a_recording_keeps_no_reserve(how, p):
    """Such as predictions with dropout: no backward can come. Recordings between them are whole."""
    problem = make("lstm", **SIZES)
    net = layer(problem, how, p=p)
    data, _, *states = operator_inputs(problem)
    kept = []
    for _ in range(2):
        mx.random.seed(3)
        before = memory()["reserve"]
        with mx.autograd.train_mode():
            sampled = net(data, *states)[0]
        sampled.wait_to_read()
        kept.append(memory()["reserve"] - before)
        mx.random.seed(3)
        with mx.autograd.record():
            outputs = net(data, *states)
        assert memory()["reserve"] > before
        mx.autograd.backward(outputs)
        np.testing.assert_array_equal(sampled.asnumpy(), outputs[0].asnumpy())
        if p == 0:
            ones = {name: np.ones_like(getattr(problem, name)) for name in ("dy", "dhN", "dcN")}
            expected = problem.replace(**ones).gradients().dparams
            actual = net.weights.grad().asnumpy()
            check(actual, expected, problem.shape, gradient=True, what="dparams")
    assert kept == [0, 0]


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_executors_keep_a_reserve_if_they_have_a_backward(p):
    problem = make("gru", **SIZES)
    net = mx.sym.FusedRNN(mx.sym.var("data"), name="a", **operator_attributes(problem, p=p))
    kept = {}
    for request in ("null", "write", "add"):
        for is_train in (False, True):
            executor = net.simple_bind(
                mx.cpu(), request, type_dict={"data": "float64"}, data=problem.x.shape
            )
            for array, value in zip(executor.arg_arrays, operator_inputs(problem)):
                array[:] = value
            before = memory()["reserve"]
            executor.forward(is_train=is_train)
            kept[request, is_train] = memory()["reserve"] > before
            del executor
    # MXNet lets a backward follow a prediction too.
    assert kept == {key: key[0] != "null" for key in kept}


@pytest.mark.parametrize("how", [how for how in HYBRID if how != "eager"])
def test_memory_is_flat_over_iterations(how):
    problem = make("lstm", **SIZES)
    net = layer(problem, how)
    levels = []
    for _ in range(6):
        step(net, problem)
        data, _, *states = operator_inputs(problem)
        net(data, *states)
        levels.append(memory())
    assert levels[2:] == levels[1:2] * 4
    assert levels[-1]["states"] <= 4


def test_blocks_of_static_shape_keep_a_reserve_while_backwards_come():
    """MXNet does not tell them whether one will: the calls before do."""
    problem = make("lstm", **SIZES)
    net = layer(problem, "static_shape")
    data, _, *states = operator_inputs(problem)
    net(data, *states)  # MXNet compares its weights with those of the call before
    before = memory()["reserve"]
    for _ in range(3):
        with mx.autograd.record():
            outputs = net(data, *states)
        held = memory()["reserve"]
        mx.autograd.backward(outputs)
    assert held - before >= sizes(problem)["reserve"]
    for _ in range(4):
        net(data, *states)
    assert memory()["reserve"] == 0


def test_unused_outputs_and_forgotten_recordings_are_freed():
    problem = make("lstm", **SIZES)
    arrays = operator_inputs(problem)
    for array in arrays:
        array.attach_grad()
    before = memory()
    for k in range(50):
        with mx.autograd.record():
            outputs = mx.nd.FusedRNN(*arrays, **operator_attributes(problem))
        if k % 2:
            outputs[0].backward()
        del outputs
    assert memory() == before


def test_an_executor_keeps_one_state():
    problem = make("gru", **SIZES)
    before = memory()
    executor = bind(problem)
    levels = []
    for _ in range(4):
        executor.forward(is_train=True)
        executor.backward(heads(problem))
        levels.append(memory())
    assert levels[1:] == levels[:1] * 3
    assert levels[0]["states"] == before["states"] + 1


def test_reserves_grow_with_the_shape_and_last_until_the_backward():
    small, large = make("gru", T=2, N=1, H=32), make("gru", T=40, N=8, H=32)
    large = large.replace(params=small.params)
    net = layer(small, "static_alloc")
    before = memory()["reserve"]
    held = []
    for problem in (small, large, small, large):
        data, _, *states = operator_inputs(problem)
        with mx.autograd.record():
            outputs = net(data, *states)
        held.append(memory()["reserve"] - before)
        mx.autograd.backward(outputs)
        mx.nd.waitall()
        assert memory()["reserve"] == before
    assert 0 < held[0] < held[1]
    assert held[3] == held[1]


RESIDENT = """
import mxnet as mx
import fused_rnn
from fused_rnn.bench.workers.worker import status
from helpers import make, operator_attributes, operator_inputs
problem = make("lstm", T=50, N=16, I=64, H=64, L=2, dtype="float32")
arrays = operator_inputs(problem, "float32")
arrays[1].attach_grad()
def iterate(count):
    for k in range(count):
        with mx.autograd.record(k % 3 > 0):
            y = mx.nd.FusedRNN(*arrays, **operator_attributes(problem, state_outputs=False))
        if k % 3 == 1:
            y.backward()
        y.wait_to_read()
        del y
    mx.nd.waitall()
    return status("VmHWM")  # getrusage's peak begins with the parent's
first = iterate(30)
print("grown", iterate(300) - first)
"""


def test_the_process_does_not_grow():
    """In all 200 recordings of 3 MB: a leak of any kept buffer shows, the allocator's own noise
    does not.
    """
    grown = int(run_code(RESIDENT).split("grown")[1])
    assert grown < 30e6, f"{grown} bytes"


RELEASED = """
import resource
from pathlib import Path
import mxnet as mx
import numpy as np
import fused_rnn
from helpers import make, operator_attributes, operator_inputs
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
np.zeros(30 << 20, np.uint8)  # from now on the C library keeps what is smaller
problem = make("lstm", T=50, N=20, H=256, dtype="float32")
y = mx.nd.FusedRNN(*operator_inputs(problem, "float32"), **operator_attributes(problem))
mx.nd.waitall()
before = resident()
fused_rnn.release_memory()
print("released", before - resident())
"""


def test_released_memory_goes_back_to_the_system():
    problem = make("lstm", T=50, N=20, H=256, dtype="float32")
    released = int(run_code(RELEASED).split("released")[1])
    assert released > sizes(problem, "float32")["workspace_inference"] / 2 > 2e6
