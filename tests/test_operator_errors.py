"""Bad calls of the operator raise MXNetError, with the native operator's words where it has good
ones.
"""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
from helpers import check_outputs, make, operator_attributes, operator_forward, operator_inputs
from mxnet.base import MXNetError

from fused_rnn import _core, gluon, rnn


def zeros(*shape, dtype="float32"):
    return mx.nd.zeros(shape, dtype=dtype)


def call(arrays=None, **attributes):
    """A good call (lstm T5 N2 I3 H4 L2 D2) with some arrays and attributes replaced; waits for its
    result.
    """
    good = {
        "data": zeros(5, 2, 3),
        "parameters": zeros(736),
        "state": zeros(4, 2, 4),
        "state_cell": zeros(4, 2, 4),
    }
    good.update(arrays or {})
    keywords = {
        "mode": "lstm",
        "state_size": 4,
        "num_layers": 2,
        "bidirectional": True,
        **attributes,
    }
    result = mx.nd.FusedRNN(*(a for a in good.values() if a is not None), **keywords)
    for output in result if isinstance(result, list) else [result]:
        output.wait_to_read()
    return result


def test_the_unchanged_call_is_good():
    assert call().shape == (5, 2, 8)


MISMATCH = "Shape inconsistent, Provided = [{}], inferred shape=({})"
BAD_ARRAYS = {
    "parameters one short": ({"parameters": zeros(735)}, MISMATCH.format("735", "736,")),
    "parameters one long": ({"parameters": zeros(737)}, MISMATCH.format("737", "736,")),
    "parameters of two dimensions": ({"parameters": zeros(92, 8)}, "736"),
    "state of one direction": ({"state": zeros(2, 2, 4)}, MISMATCH.format("2,2,4", "4,2,4")),
    "state of another batch": ({"state": zeros(4, 3, 4)}, MISMATCH.format("4,3,4", "4,2,4")),
    "state of another width": ({"state": zeros(4, 2, 3)}, MISMATCH.format("4,2,3", "4,2,4")),
    "cell of one direction": ({"state_cell": zeros(2, 2, 4)}, MISMATCH.format("2,2,4", "4,2,4")),
    "cell of another width": ({"state_cell": zeros(4, 2, 5)}, MISMATCH.format("4,2,5", "4,2,4")),
    "data of two dimensions": ({"data": zeros(5, 3)}, "rank-3"),
    "data of four dimensions": ({"data": zeros(5, 2, 3, 1)}, "rank-3"),
    "no cell": ({"state_cell": None}, "expects 4 inputs, but got 3"),
    "double parameters": (
        {"parameters": zeros(736, dtype="float64")},
        "This layer requires uniform type. Expected 'float32' v.s. given 'float64' at 'parameters'",
    ),
    "double state": (
        {"state": zeros(4, 2, 4, dtype="float64")},
        "This layer requires uniform type. Expected 'float32' v.s. given 'float64' at 'state'",
    ),
    "double cell": ({"state_cell": zeros(4, 2, 4, dtype="float64")}, "'state_cell'"),
    "single parameters of double data": ({"data": zeros(5, 2, 3, dtype="float64")}, "'parameters'"),
    "all integers": (
        {
            "data": zeros(5, 2, 3, dtype="int32"),
            "parameters": zeros(736, dtype="int32"),
            "state": zeros(4, 2, 4, dtype="int32"),
            "state_cell": zeros(4, 2, 4, dtype="int32"),
        },
        "int32",
    ),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_arrays(case):
    arrays, message = BAD_ARRAYS[case]
    with pytest.raises(MXNetError) as caught:
        call(arrays)
    assert message in str(caught.value)


BAD_ATTRIBUTES = {
    "unknown mode": ({"mode": "elman"}, "Invalid Input: 'elman'"),
    "dropout above one": ({"p": 3}, "value 3 for Parameter p exceed bound [0,1]"),
    "negative dropout": ({"p": -0.5}, "value -0.5 for Parameter p exceed bound [0,1]"),
    "dropout that is no number": ({"p": float("nan")}, "p is nan"),
    "unknown attribute": ({"hidden": 3}, "Cannot find argument 'hidden'"),
    "text for a number": ({"state_size": "many"}, "state_size"),
    "no units": ({"state_size": 0}, "state_size"),
    "no layers": ({"num_layers": 0}, "num_layers"),
}


@pytest.mark.parametrize("case", BAD_ATTRIBUTES)
def test_attributes(case):
    attributes, message = BAD_ATTRIBUTES[case]
    with pytest.raises(MXNetError) as caught:
        call(**attributes)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["state_size", "num_layers"])
def test_negative_sizes(name):
    with pytest.raises(MXNetError):
        call(**{name: -1})


@pytest.mark.parametrize("name", ["state_size", "num_layers"])
def test_missing_sizes(name):
    keywords = {"mode": "gru", "state_size": 4, "num_layers": 1}
    del keywords[name]
    with pytest.raises(MXNetError, match=name):
        mx.nd.FusedRNN(zeros(5, 2, 3), zeros(108), zeros(1, 2, 4), **keywords)


def test_mode_is_required():
    with pytest.raises(MXNetError, match="mode"):
        mx.nd.FusedRNN(zeros(5, 2, 3), zeros(108), zeros(1, 2, 4), state_size=4, num_layers=1)


SYMBOLIC = {
    "no layers": ({"num_layers": 0}, "num_layers"),
    "no units": ({"state_size": 0}, "state_size"),
    "dropout that is no number": ({"p": float("nan")}, "p is nan"),
    "wider than the state": ({"projection_size": 5}, "projection_size"),
    "negative projection": ({"projection_size": -1}, "projection_size"),
    "projection without cells": ({"projection_size": 2, "mode": "gru"}, "projection_size"),
    "one bound": ({"lstm_state_clip_min": -1}, "lstm_state_clip_max"),
    "the other bound": ({"lstm_state_clip_max": 1}, "lstm_state_clip_min"),
    "bounds in the wrong order": (
        {"lstm_state_clip_min": 1, "lstm_state_clip_max": -1},
        "lstm_state_clip_min",
    ),
    "bounds without cells": (
        {"lstm_state_clip_min": -1, "lstm_state_clip_max": 1, "mode": "gru"},
        "lstm_state_clip",
    ),
}


@pytest.mark.parametrize("case", SYMBOLIC)
def test_attributes_are_refused_before_anything_runs(case):
    attributes, message = SYMBOLIC[case]
    keywords = {"mode": "lstm", "state_size": 4, "num_layers": 2, **attributes}
    net = mx.sym.FusedRNN(mx.sym.var("data"), **keywords)
    with pytest.raises(MXNetError) as caught:
        net.infer_shape(data=(5, 2, 3))
    assert message in str(caught.value)


@pytest.mark.parametrize("dropout", [float("nan"), -0.1, 1.5])
def test_layers_and_cells_refuse_dropout_when_they_are_made(dropout):
    for kind in (gluon.LSTM, gluon.GRU, gluon.RNN, rnn.FusedRNNCell):
        with pytest.raises(ValueError, match="dropout: expected a number in .0, 1., found"):
            kind(4, 2, dropout=dropout)
        assert kind(4, 2, dropout=1) is not None


def test_symbols_with_shapes_that_do_not_fit():
    net = mx.sym.FusedRNN(mx.sym.var("data"), mode="lstm", state_size=4, num_layers=2, name="a")
    for name, shape in (
        ("a_parameters", (735,)),
        ("a_state", (4, 3, 4)),
        ("a_state_cell", (2, 2, 5)),
    ):
        with pytest.raises(MXNetError):
            net.infer_shape(data=(5, 2, 3), **{name: shape})


def test_gluon_and_numpy_front_ends_say_the_same():
    with mx.util.np_shape(True), pytest.raises(MXNetError, match="rank-3"):
        call({"data": zeros(5, 3)})


def test_the_operator_works_after_errors():
    for arrays, _ in BAD_ARRAYS.values():
        with pytest.raises(MXNetError):
            call(arrays)
    problem = make("lstm", L=2, D=2)
    check_outputs(operator_forward(problem), problem.outputs(), problem.shape)


def test_errors_while_recording():
    problem = make("lstm")
    arrays = operator_inputs(problem)
    arrays[0].attach_grad()
    bad = mx.nd.array(problem.params[:-1], dtype="float64")
    with pytest.raises(MXNetError), mx.autograd.record():
        mx.nd.FusedRNN(arrays[0], bad, *arrays[2:], **operator_attributes(problem))
    with mx.autograd.record():
        y = mx.nd.FusedRNN(*arrays, **operator_attributes(problem))[0]
    y.backward()
    assert np.isfinite(arrays[0].grad.asnumpy()).all()


def test_a_fault_of_the_core_is_a_python_error_and_not_the_end():
    problem = make("gru")
    with pytest.raises(ValueError):
        _core.forward("gru", problem.x, problem.params[:-1], problem.h0)
    assert _core.forward("gru", *problem.inputs)[0].shape == (5, 2, 4)
