"""Our calls among MXNet's other operators, which use OpenMP's threads."""

from __future__ import annotations

import pytest
from helpers import run_code

IDLE_THREADS = """
import os
import mxnet as mx
import numpy as np
import fused_rnn

def call(T, N, H):
    x, state = mx.nd.ones((T, N, H)), mx.nd.zeros((1, N, H))
    parameters = mx.nd.zeros(H * (2 * H + 2))
    mx.nd.FusedRNN(
        x, parameters, state, state_size=H, num_layers=1, mode="rnn_tanh"
    ).wait_to_read()

def other():  # by OpenMP's threads
    ones = mx.nd.ones((500, 500))
    product = mx.nd.FullyConnected(ones, ones, no_bias=True, num_hidden=500).asnumpy()
    assert (product == 500).all()

def threads():
    return len(os.listdir("/proc/self/task"))

call(40, 32, 512)  # starts our own threads
other()
before = threads()
call(1, 1, 8)
after_short = threads()
call(40, 32, 512)
after_long = threads()
other()
print("threads", before, after_short, after_long, threads())
"""


@pytest.mark.parametrize("engine", ["ThreadedEnginePerDevice", "NaiveEngine"])
def test_a_long_call_ends_the_threads_that_would_spin_beside_it(engine):
    """Only a long one: the next operator has to make them anew."""
    out = run_code(IDLE_THREADS, OMP_NUM_THREADS="3", MXNET_ENGINE_TYPE=engine)
    before, after_short, after_long, again = map(int, out.split("threads")[1].split())
    assert after_short == before
    assert after_long == before - 2
    assert again == before
