"""Changes that a weak hash of contents does not see."""

from __future__ import annotations

import numpy as np
import pytest
from fused_rnn._core import content_hash


@pytest.mark.parametrize("seed", range(8))
def test_blocks_that_change_places(seed):
    """W and R of a layer, for instance; their size is a power of two."""
    size = 1 << 20
    before = np.random.default_rng(seed).standard_normal(2 * size).astype("float32")
    after = np.concatenate([before[size:], before[:size]])
    assert content_hash(after) != content_hash(before)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_signs_that_change(dtype):
    before = np.random.default_rng(0).standard_normal(64).astype(dtype)
    hashes = {content_hash(before)}
    for first in range(64):
        for second in range(first):
            after = before.copy()
            after[[first, second]] *= -1
            hashes.add(content_hash(after))
    for places in ([1, 16, 17], [3, 33, 35], [7, 8, 15]):
        after = before.copy()
        after[places] *= -1
        hashes.add(content_hash(after))
    assert len(hashes) == 1 + 64 * 63 // 2 + 3
