"""What a load's rules say: who sends when. In the cell's own time, from 0; free of clock and network.

Both drivers obey them: over HTTP (paced.py) and in virtual time (virtual_sources.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from loadgen.steady import Turn, Window


@dataclass(frozen=True, slots=True)
class Send:
    """A request. `due_s`: from when its latency counts; `at_s` >= due_s: when it leaves.

    `part`: which prompts it takes (see loadgen.parts); None = the cell's own.
    """

    stream: int
    turn: Turn
    due_s: float
    at_s: float
    part: str | None = None


class LoadRules(Protocol):
    """`start` once, then `ended` for every request that has ended, in the order in which they did."""

    def start(self) -> Sequence[Send]: ...

    def ended(self, stream: int, now_s: float) -> Sequence[Send]: ...

    def window(self) -> Window: ...

    def phase_starts_s(self) -> tuple[float, ...] | None:
        """When each phase began, and last when the last one ended; None for a load without phases."""
        ...

    def notes(self) -> tuple[str, ...]:
        """What a reader should know of this cell's load."""
        ...
