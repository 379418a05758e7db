"""The examples in docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib

import mxnet as mx
import numpy as np
import pytest

import fused_rnn

MODULES = ("convert", "gluon.cells", "gluon.dropout", "gluon.layer", "gluon.norm")
MODULES += ("gluon.parameter", "gluon.stack", "rnn", "streaming")


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the examples take for granted: names, and files in the working directory."""
    monkeypatch.chdir(tmp_path)
    net = fused_rnn.gluon.GRU(256, input_size=4)
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((5, 1, 4)))
    net.export("net")
    net.export("model", epoch=10)
    params = net.parameters.data().asnumpy()
    frames = np.ones((3, 1, 4), "float32")
    return {"fused_rnn": fused_rnn, "mx": mx, "net": net, "params": params, "frames": frames}


@pytest.mark.parametrize("module", MODULES)
def test_examples(module, names):
    loaded = importlib.import_module(f"fused_rnn.{module}")
    results = doctest.testmod(loaded, globs=names)
    assert results.attempted and not results.failed, results
