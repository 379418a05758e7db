"""install(): RNN itself on our kernels. It can't be undone in a process, so other processes run
its tests.
"""

from __future__ import annotations

import mxnet as mx
from helpers import make, operator_attributes, operator_inputs, run_tests

import fused_rnn

CASES = ("installed_cases.py", "installed_features.py")


def test_by_a_call():
    run_tests(*CASES)


def test_by_the_environment():
    run_tests(*CASES, FUSED_RNN_INSTALL="1", MXNET_ENGINE_TYPE="NaiveEngine")


def test_without_it_the_native_operator_stays():
    assert not fused_rnn.installed()
    problem = make("lstm", dtype="float32")
    arrays = operator_inputs(problem, "float32")
    arrays[0].attach_grad()
    before = fused_rnn.memory()["states"]
    with mx.autograd.record():
        y = mx.nd.RNN(*arrays, **operator_attributes(problem))
    y[0].wait_to_read()
    assert fused_rnn.memory()["states"] == before
