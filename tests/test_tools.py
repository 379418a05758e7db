"""MXNet's own tools on the fused operator: summaries, plots, the profiler, Monitor."""

from __future__ import annotations

import json

import mxnet as mx
import numpy as np
import pytest
from helpers import run_code
from reference import MODES

import fused_rnn


def network(mode="lstm") -> mx.sym.Symbol:
    y = fused_rnn.sym.RNN(mx.sym.var("data"), mode=mode, state_size=8, num_layers=1, name="encoder")
    flat = mx.sym.reshape(y, shape=(-1, 8), name="flat")
    return mx.sym.FullyConnected(flat, num_hidden=5, name="scores")


@pytest.mark.parametrize("mode", MODES)
def test_summary_of_a_symbol(mode, capsys):
    """Every row is the native operator's, but for the name."""
    printed = {}
    for op, symbol in (
        ("FusedRNN", network(mode)),
        ("RNN", fused_rnn.convert(network(mode), reverse=True)),
    ):
        mx.viz.print_summary(symbol, shape={"data": (7, 2, 3)})
        rows = capsys.readouterr().out.splitlines()
        assert any(row.startswith(f"encoder({op})") for row in rows)
        printed[op] = [row.replace(f"({op})", "").split() for row in rows]
    assert printed["FusedRNN"] == printed["RNN"]


def test_plot_of_a_symbol():
    pytest.importorskip("graphviz", reason="graphviz is not installed")
    ours, native = (
        mx.viz.plot_network(symbol, shape={"data": (7, 2, 3)}).source
        for symbol in (network(), fused_rnn.convert(network(), reverse=True))
    )
    assert "encoder -> data" in ours
    assert ours == native


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_summary_of_a_block(kind, capsys):
    layer = getattr(fused_rnn.gluon, kind)(8, num_layers=2, bidirectional=True)
    net = mx.gluon.nn.HybridSequential()
    net.add(layer, mx.gluon.nn.Dense(5, flatten=False))
    net.initialize()
    net.summary(mx.nd.ones((7, 2, 3)))
    printed = capsys.readouterr().out
    (row,) = (line for line in printed.splitlines() if f"{kind}-" in line)
    size = layer.parameters.shape[0]
    assert "(7, 2, 16)" in row
    assert row.split()[-1] == str(size)
    assert f"Total params: {size + 16 * 5 + 5}" in printed


PROFILE = """
import mxnet as mx
import fused_rnn

mx.profiler.set_config(profile_imperative=True, aggregate_stats=True, filename={!r})
layer = fused_rnn.gluon.GRU(8)
layer.initialize()
x = mx.nd.ones((7, 2, 3))
layer(x).wait_to_read()
mx.profiler.set_state("run")
with mx.autograd.record():
    y = layer(x)
y.backward()
mx.nd.waitall()
mx.profiler.set_state("stop")
print(mx.profiler.dumps(format="json"))
"""


def test_profiler_shows_the_operator_by_name(tmp_path):
    """In another process, since a process has one profiler. It removes and writes its file."""
    printed = run_code(PROFILE.format(str(tmp_path / "profile.json")))
    operators = json.loads(printed[printed.index("{") :])["Time"]["operator"]
    assert operators["FusedRNN"]["Count"] == 1
    assert operators["_backward_FusedRNN"]["Count"] == 1


def test_monitor():
    executor = network().simple_bind(mx.cpu(), data=(7, 2, 3))
    executor.copy_params_from({"encoder_parameters": mx.nd.ones((416,))})
    monitor = mx.mon.Monitor(1, stat_func=lambda array: array.abs().max(), monitor_all=True)
    monitor.install(executor)
    monitor.tic()
    executor.forward(is_train=True, data=mx.nd.ones((7, 2, 3)))
    executor.backward(mx.nd.ones((14, 5)))
    seen = {name: float(value) for _, name, value in monitor.toc()}
    assert seen["encoder_parameters"] == 1
    assert 0 < seen["encoder_output"] < 1  # tanh of a positive cell state
    y = mx.nd.FusedRNN(
        mx.nd.ones((7, 2, 3)),
        mx.nd.ones((416,)),
        mx.nd.zeros((1, 2, 8)),
        mx.nd.zeros((1, 2, 8)),
        mode="lstm",
        state_size=8,
        num_layers=1,
    )
    assert seen["encoder_output"] == pytest.approx(float(np.abs(y.asnumpy()).max()), rel=1e-5)
