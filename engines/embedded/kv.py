"""Paged KV cache as the scheduler sees it: counts of blocks (no prefix cache, so which block is all one)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class KvBlocks:
    """A pool of `total` blocks of `block_size` tokens. Counts never go below 0 nor above `total`."""

    __slots__ = ("block_size", "free", "total")

    def __init__(self, total: int, block_size: int) -> None:
        if total < 1 or block_size < 1:
            raise ValueError(f"kv_blocks={total}, block_size={block_size}: both must be at least 1")
        self.total = total
        self.block_size = block_size
        self.free = total

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold `tokens` tokens."""
        return -(-tokens // self.block_size)

    def missing(self, tokens: NDArray[np.int64], held: NDArray[np.int64]) -> NDArray[np.int64]:
        """Blocks to add to `held` (B,) so that `tokens` (B,) fit; blocks are never handed back one by one."""
        needed: NDArray[np.int64] = (tokens + (self.block_size - 1)) // self.block_size
        needed -= held
        return np.maximum(needed, 0, out=needed)

    def take(self, blocks: int) -> None:
        """Raises RuntimeError when fewer are free: the caller must preempt first."""
        if not 0 <= blocks <= self.free:
            raise RuntimeError(f"{blocks} KV blocks asked for, {self.free} of {self.total} free")
        self.free -= blocks

    def give_back(self, blocks: int) -> None:
        """Raises RuntimeError when more come back than were taken."""
        if not 0 <= blocks <= self.total - self.free:
            raise RuntimeError(
                f"{blocks} KV blocks returned, {self.total - self.free} of {self.total} in use"
            )
        self.free += blocks
