"""Clipping of the LSTM's cell state, at every step, before the output and before the next step."""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
import reference
from helpers import (
    check_gradients,
    check_outputs,
    core_forward,
    core_gradients,
    make,
    nd,
    operator_attributes,
    operator_forward,
    operator_gradients,
    operator_inputs,
)
from reference import LSTMS

from fused_rnn import _core

RANGES = [(-1.0, 1.0), (-0.5, 2.0), (0.1, 0.4), (-0.2, -0.2)]


def growing(mode="lstm", **sizes):
    """Input and candidate gates near one: unclipped cell states grow with every step."""
    problem = make(mode, **sizes)
    weights = reference.unpack(problem.shape, problem.params)
    H = problem.shape.H
    for l, d in problem.shape.cells():
        weights[l, d, "bW"][:H] += 3
        weights[l, d, "bW"][H : 2 * H] += 3
        weights[l, d, "bW"][2 * H : 3 * H : 2] += 2
        weights[l, d, "bW"][2 * H + 1 : 3 * H : 2] -= 2
    return problem.replace(params=reference.pack(problem.shape, weights))


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("L", [1, 2])
@pytest.mark.parametrize("clip", RANGES)
@pytest.mark.parametrize("mode", LSTMS)
def test_outputs_and_gradients(mode, clip, L, D):
    for H in (4, 17):
        plain = growing(mode, T=6, N=3, H=H, L=L, D=D)
        assert np.abs(plain.outputs().cN).max() > 2
        problem = plain.replace(options={"clip": clip})
        expected = problem.outputs()
        assert not np.allclose(expected.y, plain.outputs().y)
        for nan in (False, True):
            problem = plain.replace(options={"clip": clip, "clip_nan": nan})
            check_outputs(core_forward(problem), expected, problem.shape)
            check_gradients(core_gradients(problem), problem.gradients(), problem.shape)
            outputs, gradients = operator_gradients(problem)
            check_outputs(outputs, expected, problem.shape)
            check_gradients(gradients, problem.gradients(), problem.shape)
            assert outputs[2].min() >= clip[0]
            assert outputs[2].max() <= clip[1]


@pytest.mark.parametrize("mode", LSTMS)
def test_gradients_are_central_differences(mode):
    problem = growing(mode, T=6, N=3, L=2, D=2).replace(options={"clip": (-1.0, 1.0)})
    for a, e in zip(core_gradients(problem), problem.numeric_gradients()):
        np.testing.assert_allclose(a, e, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("mode", LSTMS)
def test_single_precision(mode):
    problem = make(mode, T=6, N=9, H=17, L=2, D=2, dtype="float32", clip=(-0.2, 0.3))
    check_outputs(core_forward(problem, "float32"), problem.outputs(), problem.shape, "float32")
    check_gradients(
        core_gradients(problem, "float32"), problem.gradients(), problem.shape, "float32"
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("mode", LSTMS)
def test_nan_stays_or_is_mapped_into_the_range(mode, dtype):
    problem = make(mode, N=3, H=9, dtype=dtype, clip=(-0.5, 0.25))
    problem.c0[0, 1] = np.nan
    for clip_nan in (False, True):
        problem.options["clip_nan"] = clip_nan
        y, hN, cN, _ = core_forward(problem, dtype)
        assert np.isnan(cN[0, 1]).all() == (not clip_nan)
        assert np.isnan(y[:, 1]).all() == (not clip_nan)
        if clip_nan:
            assert np.isfinite(y).all()
            assert cN.min() >= -0.5
            assert cN.max() <= 0.25
            if mode == "lstm":  # zero where clipped; gates with peepholes saw the NaN themselves
                assert not core_gradients(problem, dtype)[3][0, 1].any()
        well = [0, 2]
        expected = problem.outputs()
        limit = reference.tolerance(problem.shape, dtype, expected.y[:, well])
        np.testing.assert_allclose(y[:, well], expected.y[:, well], rtol=0, atol=limit)


def test_clip_nan_without_a_range_changes_nothing():
    """As the native operator documents: without a range this option is ignored."""
    problem = make("lstm")
    outputs = operator_forward(problem, lstm_state_clip_nan=True)
    check_outputs(outputs, problem.outputs(), problem.shape)


def test_infinite_bounds_do_not_clip():
    problem = growing(T=6, N=3)
    expected = problem.outputs()
    problem = problem.replace(options={"clip": (-np.inf, np.inf)})
    check_outputs(core_forward(problem), expected, problem.shape)


BAD = {
    "one bound": {"lstm_state_clip_min": -1},
    "the other bound": {"lstm_state_clip_max": 1},
    "wrong order": {"lstm_state_clip_min": 1, "lstm_state_clip_max": -1},
}


@pytest.mark.parametrize("case", BAD)
def test_bad_ranges(case):
    problem = make("lstm")
    arrays = operator_inputs(problem)
    with pytest.raises(mx.MXNetError, match="lstm_state_clip_m"):
        mx.nd.FusedRNN(*arrays, **operator_attributes(problem), **BAD[case])[0].wait_to_read()


def test_bad_ranges_of_the_core():
    problem = make("lstm")
    for bad in ({"clip_min": -1}, {"clip_max": 1}, {"clip_min": 1, "clip_max": -1}):
        with pytest.raises(ValueError, match="clip_m"):
            _core.forward("lstm", *problem.inputs, **bad)
    with pytest.raises(ValueError, match="clip_m"):
        _core.forward("lstm", *problem.inputs, clip_min=np.nan, clip_max=np.nan)


@pytest.mark.parametrize("mode", ["gru", "gru_reset_before", "rnn_tanh"])
def test_other_modes_refuse_it(mode):
    problem = make(mode)
    arrays = [nd(value) for value in problem.inputs]
    attributes = operator_attributes(problem, lstm_state_clip_min=-1, lstm_state_clip_max=1)
    with pytest.raises(mx.MXNetError, match="lstm_state_clip_m"):
        mx.nd.FusedRNN(*arrays, **attributes)[0].wait_to_read()
