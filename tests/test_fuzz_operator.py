"""Random calls of the operator under install(), valid and invalid, in a process of their own;
FUSED_RNN_FUZZ=N runs N of them instead of a few.

A failure says how to run its configuration again.
"""

from __future__ import annotations

import os

from helpers import run

COUNT = int(os.environ.get("FUSED_RNN_FUZZ", "300"))


def test_random_calls():
    done = run(["installed_fuzz.py", str(COUNT)], timeout=120 + COUNT / 5)
    assert done.returncode == 0, done.stdout[-10000:]
    assert f"{COUNT} configurations" in done.stdout
