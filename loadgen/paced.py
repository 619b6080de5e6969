"""Any load with rules, over HTTP: each request leaves at its time, and its end is told to the rules."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from loadgen.parts import PromptParts
from loadgen.reads import Clock
from loadgen.rules import rules_of
from loadgen.sends import LoadRules, Send
from loadgen.steady import Course, Window
from loadgen.stream import RunningCell
from loadgen.traffic import Prompt

PAUSE_S = 0.1  # after a request that the server did not answer: a refusing server is not hammered


@dataclass(frozen=True, slots=True)
class Driven:
    """What a driver says of the cell: its window, when its phases began (run's clock), what to note.

    `course`: what the streams of a plain closed loop did, for whoever has a part of them only.
    """

    window: Window
    phase_starts_s: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()
    course: Course | None = None


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


async def drive_paced(cell: RunningCell) -> Driven:
    """Latency counts from a request's due time, late sends included."""
    pacer = _Pacer(cell)
    await pacer.run()
    return driven(pacer.rules, pacer.start_s)


class _Pacer:
    def __init__(self, cell: RunningCell) -> None:
        self._cell = cell
        self.rules = rules_of(cell.load, cell.key.concurrency, cell.prompts.name)
        self._parts = PromptParts(cell.prompts, cell.load, cell.key.concurrency, cell.dialogues.broken)
        self.start_s = 0.0

    async def run(self) -> None:
        """Prompts of what is known at the start are made before the clock runs."""
        first = self._with_prompts(self.rules.start())
        self.start_s = self._cell.clock()
        async with asyncio.TaskGroup() as group:
            self._begin(group, first)

    def _with_prompts(self, sends: Iterable[Send]) -> list[tuple[Send, Prompt]]:
        pairs = [(send, self._parts.next(send)) for send in sends]
        return [(send, prompt) for send, prompt in pairs if prompt is not None]

    def _begin(self, group: asyncio.TaskGroup, pairs: Iterable[tuple[Send, Prompt]]) -> None:
        for send, prompt in pairs:
            group.create_task(self._one(group, send, prompt))

    async def _one(self, group: asyncio.TaskGroup, send: Send, prompt: Prompt) -> None:
        clock, start_s = self._cell.clock, self.start_s
        await until(clock, start_s + send.at_s)
        exchange = await self._cell.request(send.stream, send.turn, prompt, start_s + send.due_s)
        ended_s = exchange.ended_s
        if not exchange.answered and self._cell.load.mode == "closed":
            await asyncio.sleep(PAUSE_S)
            ended_s = clock()
        self._begin(group, self._with_prompts(self.rules.ended(send.stream, ended_s - start_s)))
