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

    part   which prompts it takes (see loadgen.parts); None = the cell's own
    ours   False: another process sends it; it takes its prompt here too, so that the next one is the next
    """

    stream: int
    turn: Turn
    due_s: float
    at_s: float
    part: str | None = None
    ours: bool = True


class LoadRules(Protocol):
    """`start` once, then `ended` for every request that has ended, in the order in which they did.

    Of a share (loadgen.share): the sends of that share, as they are among those of all; `window` and
    `phase_starts_s` are those of the whole cell.
    """

    def start(self) -> Sequence[Send]: ...

    def ended(self, stream: int, now_s: float) -> Sequence[Send]: ...

    def share_over_s(self) -> float | None:
        """When this share's part of a phase of requests ended, said once; then others' parts are awaited."""
        ...

    def go_on(self, ended_s: float, now_s: float) -> Sequence[Send]:
        """All parts of that phase are over, the last since `ended_s`: who sends from `now_s` on."""
        ...

    def window(self) -> Window: ...

    def phase_starts_s(self) -> tuple[float, ...] | None:
        """When each phase began, and last when the last one ended; None for a load without phases."""
        ...

    def notes(self) -> tuple[str, ...]:
        """What a reader should know of this cell's load."""
        ...
