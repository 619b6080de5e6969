"""KV blocks: how many a length takes, and that a pool neither overdraws nor overfills."""

from __future__ import annotations

import numpy as np
import pytest

from engines.embedded.kv import KvBlocks


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (16, 1), (17, 2), (32, 2), (33, 3)])
def test_a_length_takes_its_blocks_rounded_up(tokens: int, blocks: int) -> None:
    assert KvBlocks(8, 16).blocks_for(tokens) == blocks


def test_missing_blocks_are_those_beyond_the_held_ones() -> None:
    missing = KvBlocks(8, 4).missing(np.array([4, 5, 9, 3]), np.array([1, 1, 1, 2]))
    assert missing.tolist() == [0, 1, 2, 0]


def test_taking_and_returning_keep_the_count() -> None:
    kv = KvBlocks(5, 4)
    kv.take(3)
    kv.give_back(2)
    assert (kv.free, kv.total) == (4, 5)


def test_more_than_is_free_cannot_be_taken() -> None:
    kv = KvBlocks(5, 4)
    with pytest.raises(RuntimeError, match="6 KV blocks asked for, 5 of 5 free"):
        kv.take(6)


def test_more_than_was_taken_cannot_come_back() -> None:
    kv = KvBlocks(5, 4)
    kv.take(1)
    with pytest.raises(RuntimeError, match="2 KV blocks returned, 1 of 5 in use"):
        kv.give_back(2)


@pytest.mark.parametrize(("total", "block_size"), [(0, 16), (4, 0), (-1, 1)])
def test_an_empty_pool_is_refused(total: int, block_size: int) -> None:
    with pytest.raises(ValueError, match="both must be at least 1"):
        KvBlocks(total, block_size)
