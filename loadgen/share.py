"""One process's part of a cell: every n-th stream, or every n-th arrival of an open loop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """What is numbered `index`, `index + of`, `index + 2 of`, ... in a cell; (0, 1) is all of it."""

    index: int = 0
    of: int = 1

    def has(self, number: int) -> bool:
        """Whether the stream, or the arrival, is one of them."""
        return number % self.of == self.index

    def streams(self, concurrency: int) -> range:
        """Their numbers."""
        return range(self.index, concurrency, self.of)

    def places(self, total: int) -> int:
        """Its part of `total` places: as many as others have, or one more."""
        return total // self.of + (self.index < total % self.of)


ALL = Share()


def shares(of: int) -> Iterable[Share]:
    """All of them: together they are the whole cell, and no two have anything in common."""
    return (Share(index, of) for index in range(of))
