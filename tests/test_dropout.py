"""Dropout between layers: how much, where, from which seed, and the same in backward."""

from __future__ import annotations

import masks
import mxnet as mx
import numpy as np
import pytest
from helpers import (
    check,
    check_gradients,
    check_outputs,
    core_backward,
    core_forward,
    make,
    operator_attributes,
    operator_forward,
    operator_gradients,
    operator_inputs,
    run_code,
)
from reference import CELLS, LSTMS, Gradients, Shape
from test_hybridize import HYBRID, layer, step

from fused_rnn import _core


def core_masks(shape, p, seed):
    return masks.find(
        shape, lambda net: core_forward(net, training=True, dropout=p, dropout_seed=seed)[0]
    )


def operator_masks(shape, p, seed):
    def run(net):
        mx.random.seed(seed)
        with mx.autograd.record():
            return mx.nd.FusedRNN(*operator_inputs(net), **operator_attributes(net, p=p))[
                0
            ].asnumpy()

    return masks.find(shape, run)


@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
def test_share_scale_and_independence(p):
    shape = Shape("rnn_relu", T=200, N=8, I=1, H=32, L=3, D=2)
    found = core_masks(shape, p, seed=1)
    sigma = (p * (1 - p)) ** 0.5
    for mask in found:
        kept = mask != 0
        np.testing.assert_allclose(mask[kept], 1 / (1 - p), rtol=1e-12)
        limit = 5 * sigma / mask.size**0.5
        assert abs(kept.mean() - (1 - p)) < limit
        for axis in range(3):  # no step, sample or unit has a share of its own
            others = mask.size / mask.shape[axis]
            shares = kept.mean(axis=tuple(k for k in range(3) if k != axis))
            assert np.abs(shares - (1 - p)).max() < 6 * sigma / others**0.5
            centred = kept - kept.mean()
            for lag in (1, 2, 4, 8):
                if lag < mask.shape[axis]:
                    product = np.take(centred, range(lag, mask.shape[axis]), axis) * np.take(
                        centred, range(mask.shape[axis] - lag), axis
                    )
                    assert abs(product.mean()) < 6 * sigma**2 / product.size**0.5
    both = [mask != 0 for mask in found]
    agreement = (both[0] == both[1]).mean()
    expected = p * p + (1 - p) ** 2
    assert abs(agreement - expected) < 6 * (expected * (1 - expected) / both[0].size) ** 0.5


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("L", [2, 3])
@pytest.mark.parametrize("mode", CELLS)
def test_core_uses_one_mask_forward_and_backward(mode, L, D):
    for dtype in ("float64", "float32"):
        problem = make(mode, H=5, L=L, D=D, dtype=dtype)
        found = core_masks(problem.shape, 0.5, seed=3)
        assert all(0 < (mask != 0).mean() < 1 for mask in found)
        expected = problem.replace(options={"masks": found})
        options = {"dropout": 0.5}
        y, hN, cN, reserve = core_forward(problem, dtype, training=True, dropout_seed=3, **options)
        check_outputs((y, hN, cN), expected.outputs(), problem.shape, dtype)
        gradients = core_backward(problem, y, reserve, dtype, **options)
        check_gradients(gradients, expected.gradients(), problem.shape, dtype)


@pytest.mark.parametrize("mode", CELLS)
def test_gradients_are_central_differences(mode):
    problem = make(mode, L=2, D=2)
    found = core_masks(problem.shape, 0.5, seed=5)
    expected = problem.replace(options={"masks": found}).numeric_gradients()
    y, _, _, reserve = core_forward(problem, training=True, dropout=0.5, dropout_seed=5)
    gradients = core_backward(problem, y, reserve, dropout=0.5)
    for a, e in zip(gradients, expected):
        if e is not None:
            np.testing.assert_allclose(a, e, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("mode", CELLS)
def test_operator_in_training(mode, D):
    problem = make(mode, L=3, D=D)
    found = operator_masks(problem.shape, 0.5, seed=11)
    mx.random.seed(11)
    outputs, gradients = operator_gradients(problem, p=0.5)
    expected = problem.replace(options={"masks": found})
    check_outputs(outputs, expected.outputs(), problem.shape)
    check_gradients(gradients, expected.gradients(), problem.shape)


@pytest.mark.parametrize("mode", CELLS)
def test_with_lengths_and_projection(mode):
    P = 2 if mode in LSTMS else 0
    problem = make(mode, N=3, L=3, D=2, P=P, lengths=[5, 2, 0])
    found = core_masks(problem.shape, 0.4, seed=2)
    expected = problem.replace(options={**problem.options, "masks": found})
    options = {"dropout": 0.4}
    y, hN, cN, reserve = core_forward(problem, training=True, dropout_seed=2, **options)
    check_outputs((y, hN, cN), expected.outputs(), problem.shape)
    gradients = core_backward(problem, y, reserve, **options)
    check_gradients(gradients, expected.gradients(), problem.shape)


@pytest.mark.parametrize("mode", CELLS)
def test_prediction_drops_nothing(mode):
    problem = make(mode, L=2, D=2)
    expected = problem.outputs()
    check_outputs(operator_forward(problem, p=0.5), expected, problem.shape)
    check_outputs(core_forward(problem, dropout=0.5), expected, problem.shape)


@pytest.mark.parametrize("mode", CELLS)
def test_gradients_of_a_predict_mode_forward_drop_nothing(mode):
    """A gradient may be wanted without training: recorded with train_mode=False, or bound and run
    so.
    """
    problem = make(mode, L=2, D=2)
    outputs, gradients = operator_gradients(problem, train_mode=False, p=0.5)
    check_outputs(outputs, problem.outputs(), problem.shape)
    check_gradients(gradients, problem.gradients(), problem.shape)
    net = mx.sym.FusedRNN(mx.sym.var("data"), name="a", **operator_attributes(problem, p=0.5))
    executor = net.simple_bind(mx.cpu(), type_dict={"data": "float64"}, data=problem.x.shape)
    for name, array in zip(net.list_arguments(), operator_inputs(problem)):
        executor.arg_dict[name][:] = array
    executor.forward(is_train=False)
    executor.backward([mx.nd.array(head, dtype="float64") for head in problem.heads])
    gradients = [executor.grad_dict[name].asnumpy() for name in net.list_arguments()]
    check_gradients(gradients, problem.gradients(), problem.shape)


def test_the_last_layer_and_a_single_layer_are_not_dropped():
    for L in (1, 2):
        problem = make("lstm", T=20, N=8, H=16, L=L)
        outputs, _ = operator_gradients(problem, p=0.9)
        assert (outputs[0] != 0).all()
        if L == 1:
            check_outputs(outputs, problem.outputs(), problem.shape)


def test_no_and_full_dropout():
    problem = make("gru", L=2, D=2)
    for p, scale in ((0.0, 1.0), (1.0, 0.0)):
        mask = [np.full((5, 2, 8), scale)]
        expected = problem.replace(options={"masks": mask})
        outputs, gradients = operator_gradients(problem, p=p)
        check_outputs(outputs, expected.outputs(), problem.shape)
        check_gradients(gradients, expected.gradients(), problem.shape)


def test_nearly_full_dropout_is_finite():
    for dtype in ("float64", "float32"):
        problem = make("lstm", T=20, N=8, H=32, L=3, dtype=dtype)
        for p in (0.999, 0.9999999):
            outputs, gradients = operator_gradients(problem, dtype, p=p)
            assert all(np.isfinite(value).all() for value in (*outputs, *gradients))


SIZES = {"T": 9, "N": 7, "H": 33, "L": 3, "D": 2, "dtype": "float32"}


def trained(problem, seed=None):
    """y in training; seeded only if a seed is given."""
    if seed is not None:
        mx.random.seed(seed)
    arrays = operator_inputs(problem, "float32")
    with mx.autograd.record():
        return mx.nd.FusedRNN(*arrays, **operator_attributes(problem, p=0.5))[0].asnumpy()


def test_seeds():
    problem = make("lstm", **SIZES)
    first = trained(problem, seed=1)
    second = trained(problem)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(trained(problem, seed=1), first)
    np.testing.assert_array_equal(trained(problem), second)
    assert not np.array_equal(trained(problem, seed=2), first)


@pytest.mark.parametrize("mode", CELLS)
def test_masks_do_not_depend_on_threads(mode):
    shape = Shape(mode, T=9, N=7, I=1, H=33, L=3, D=2)
    try:
        found = []
        for threads in (1, 2, 8):
            _core.set_num_threads(threads)
            found.append(operator_masks(shape, 0.5, seed=4))
    finally:
        _core.set_num_threads(0)
    for other in found[1:]:
        for a, b in zip(found[0], other):
            np.testing.assert_array_equal(a, b)


PRINT_MASKS = """
import numpy as np
from reference import Shape
from test_dropout import operator_masks
found = operator_masks(Shape("gru", T=9, N=7, I=1, H=33, L=3, D=2), 0.5, seed=4)
print("masks", *(np.packbits(mask != 0).tobytes().hex() for mask in found))
"""


def test_masks_do_not_depend_on_the_engine_or_the_process():
    outputs = {
        run_code(PRINT_MASKS, MXNET_ENGINE_TYPE=engine, OMP_NUM_THREADS=threads).split("masks")[1]
        for engine, threads in (("ThreadedEnginePerDevice", "2"), ("NaiveEngine", "1"))
    }
    assert len(outputs) == 1


def test_a_recorded_mask_outlives_other_calls():
    problem = make("lstm", L=2, D=2)
    found = operator_masks(problem.shape, 0.5, seed=6)
    arrays = operator_inputs(problem)
    for array in arrays:
        array.attach_grad()
    mx.random.seed(6)
    with mx.autograd.record():
        outputs = mx.nd.FusedRNN(*arrays, **operator_attributes(problem, p=0.5))
    operator_gradients(problem, p=0.5)
    heads = [mx.nd.array(head, dtype="float64") for head in problem.heads]
    expected = problem.replace(options={"masks": found}).gradients()
    for k in (1, 2):
        mx.autograd.backward(outputs, heads, retain_graph=k == 1)
        check_gradients([a.grad.asnumpy() for a in arrays], Gradients(*expected), problem.shape)


def test_the_states_are_those_before_dropout():
    """A layer's own recurrence and final state use the undropped values."""
    problem = make("gru", L=2)
    outputs, _ = operator_gradients(problem, p=0.5)
    expected = problem.outputs()
    check(outputs[1][:1], expected.hN[:1], problem.shape, what="hN of the lower layer")


@pytest.mark.parametrize("how", HYBRID)
@pytest.mark.parametrize("mode", CELLS)
def test_blocks(mode, how):
    """Each training step draws anew, in a reused state too, and its backward uses what it drew."""
    problem = make(mode, L=2, D=2)
    net = layer(problem, how, p=0.5)
    for seed in (1, 2, 3):
        found = operator_masks(problem.shape, 0.5, seed)
        mx.random.seed(seed)
        outputs, gradients = step(net, problem)
        expected = problem.replace(options={"masks": found})
        check_outputs(outputs, expected.outputs(), problem.shape)
        check_gradients(gradients, expected.gradients(), problem.shape)
