"""fused_rnn.rnn.FusedRNNCell beside mx.rnn.FusedRNNCell, in Module and BucketingModule."""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest
from helpers import check_outputs, make, run_code
from reference import MODES, Shape, unpack

import fused_rnn

Cell = fused_rnn.rnn.FusedRNNCell


def run(symbol, **arrays):
    args = {name: mx.nd.array(value) for name, value in arrays.items()}
    executor = symbol.bind(mx.cpu(), args)
    return [output.asnumpy() for output in executor.forward()]


def cell_for(problem, **options):
    shape = problem.shape
    return Cell(
        shape.H, shape.L, shape.mode, shape.D == 2, get_next_state=True, prefix="rnn_", **options
    )


@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_unroll(mode, merge, layout):
    problem = make(mode, L=2, D=2, dtype="float32")
    T, axis = problem.shape.T, layout.find("T")
    x = problem.x.swapaxes(0, 1) if layout == "NTC" else problem.x
    cell = cell_for(problem)
    states = [mx.sym.var("h"), mx.sym.var("c")][: len(problem.inputs) - 2]
    outputs, finals = cell.unroll(T, mx.sym.var("data"), states, layout, merge)
    group = mx.sym.Group([*([outputs] if merge else outputs), *finals])
    arrays = dict(zip(("data", "rnn_parameters", "h", "c"), (x, *problem.inputs[1:])))
    results = run(group, **arrays)
    if merge:
        assert results[0].shape[axis] == T
        y, finals = results[0], results[1:]
        y = y.swapaxes(0, 1) if layout == "NTC" else y
    else:
        y, finals = np.stack(results[:T]), results[T:]
    check_outputs([y, *finals], problem.outputs(), problem.shape, "float32")
    assert list(group)[-1].attr("__layout__") == "LNC"


@pytest.mark.parametrize("mode", MODES)
def test_graph_is_that_of_mxnet(mode):
    graphs = []
    for kind in (mx.rnn.FusedRNNCell, Cell):
        cell = kind(4, 2, mode, True, 0.3, True, prefix="net_")
        inputs = [mx.sym.var(f"t{k}") for k in range(3)]
        outputs, states = cell.unroll(3, inputs, layout="TNC")
        graphs.append(mx.sym.Group([outputs, *states]))
    native, ours = graphs
    assert ours.list_arguments() == native.list_arguments()
    assert ours.list_outputs() == native.list_outputs()
    shapes = {f"t{k}": (2, 3) for k in range(3)}
    assert ours.infer_shape(**shapes) == native.infer_shape(**shapes)
    assert ours.attr_dict()["net_parameters"] == native.attr_dict()["net_parameters"]


@pytest.mark.parametrize("mode", MODES)
def test_unfused_cells_with_unpacked_weights(mode):
    problem = make(mode, L=2, D=2, dtype="float32")
    cell = cell_for(problem)
    packed = {"rnn_parameters": mx.nd.array(problem.params)}
    unpacked = cell.unpack_weights(packed)
    np.testing.assert_array_equal(
        cell.pack_weights(unpacked)["rnn_parameters"].asnumpy(),
        packed["rnn_parameters"].asnumpy(),
    )
    stack = cell.unfuse()
    outputs, states = stack.unroll(problem.shape.T, mx.sym.var("data"), layout="TNC")
    fused, finals = cell.unroll(problem.shape.T, mx.sym.var("data"), layout="TNC")
    weights = stack.pack_weights(unpacked)
    y = np.stack(run(mx.sym.Group(outputs), data=problem.x, **weights))
    ours = run(mx.sym.Group([fused, *finals]), data=problem.x, **packed)
    np.testing.assert_allclose(ours[0], y, atol=1e-5)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_initialiser(mode, bidirectional):
    """mx.init.FusedRNN: the forget gate's biases in every layer and direction, zeros elsewhere."""
    cell = Cell(4, 3, mode, bidirectional, forget_bias=2.5, prefix="rnn_")
    outputs, _ = cell.unroll(5, mx.sym.var("data"), merge_outputs=True)
    module = mx.mod.Module(outputs, label_names=None)
    module.bind([("data", (2, 5, 3))], for_training=False)
    module.init_params(mx.init.Uniform(0.1))
    params = module.get_params()[0]["rnn_parameters"].asnumpy()
    shape = Shape(mode, 5, 2, 3, 4, 3, 1 + bidirectional)
    for (_, _, name), part in unpack(shape, params).items():
        if name in ("W", "R"):
            assert 0 < abs(part).max() <= 0.1
        else:
            expected = np.zeros_like(part)
            if mode == "lstm":
                expected[4:8] = 2.5
            np.testing.assert_array_equal(part, expected)


def test_stepping_is_refused():
    with pytest.raises(NotImplementedError, match="unroll"):
        Cell(4)(mx.sym.var("data"), [])


# Learning: the sum of a sequence's first channel, from data of several lengths.


def network(cell, T):
    outputs, _ = cell.unroll(T, mx.sym.var("data"), layout="NTC", merge_outputs=True)
    last = mx.sym.SequenceLast(mx.sym.swapaxes(outputs, dim1=0, dim2=1))
    score = mx.sym.FullyConnected(last, num_hidden=1, name="score")
    return mx.sym.LinearRegressionOutput(score, mx.sym.var("label"), name="loss")


def batch(T, N=8, seed=0):
    x = np.random.default_rng([seed, T]).uniform(-0.3, 0.3, (N, T, 2))
    data, label = mx.nd.array(x), mx.nd.array(x[:, :, :1].sum(axis=1))
    return mx.io.DataBatch(
        [data],
        [label],
        bucket_key=T,
        provide_data=[mx.io.DataDesc("data", data.shape)],
        provide_label=[mx.io.DataDesc("label", label.shape)],
    )


def prepare(module, first, optimizer="adam", rate=0.02):
    mx.random.seed(3)
    module.bind(first.provide_data, first.provide_label)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer=optimizer, optimizer_params={"learning_rate": rate})


def steps(module, batches):
    """Trains on each batch; returns the mean squared errors."""
    losses = []
    for each in batches:
        module.forward(each, is_train=True)
        module.backward()
        losses.append(((module.get_outputs()[0] - each.label[0]) ** 2).mean().asscalar())
        module.update()
    return losses


@pytest.mark.parametrize("mode", MODES)
def test_module_learns(mode):
    module = mx.mod.Module(network(Cell(6, 2, mode), 5), label_names=["label"])
    prepare(module, batch(5))
    losses = steps(module, [batch(5)] * 40)
    assert losses[-1] < 0.3 * losses[0]


@pytest.mark.parametrize("mode", MODES)
def test_module_on_two_contexts(mode):
    """Half a batch on each teaches what all of it on one does (C40)."""
    results = []
    for contexts in ([mx.cpu(0)], [mx.cpu(0), mx.cpu(1)]):
        symbol = network(Cell(6, 2, mode, prefix="rnn_"), 5)
        module = mx.mod.Module(symbol, label_names=["label"], context=contexts)
        prepare(module, batch(5), "sgd", 0.3)
        before = module.get_params()[0]["rnn_parameters"].asnumpy()
        steps(module, [batch(5)] * 5)
        results.append(module.get_params()[0]["rnn_parameters"].asnumpy())
    assert abs(results[0] - before).max() > 1e-2
    np.testing.assert_allclose(*results, atol=1e-5)


def bucketing_module(cell, buckets):
    return mx.mod.BucketingModule(
        lambda T: (network(cell, T), ["data"], ["label"]), default_bucket_key=max(buckets)
    )


@pytest.mark.parametrize("mode", MODES)
def test_bucketing_module(mode):
    buckets = (3, 8, 5)
    module = bucketing_module(Cell(6, 2, mode, prefix="rnn_"), buckets)
    prepare(module, batch(8))
    losses = steps(module, [batch(T) for _ in range(30) for T in buckets])
    assert sum(losses[-3:]) < 0.3 * sum(losses[:3])


def test_checkpoint(tmp_path):
    """Saved with unpacked weights; mx.rnn's own cell reads it."""
    path = str(tmp_path / "model")
    cell = Cell(6, 2, prefix="rnn_", bidirectional=True)
    module = mx.mod.Module(network(cell, 5), label_names=["label"])
    prepare(module, batch(5))
    args, aux = module.get_params()
    mx.rnn.save_rnn_checkpoint(cell, path, 1, module.symbol, args, aux)
    native = mx.rnn.FusedRNNCell(6, 2, prefix="rnn_", bidirectional=True)
    symbol, loaded, _ = mx.rnn.load_rnn_checkpoint(native, path, 1)
    assert symbol.tojson() == module.symbol.tojson()
    np.testing.assert_array_equal(
        loaded["rnn_parameters"].asnumpy(), args["rnn_parameters"].asnumpy()
    )


BUCKETS = """
import fused_rnn
from fused_rnn.bench.workers.worker import status
from test_cell import Cell, batch, bucketing_module, prepare, steps
buckets, before = {buckets}, status("VmRSS")
module = bucketing_module(Cell(256, 4, prefix="rnn_"), buckets)
prepare(module, batch(60, 32))
steps(module, [batch(T, 32) for _ in range(2) for T in buckets])
assert fused_rnn.memory()["reserve"] == 0  # none is held from step to step
print("grown", status("VmHWM") - before)
"""


def test_buckets_need_the_memory_of_the_largest():
    """C32: beyond what the process had before; spare memory of one bucket serves the next."""
    alone, together = (
        int(run_code(BUCKETS.format(buckets=buckets)).split("grown")[1])
        for buckets in ([60], [10, 20, 30, 40, 50, 60])
    )
    assert together < 1.15 * alone, f"{together} against {alone} bytes"
