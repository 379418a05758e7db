"""Fused recurrent layers for MXNet on CPUs.

Importing this package registers the operator FusedRNN in MXNet (mx.nd.FusedRNN, mx.sym.FusedRNN,
npx.fused_rnn). `install` makes MXNet's own RNN run on it; so does importing with
FUSED_RNN_INSTALL=1 in the environment, as FUSED_RNN_RECOMPUTE=1 does for `set_recompute`
(or true, yes, on; 0, false, no, off or nothing leave it).
"""

from __future__ import annotations

from fused_rnn import _library

_library.load()

from fused_rnn import _amp, functional, gluon, rnn, weights  # noqa: E402  the operator must be there
from fused_rnn import ndarray as nd  # noqa: E402
from fused_rnn import symbol as sym  # noqa: E402
from fused_rnn._core import sizes, version  # noqa: E402
from fused_rnn._library import memory, release_memory, set_recompute  # noqa: E402
from fused_rnn.convert import convert  # noqa: E402
from fused_rnn.install import install, installed  # noqa: E402
from fused_rnn.settings import (  # noqa: E402
    gemm_backend,
    isa,
    num_threads,
    set_num_threads,
    switch,
)
from fused_rnn.streaming import Stream  # noqa: E402

__all__ = [
    "Stream",
    "convert",
    "functional",
    "gemm_backend",
    "gluon",
    "install",
    "installed",
    "isa",
    "memory",
    "nd",
    "num_threads",
    "release_memory",
    "rnn",
    "set_num_threads",
    "set_recompute",
    "sizes",
    "sym",
    "weights",
]
__version__ = version()

_amp.register()

if switch("FUSED_RNN_INSTALL"):
    install()
if switch("FUSED_RNN_RECOMPUTE"):
    set_recompute(True)
