"""Where memory lacks: an MXNetError that says how much, and the process goes on."""

from __future__ import annotations

import pytest
from helpers import run_code

# The limit is what the process has, and a little more.
LIMITED = """
import re, resource
import mxnet as mx
import fused_rnn
from helpers import check_gradients, check_outputs, make, operator_gradients

def limited(megabytes, run):
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (megabytes << 20), resource.RLIM_INFINITY))
    try:
        return run()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)

small = make("{mode}", N=3, L=2, D=2)

def check_small():
    outputs, gradients = operator_gradients(small)
    check_outputs(outputs, small.outputs(), small.shape)
    check_gradients(gradients, small.gradients(), small.shape)

H = 256
rows = {rows} * H
x = mx.nd.random.uniform(shape=(300, 20, H))
states = [mx.nd.zeros((1, 20, H))] * (2 if "{mode}" == "lstm" else 1)
parameters = mx.nd.random.uniform(-0.05, 0.05, shape=rows * (2 * H + 2))
parameters.attach_grad()

def train():
    with mx.autograd.record():
        y = mx.nd.FusedRNN(
            x, parameters, *states, state_size=H, num_layers=1, mode="{mode}"
        )
    y.backward()
    y.wait_to_read()
    parameters.grad.wait_to_read()

check_small()
fused_rnn.release_memory()
mx.nd.waitall()
messages = []
done = 0
for megabytes in (12, 25, 40, 60, 100, 200, 1000):
    try:
        limited(megabytes, train)
        done += 1
    except mx.MXNetError as error:
        messages.append(str(error))
    try:
        mx.nd.waitall()
    except mx.MXNetError as error:
        messages.append(str(error))
    check_small()
    fused_rnn.release_memory()
assert done, messages
assert fused_rnn.memory()["workspace"] == 0
train()
own = [message for message in messages if "FusedRNN" in message]
assert own, messages
assert all(re.search("[0-9]+ bytes", message) for message in own), own
print("went on")
"""


@pytest.mark.parametrize(("mode", "rows"), [("lstm", 4), ("gru", 3)])
@pytest.mark.parametrize("engine", ["NaiveEngine", "ThreadedEnginePerDevice"])
def test_errors_say_how_much(engine, mode, rows):
    code = LIMITED.replace("{mode}", mode).replace("{rows}", str(rows))
    assert "went on" in run_code(code, MXNET_ENGINE_TYPE=engine)
