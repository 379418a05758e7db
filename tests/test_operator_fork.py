"""Forked processes: whatever other threads were at, the child's calls end, with right results."""

from __future__ import annotations

import pytest
from helpers import run_code

# A child has half a minute, then the alarm ends it.
CHILD = """
import os, signal, sys, threading, time, traceback
import mxnet as mx
import numpy as np
import fused_rnn
from fused_rnn import _library

def forked(child):
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(30)
    try:
        child()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)

def wait(pid):
    status = os.waitpid(pid, 0)[1]
    assert status == 0, f"child: signal {status & 127}, code {status >> 8}"
"""

LONG_CALL = (
    CHILD
    + """
from helpers import check_gradients, check_outputs, make, operator_gradients

problem = make("gru", T=40, N=32, H=256, dtype="float32")  # long enough to end OpenMP's threads
large = mx.nd.ones((500, 500))

def by_openmp():
    product = mx.nd.FullyConnected(large, large, no_bias=True, num_hidden=500).asnumpy()
    assert (product == 500).all()

def call():
    outputs, gradients = operator_gradients(problem, "float32")
    return [array.tobytes() for array in (*outputs, *gradients)]

by_openmp()
EXPECTED = call()

def child():
    assert call() == EXPECTED
    wait(forked(grandchild))

def grandchild():
    assert call() == EXPECTED

for first in (by_openmp, call):
    first()
    by_openmp()
    wait(forked(child))
    assert call() == EXPECTED
"""
)

DATA_LOADER = (
    CHILD
    + """
class Features(mx.gluon.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        x = mx.nd.full((40, 32, 256), index / 10)
        states = mx.nd.zeros((1, 32, 256))
        parameters = mx.nd.full(256 * 514, 0.01)
        return mx.nd.FusedRNN(
            x, parameters, states, state_size=256, num_layers=1, mode="rnn_tanh"
        ).asnumpy()

signal.alarm(100)
ones = mx.nd.ones((500, 500))
mx.nd.FullyConnected(ones, ones, no_bias=True, num_hidden=500).asnumpy()
data = Features()
expected = [data[index] for index in range(4)]
mx.nd.FullyConnected(ones, ones, no_bias=True, num_hidden=500).asnumpy()
for _ in range(2):
    loader = mx.gluon.data.DataLoader(data, batch_size=1, num_workers=2)
    for batch, y in zip(loader, expected):
        np.testing.assert_allclose(batch[0].asnumpy(), y, rtol=0, atol=1e-6)
"""
)


@pytest.mark.parametrize("code", [LONG_CALL, DATA_LOADER], ids=["fork", "DataLoader"])
@pytest.mark.parametrize("engine", ["NaiveEngine", "ThreadedEnginePerDevice"])
def test_long_calls_after_openmp(engine, code):
    """OpenMP's threads, which a long call would end, are not there in the child."""
    run_code(code, MXNET_ENGINE_TYPE=engine, OMP_NUM_THREADS="2")


LOCKS = (
    CHILD
    + """
from helpers import make, operator_attributes, operator_inputs

problem = make("lstm", T=2, dtype="float32")
arrays = operator_inputs(problem, "float32")
done = False

def use_entry_points():
    while not done:
        fused_rnn.release_memory()
        fused_rnn.memory()

def keep_lock(taken):
    with _library.lock:
        taken.set()
        while not done:
            time.sleep(0.01)

def child():
    before = fused_rnn.memory()
    fused_rnn.release_memory()
    assert fused_rnn.memory() == before
    assert not fused_rnn.installed()
    fused_rnn.install()

taken = threading.Event()
threads = [threading.Thread(target=use_entry_points) for _ in range(3)]
threads.append(threading.Thread(target=keep_lock, args=[taken]))
for thread in threads:
    thread.start()
taken.wait()
try:
    for _ in range(100):
        wait(forked(child))
finally:
    done = True
for thread in threads:
    thread.join()
"""
)


def test_locks_that_other_threads_hold():
    run_code(LOCKS, timeout=300)


MEMORY = (
    CHILD
    + """
from helpers import check, make, operator_attributes, operator_inputs

problem = make("lstm", T=20, N=8, H=32, L=2, D=2)

def record():
    arrays = operator_inputs(problem)
    arrays[1].attach_grad()
    with mx.autograd.record():
        outputs = mx.nd.FusedRNN(*arrays, **operator_attributes(problem))
    mx.nd.waitall()
    return arrays, outputs

def backward(recording):
    arrays, outputs = recording
    mx.autograd.backward(outputs, [mx.nd.array(head, dtype="float64") for head in problem.heads])
    expected = problem.gradients().dparams
    check(arrays[1].grad.asnumpy(), expected, problem.shape, gradient=True)

def held():
    mx.nd.waitall()
    return fused_rnn.memory()

def child():
    assert held()["reserve"] > before["reserve"]
    backward(recording)
    recording.clear()
    assert held() == before, (held(), before)
    for _ in range(3):
        backward(record())
        fused_rnn.release_memory()
    assert held() == before, (held(), before)

before = held()
recording = list(record())
wait(forked(child))
backward(recording)
recording.clear()
assert held() == before
"""
)


@pytest.mark.parametrize("engine", ["NaiveEngine", "ThreadedEnginePerDevice"])
def test_recordings_from_before(engine):
    """Their blocks of memory come back to a pool that did not lend them."""
    run_code(MEMORY, MXNET_ENGINE_TYPE=engine)
