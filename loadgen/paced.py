"""Any load with rules, over HTTP: each request leaves at its time, and its end is told to the rules."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from loadgen.parts import PromptParts
from loadgen.reads import Clock
from loadgen.rules import rules_of
from loadgen.sends import LoadRules, Send
from loadgen.steady import Course, Window
from loadgen.stream import RunningCell
from loadgen.traffic import Prompt

PAUSE_S = 0.1  # after a request that the server did not answer: a refusing server is not hammered
AHEAD_S = 0.1  # of its time a request becomes a task, which waits for the rest of it
PROMPTS_A_TURN = 64  # of the event loop, while they are made before the load starts

Pair = tuple[Send, Prompt]


@dataclass(frozen=True, slots=True)
class Driven:
    """What a driver says of the cell: its window, when its phases began (run's clock), what to note.

    For whoever has a part of a cell only (loadgen.together):
    course   what the streams of a plain closed loop did
    ended_s  when the requests of an open loop ended, in the cell's own time; those of bursts on top left out
    """

    window: Window
    phase_starts_s: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()
    course: Course | None = None
    ended_s: Sequence[float] = ()


def driven(rules: LoadRules, start_s: float) -> Driven:
    """The rules' account of a cell that began at `start_s` of the run's clock."""
    window, starts = rules.window(), rules.phase_starts_s()
    return Driven(
        Window(start_s + window.start_s, start_s + window.end_s, window.fault),
        None if starts is None else tuple(start_s + at for at in starts),
        rules.notes(),
    )


async def until(clock: Clock, at_s: float) -> None:
    """Waits; a timer may be a hair early, a request may not. Returns at once when it is that late already."""
    while (wait_s := at_s - clock()) > 0:  # noqa: ASYNC110 (a clock is waited for, not an event)
        await asyncio.sleep(wait_s)


class PacedDriver:
    """Latency counts from a request's due time, late sends included."""

    def __init__(self, cell: RunningCell) -> None:
        streams = cell.key.concurrency
        self._cell = cell
        self._rules = rules_of(cell.load, streams, cell.prompts.name, cell.share)
        self._parts = PromptParts(cell.prompts, cell.load, streams, cell.dialogues.broken)
        self._first: list[Pair] = []
        self._ended_s = array("d")

    async def ready(self) -> None:
        """Prompts of what is known at the start are made before the clock runs."""
        sends = self._rules.start()
        for at in range(0, len(sends), PROMPTS_A_TURN):
            self._first += self._with_prompts(sends[at : at + PROMPTS_A_TURN])
            await asyncio.sleep(0)
        self._first.sort(key=lambda pair: pair[0].at_s)

    async def run(self, start_s: float) -> Driven:
        self._start_s = start_s
        async with asyncio.TaskGroup() as self._group:
            self._group.create_task(self._release())
            self._await_others()
        return replace(driven(self._rules, start_s), ended_s=self._ended_s)

    def _with_prompts(self, sends: Iterable[Send]) -> list[Pair]:
        pairs = [(send, self._parts.next(send)) for send in sends]
        return [(send, prompt) for send, prompt in pairs if prompt is not None and send.ours]

    async def _release(self) -> None:
        """What is known at the start, each a little before it is due: tasks and timers for all of it at once

        would keep the loop from the first ones.
        """
        self._first.reverse()
        while self._first:
            send, prompt = self._first.pop()
            await until(self._cell.clock, self._start_s + send.at_s - AHEAD_S)
            self._group.create_task(self._one(send, prompt))

    def _begin(self, sends: Iterable[Send]) -> None:
        for send, prompt in self._with_prompts(sends):
            self._group.create_task(self._one(send, prompt))
        self._await_others()

    def _await_others(self) -> None:
        if (over_s := self._rules.share_over_s()) is not None:
            self._group.create_task(self._go_on(over_s))

    async def _go_on(self, over_s: float) -> None:
        """A phase of requests is over here; the next begins when it is over everywhere."""
        start_s = self._start_s
        over = await self._cell.lockstep.round_over(start_s + over_s)
        self._begin(self._rules.go_on(over.ended_s - start_s, over.go_s - start_s))

    async def _one(self, send: Send, prompt: Prompt) -> None:
        cell, start_s = self._cell, self._start_s
        await until(cell.clock, start_s + send.at_s)
        exchange = await cell.request(send.stream, send.turn, prompt, start_s + send.due_s)
        ended_s = exchange.ended_s
        if cell.load.mode == "closed":
            if not exchange.answered:
                await asyncio.sleep(PAUSE_S)
                ended_s = cell.clock()
        elif send.stream < cell.key.concurrency:
            self._ended_s.append(ended_s - start_s)
        self._begin(self._rules.ended(send.stream, ended_s - start_s))
