"""Bad arguments of the core are refused with a message that names argument, expectation and what
came.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers import core_arguments, core_backward, core_forward, make

from fused_rnn import _core


def lstm(**changes):
    """Arguments of a good call (T5 N2 I3 H4 L2 D2), changed."""
    problem = make("lstm", L=2, D=2)
    arguments = dict(zip(("x", "params", "h0", "c0"), problem.inputs), mode="lstm")
    arguments.update(core_arguments(problem))
    arguments.update(changes)
    return arguments


def zeros(*shape, dtype="float64"):
    return np.zeros(shape, dtype)


BAD = {
    "unknown mode": ({"mode": "elman"}, ("mode", "elman", "lstm")),
    "x of two dimensions": ({"x": zeros(5, 3)}, ("x",)),
    "params one short": ({"params": zeros(735)}, ("params", "735")),
    "params one long": ({"params": zeros(737)}, ("params", "737")),
    "params of two dimensions": ({"params": zeros(92, 8)}, ("params",)),
    "h0 of one direction": ({"h0": zeros(2, 2, 4)}, ("h0", "2", "4")),
    "h0 of another batch": ({"h0": zeros(4, 3, 4)}, ("h0", "3")),
    "h0 of another width": ({"h0": zeros(4, 2, 5)}, ("h0", "5")),
    "c0 of one direction": ({"c0": zeros(2, 2, 4)}, ("c0",)),
    "c0 of another batch": ({"c0": zeros(4, 3, 4)}, ("c0", "3")),
    "no c0": ({"c0": None}, ("c0",)),
    "no layers": ({"num_layers": 0}, ("num_layers",)),
    "negative layers": ({"num_layers": -1}, ("num_layers", "-1")),
    "params of another dtype": (
        {"params": zeros(736, dtype="float32")},
        ("params", "float32", "float64"),
    ),
    "h0 of another dtype": ({"h0": zeros(4, 2, 4, dtype="float32")}, ("h0", "float32", "float64")),
    "c0 of another dtype": ({"c0": zeros(4, 2, 4, dtype="float32")}, ("c0", "float32", "float64")),
    "integers": ({"x": zeros(5, 2, 3, dtype="int32")}, ("x", "int32")),
    "negative dropout": ({"dropout": -0.1, "training": True}, ("dropout",)),
    "dropout above one": ({"dropout": 1.5, "training": True}, ("dropout", "1.5")),
}


def test_the_unchanged_call_is_good():
    arguments = lstm()
    assert arguments["params"].size == 736
    assert _core.forward(**arguments)[0].shape == (5, 2, 8)


@pytest.mark.parametrize("case", BAD)
def test_forward(case):
    changes, words = BAD[case]
    with pytest.raises(ValueError) as caught:
        _core.forward(**lstm(**changes))
    for word in words:
        assert word in str(caught.value)


def test_a_cell_state_that_the_mode_does_not_have():
    problem = make("gru")
    with pytest.raises(ValueError, match="c0"):
        _core.forward("gru", *problem.inputs, problem.h0)


def test_state_size_zero():
    with pytest.raises(ValueError, match="(?i)h"):
        _core.forward("gru", zeros(5, 2, 3), zeros(0), zeros(1, 2, 0))


BAD_BACKWARD = {
    "dy of another shape": ({"dy": zeros(5, 2, 4)}, ("dy",)),
    "dhN of another shape": ({"dhN": zeros(1, 2, 4)}, ("dhN",)),
    "dcN of another shape": ({"dcN": zeros(4, 2, 5)}, ("dcN",)),
    "dy of another dtype": ({"dy": zeros(5, 2, 8, dtype="float32")}, ("dy", "float32")),
    "y of another shape": ({"y": zeros(5, 2, 4)}, ("y",)),
    "reserve one short": ({"reserve": -1}, ("reserve",)),
    "dx of another shape": ({"dx": zeros(5, 2, 4)}, ("dx",)),
    "dx of another dtype": ({"dx": zeros(5, 2, 3, dtype="float32")}, ("dx", "float32")),
    "dparams one short": ({"dparams": zeros(735)}, ("dparams", "735")),
    "dh0 that is strided": ({"dh0": zeros(4, 2, 8)[..., ::2]}, ("dh0",)),
    "dc0 that is read-only": ({"dc0": np.broadcast_to(0.0, (4, 2, 4))}, ("dc0",)),
    "unknown request": ({"dx_req": "inplace"}, ("dx_req", "inplace", "write")),
    "add to nothing": ({"dx_req": "add"}, ("dx",)),
}


@pytest.mark.parametrize("case", BAD_BACKWARD)
def test_backward(case):
    changes, words = BAD_BACKWARD[case]
    problem = make("lstm", L=2, D=2)
    y, _, _, reserve = core_forward(problem, training=True)
    arguments = dict(zip(("x", "params", "h0", "c0"), problem.inputs), mode="lstm", y=y)
    arguments.update(core_arguments(problem), reserve=reserve)
    arguments.update(changes)
    if "reserve" in changes:
        arguments["reserve"] = reserve[:-1]
    with pytest.raises(ValueError) as caught:
        _core.backward(**arguments)
    for word in words:
        assert word in str(caught.value)


def test_backward_needs_the_reserve_of_a_training_forward():
    problem = make("gru")
    y, _, _, reserve = core_forward(problem)
    assert reserve is None
    with pytest.raises((ValueError, TypeError), match="reserve"):
        core_backward(problem, y, reserve)


def test_sizes():
    sizes = _core.sizes("lstm", 5, 2, 3, 4, num_layers=2, bidirectional=True, dtype="float32")
    assert sizes["params"] == 4 * 736
    for name in ("workspace_inference", "workspace_training", "workspace_backward", "reserve"):
        assert sizes[name] >= 0
    assert sizes["reserve"] > 0
    double = _core.sizes("lstm", 5, 2, 3, 4, num_layers=2, bidirectional=True, dtype="float64")
    assert double["params"] == 2 * sizes["params"]


def test_sizes_beyond_32_bits():
    sizes = _core.sizes("lstm", 1, 1, 50_000, 50_000)
    assert sizes["params"] == 4 * (4 * 50_000 * 100_000 + 8 * 50_000)
    assert _core.sizes("gru", 2**33, 1, 1, 1)["reserve"] >= 2**33
    with pytest.raises(ValueError):
        _core.sizes("lstm", 2**40, 2**20, 2**20, 2**20)


def test_sizes_of_a_bad_problem():
    for bad in ({"T": -1}, {"N": -1}, {"I": -1}, {"H": 0}):
        sizes = {"T": 5, "N": 2, "I": 3, "H": 4, **bad}
        with pytest.raises(ValueError, match=next(iter(bad))):
            _core.sizes("lstm", *sizes.values())
