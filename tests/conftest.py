"""Set-up common to all tests."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

with warnings.catch_warnings():
    # MXNet 1.9.1 uses names that NumPy deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    import mxnet as mx

    import fused_rnn  # noqa: F401  registers mx.nd.FusedRNN and mx.sym.FusedRNN

ROOT = Path(__file__).resolve().parents[1]
# What builds and the test runner write; a folder with a dot is some tool's own.
GENERATED = ("build", "dist", "__pycache__", ".")


def files_of_tree() -> set[str]:
    found = set()
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith(GENERATED)]
        found.update(os.path.join(folder, name) for name in files)
    return found


@pytest.fixture(scope="session", autouse=True)
def untouched():
    """Tests write in temporary folders alone: not in the tree, nor over a device."""
    before = files_of_tree()
    yield
    new = files_of_tree() - before
    assert not new, f"tests may write in tmp_path alone, found new files {sorted(new)}"
    assert Path(os.devnull).is_char_device(), f"a test has replaced {os.devnull}"


@pytest.fixture(autouse=True)
def finished():
    """MXNet computes asynchronously: an error must surface in the test that caused it."""
    yield
    mx.nd.waitall()
