"""Every peer that is installed computes what ours does: the conversions of weights are right.

Peers are looked for in this interpreter, in the environment that `make bench-peers` makes, and in
the interpreter that the environment variable FUSED_RNN_PEERS names.
"""

from __future__ import annotations

import math
import os
import sys

import numpy as np
import pytest
from helpers import TESTS

from fused_rnn.bench import measure, peers
from fused_rnn.bench.conversions import FORMS
from fused_rnn.bench.grid import Block
from fused_rnn.bench.problem import Problem

INTERPRETERS = [
    os.environ.get("FUSED_RNN_PEERS"),
    sys.executable,
    str(TESTS.parent / "build" / "peers" / "bin" / "python"),
]
SIZES = {"T": 5, "N": 3, "I": 7}  # all different, so that a mix-up of axes shows
MODES = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def installed(name: str) -> peers.Installed:
    """The peer, or a skipped test that says why it is missing."""
    reasons = []
    for python in filter(None, INTERPRETERS):
        found = peers.find(name, python)
        if isinstance(found, peers.Installed):
            return found
        reasons.append(found)
    pytest.skip(f"{name}: {'; '.join(reasons)}")


def block(problem: Problem) -> Block:
    return Block("test", "test", problem, (False, True), 2, False, False, tuple(peers.PEERS))


def check(each: peers.Installed, problem: Problem, tmp_path) -> int:
    """Compares all passes that the peer has; says how many."""
    passes = [t for t in (False, True) if each.peer.refuses(problem, t) is None]
    if not passes:
        return 0
    arrays = problem.arrays()
    measurement = measure.Measurement({}, 3, math.inf, lambda text: None)
    with measure.open_workers(block(problem), arrays, {each.peer.name: each}, tmp_path) as workers:
        for training in passes:
            measurement.compare(problem, training, arrays, workers)
    return len(passes)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", peers.PEERS)
def test_peer(name, mode, tmp_path):
    each = installed(name)
    for D in each.peer.directions:
        problem = Problem(mode, H=9, L=2, D=D, **SIZES)
        expected = 0 if mode not in each.peer.modes else 2 if each.peer.training else 1
        assert check(each, problem, tmp_path) == expected


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", peers.PEERS)
def test_types(name, dtype, tmp_path):
    if dtype not in peers.PEERS[name].dtypes:
        return
    expected = 2 if peers.PEERS[name].training else 1
    assert check(installed(name), Problem("lstm", H=9, dtype=dtype, **SIZES), tmp_path) == expected


@pytest.mark.parametrize("name", [name for name, peer in peers.PEERS.items() if peer.lengths])
def test_lengths(name, tmp_path):
    problem = Problem("gru", H=9, D=2, variable_length=True, **SIZES)
    assert len(set(problem.lengths())) > 1
    assert check(installed(name), problem, tmp_path) > 0


@pytest.mark.parametrize("form", [name for name, form in FORMS.items() if form.restore])
@pytest.mark.parametrize("mode", MODES)
def test_forms_restore_what_they_convert(mode, form):
    """With gradients of the biases set alike, which is what a sum of both hands to them."""
    layout = Problem(mode, H=9, L=2, D=2, **SIZES).layout
    parts = layout.split(np.arange(layout.size, dtype=np.float64))
    biases = {name: part for name, part in parts.items() if name.endswith("bias")}
    for name in biases:
        n = 2 * layout.hidden_size  # a GRU's last gate has two biases of its own
        end = n if mode == "gru" else None
        parts[name][:end] = 0
    if mode != "gru":
        for part in biases.values():
            part[:] = 0
    params = layout.join(parts)
    convert, restore = FORMS[form].convert, FORMS[form].restore
    np.testing.assert_array_equal(restore(layout, convert(layout, params)), params)


def test_a_missing_peer_says_why():
    assert "lacks one of torch" in peers.find("torch", _without_torch())
    assert "No such file" in peers.find("torch", "/nowhere/python")


def _without_torch() -> str:
    if isinstance(peers.find("torch"), peers.Installed):
        pytest.skip("this interpreter has torch")
    return sys.executable
