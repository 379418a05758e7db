"""Importing beside the wrong MXNet or NumPy, or none: an ImportError that says what was found and
what to install.
"""

from __future__ import annotations

import pytest
from helpers import run

import fused_rnn

MISSING_MXNET = "sys.modules['mxnet'] = None"
# A stand-in for another MXNet: fused_rnn must look at its version before anything else of it.
OTHER_MXNET = """
mxnet = types.ModuleType("mxnet")
mxnet.__version__ = "{}"
mxnet.__path__ = []
sys.modules["mxnet"] = mxnet
"""
NEW_NUMPY = "import numpy; numpy.__version__ = numpy.version.version = '1.24.0'"

CODE = """
import sys, types
{}
try:
    import fused_rnn
except ImportError as error:
    print(error)
"""

CASES = {
    "no mxnet": (MISSING_MXNET, ("mxnet==1.9.1",)),
    "mxnet 1.8": (OTHER_MXNET.format("1.8.0.post0"), ("1.8.0", "mxnet==1.9.1")),
    "mxnet 2": (OTHER_MXNET.format("2.0.0b1"), ("2.0.0b1", "mxnet==1.9.1")),
    "numpy 1.24": (NEW_NUMPY, ("numpy", "1.24.0", "<1.24")),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(case):
    setup, words = CASES[case]
    done = run(["-c", CODE.format(setup)])
    assert done.returncode == 0, done.stdout
    for word in words:
        assert word in done.stdout.replace("numpy < 1.24", "numpy<1.24"), done.stdout


def test_version():
    from fused_rnn import _core

    assert fused_rnn.__version__ == _core.version()
    major, minor, patch = fused_rnn.__version__.split(".")
    assert (major + minor + patch).isdigit()


def test_public_names():
    for name in ("install", "installed", "memory", "sizes", "sym", "nd"):
        assert hasattr(fused_rnn, name)
    assert callable(fused_rnn.sym.RNN)
    assert callable(fused_rnn.nd.RNN)
