"""The language models of gluonnlp after `install`: the native operator's numbers."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import run_code

pytest.importorskip("gluonnlp", reason="gluonnlp is not installed")

# Weights by name, so that both processes have the same whatever order they are initialised in.
PROGRAM = """
import sys, warnings
warnings.simplefilter("ignore")
import mxnet as mx, numpy as np
import fused_rnn
from gluonnlp.model.train import AWDRNN, StandardRNN

if {install}:
    fused_rnn.install()
mx.random.seed(3)
net = {model}
net.initialize()
tokens = mx.nd.array(np.random.RandomState(0).randint(0, 50, (9, 4)))
states = net.begin_state(batch_size=4, func=mx.nd.zeros)
net(tokens, states)
for k, (_, parameter) in enumerate(sorted(net.collect_params().items())):
    values = np.random.RandomState(k).uniform(-0.3, 0.3, parameter.shape)
    parameter.set_data(mx.nd.array(values))
trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {{"learning_rate": 1.0}})
loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
results = []
for _ in range(3):
    with mx.autograd.record():
        output, states, *_ = net(tokens, states)
        value = loss(output.reshape((-1, 50)), (tokens + 1).reshape((-1,)) % 50).mean()
    value.backward()
    trainer.step(1)
    results += [value, output]
results += [net(tokens, states)[0]]
results += [p.data() for _, p in sorted(net.collect_params().items())]
np.savez({path!r}, *[array.asnumpy() for array in results])
"""

MODELS = {
    "StandardRNN": 'StandardRNN("lstm", 50, 16, 16, 2, dropout=0, tie_weights=True)',
    "StandardRNN of a gru": 'StandardRNN("gru", 50, 12, 16, 2, dropout=0)',
    "AWDRNN": 'AWDRNN("lstm", 50, 12, 16, 3, tie_weights=True, dropout=0, weight_drop=0, '
    "drop_h=0, drop_i=0, drop_e=0)",
}


@pytest.mark.parametrize("model", MODELS)
def test_training_and_prediction(model, tmp_path):
    values = []
    for install in (False, True):
        path = str(tmp_path / f"{install}.npz")
        run_code(PROGRAM.format(install=install, model=MODELS[model], path=path))
        with np.load(path) as arrays:
            values.append([arrays[name] for name in arrays.files])
    assert len(values[0]) > 10
    for native, ours in zip(*values):
        np.testing.assert_allclose(ours, native, rtol=1e-4, atol=1e-5)


def test_weight_drop(tmp_path):
    """AWDRNN as it is meant, with all its kinds of dropout: one seed, the same numbers twice."""
    outputs = []
    model = 'AWDRNN("lstm", 50, 12, 16, 3, tie_weights=True)'
    for k in range(2):
        path = str(tmp_path / f"{k}.npz")
        run_code(PROGRAM.format(install=True, model=model, path=path))
        with np.load(path) as arrays:
            outputs.append([arrays[name] for name in arrays.files])
    for first, second in zip(*outputs):
        np.testing.assert_array_equal(first, second)
    assert np.isfinite(outputs[0][-1]).all()
