"""The first import, and install(), while other threads run MXNet: nobody may read MXNet's tables of
operators while they change.
"""

from __future__ import annotations

import pytest
from helpers import run, run_code

HAMMER = """
import threading, time
import mxnet as mx
import numpy as np

done = False
counts = {}
errors = []

def repeat(work):
    def loop():
        state = {}
        while not done:
            try:
                work(state)
            except Exception as error:
                errors.append(f"{work.__name__}: {error}")
                return
            counts[work.__name__] = counts.get(work.__name__, 0) + 1
    return loop

def imperative(state):
    x = mx.nd.ones((4, 5))
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.FullyConnected(x, mx.nd.ones((3, 5)), no_bias=True, num_hidden=3).tanh().sum()
    y.backward()
    assert x.grad.shape == (4, 5)

def hybridized(state):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(4, activation="relu"), mx.gluon.nn.LayerNorm(), mx.gluon.nn.Dense(2))
    net.initialize()
    net.hybridize()
    assert net(mx.nd.ones((3, 6))).asnumpy().shape == (3, 2)

def symbols(state):
    net = mx.sym.var("x")
    for k in range(5):
        net = mx.sym.Activation(mx.sym.FullyConnected(net, num_hidden=4), act_type="tanh")
    net = mx.sym.load_json(net.tojson())
    executor = net.simple_bind(mx.cpu(), x=(2, 3))
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((2, 4)))

def recurrent(state):
    lstm = mx.gluon.rnn.LSTM(5)
    lstm.initialize()
    assert lstm(mx.nd.ones((3, 2, 4))).asnumpy().shape == (3, 2, 5)

WORK = (imperative, hybridized, symbols, recurrent)
for work in WORK:
    work({})  # each has run once, so that Python's own set-up is over
mx.nd.waitall()
threads = [threading.Thread(target=repeat(work)) for work in WORK for _ in range(2)]
for thread in threads:
    thread.start()
time.sleep(0.1)
import fused_rnn
time.sleep(0.1)
fused_rnn.install()
time.sleep(0.2)
done = True
for thread in threads:
    thread.join()
mx.nd.waitall()
assert not errors, errors
assert len(counts) == len(WORK), counts
x, params, state = mx.nd.ones((3, 2, 4)), mx.nd.ones(220), mx.nd.zeros((1, 2, 5))
for rnn in (mx.nd.RNN, mx.nd.FusedRNN):
    y = rnn(x, params, state, state, mode="lstm", state_size=5, num_layers=1)
    assert np.isfinite(y.asnumpy()).all()
print("hammered")
"""


@pytest.mark.parametrize("engine", ["NaiveEngine", "ThreadedEnginePerDevice"])
@pytest.mark.parametrize("repetition", range(3))
def test_while_threads_run_operators(repetition, engine):
    done = run(["-W", "error::RuntimeWarning", "-c", HAMMER], MXNET_ENGINE_TYPE=engine)
    assert done.returncode == 0, done.stdout
    assert "hammered" in done.stdout


BUSY = """
import hashlib, threading, time, warnings
import mxnet
def busy():  # without Python's lock
    global begun
    begun = True
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 1_000_000_000)
begun = False
thread = threading.Thread(target=busy, daemon=True)
thread.start()
while not begun or time.clock_gettime(time.pthread_getcpuclockid(thread.ident)) < 0.05:
    time.sleep(0.01)  # until it computes
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    import fused_rnn
print(*(w.message for w in found if w.category is RuntimeWarning), flush=True)
import os
os._exit(0)
"""


def test_a_thread_that_never_sleeps():
    """It need not have to do with MXNet: the import ends, and tells."""
    assert "other threads kept running" in run_code(BUSY)


EARLIER_ERROR = """
import mxnet as mx
bad = mx.nd.linalg.potrf(-mx.nd.ones((2, 2)))
import fused_rnn
try:
    bad.wait_to_read()
except mx.MXNetError:
    print("still told")
"""


def test_errors_of_other_operators_stay_theirs():
    assert "still told" in run_code(EARLIER_ERROR)
