"""Set-up common to all tests."""

from __future__ import annotations

import warnings

import pytest

with warnings.catch_warnings():
    # MXNet 1.9.1 uses names that NumPy deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    import mxnet as mx

    import fused_rnn  # noqa: F401  registers mx.nd.FusedRNN and mx.sym.FusedRNN


@pytest.fixture(autouse=True)
def finished():
    """MXNet computes asynchronously: an error must surface in the test that caused it."""
    yield
    mx.nd.waitall()
