"""Whether an installed fused_rnn works: a few calls through every library of the package."""

from __future__ import annotations

import sys
from pathlib import Path

import mxnet as mx
import numpy as np

import fused_rnn
from fused_rnn import functional, weights


def main() -> None:
    package = Path(fused_rnn.__file__).resolve().parent
    if Path(sys.prefix).resolve() not in package.parents:
        sys.exit(f"fused_rnn: expected the one installed in {sys.prefix}, found {package}")
    layout = weights.Layout("gru", input_size=16, hidden_size=32)
    rng = np.random.default_rng(0)
    params = rng.uniform(-0.3, 0.3, layout.size).astype("float32")
    x = rng.standard_normal((7, 3, 16)).astype("float32")
    core = functional.gru(x, params, hidden_size=32)
    arrays = [mx.nd.array(a) for a in (x, params, np.zeros((1, 3, 32)))]
    options = {"mode": "gru", "state_size": 32, "num_layers": 1}
    native = mx.nd.RNN(*arrays, **options).asnumpy()
    fused = mx.nd.FusedRNN(*arrays, **options).asnumpy()
    fused_rnn.install()
    layer = mx.gluon.rnn.LSTM(8, bidirectional=True)
    layer.initialize()
    with mx.autograd.record():
        y = layer(arrays[0])
    y.backward()
    gradient = layer.l0_i2h_weight.grad().asnumpy()
    np.testing.assert_allclose(fused, native, rtol=0, atol=1e-5)
    np.testing.assert_allclose(core.y, fused, rtol=0, atol=1e-6)
    if not (np.isfinite(gradient).all() and gradient.any()):
        sys.exit("fused_rnn: expected finite gradients, found others")
    print(f"fused_rnn {fused_rnn.__version__} works")


if __name__ == "__main__":
    main()
