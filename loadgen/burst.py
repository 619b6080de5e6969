"""Bursts over HTTP: C requests at once, the next C when the last of them has ended."""

from __future__ import annotations

import asyncio

from loadgen.paced import Driven, until
from loadgen.steady import Turn, Window
from loadgen.stream import RunningCell
from suites.model import LoadSpec

NO_BURST = "no burst was measured: requests_per_stream must be at least 1"


def burst_turns(load: LoadSpec) -> list[Turn]:
    """`warmup_requests` bursts, then `requests_per_stream` that count."""
    bursts = load.warmup_requests + (load.requests_per_stream or 0)
    return [Turn(number, number < load.warmup_requests) for number in range(bursts)]


class BurstDriver:
    """Latency counts from a burst's release. The window: first measured release to the last answer's end."""

    def __init__(self, cell: RunningCell) -> None:
        self._cell = cell
        self._streams = {index: cell.stream(index) for index in cell.streams}

    async def ready(self) -> None:
        self._next()

    async def run(self, start_s: float) -> Driven:
        """A burst leaves at one time from all processes that have a part of it."""
        cell, due_s = self._cell, start_s
        window = Window(start_s, start_s, NO_BURST)
        turns = burst_turns(cell.load)
        for turn in turns:
            await until(cell.clock, due_s)
            end_s = await self._burst(turn, due_s)
            if not turn.warmup:
                window = Window(due_s if window.fault else window.start_s, end_s)
            if turn is not turns[-1]:
                self._next()
                due_s = (await cell.lockstep.round_over(end_s)).go_s
        return Driven(window)

    def _next(self) -> None:
        self._prompts = {index: next(stream) for index, stream in self._streams.items()}

    async def _burst(self, turn: Turn, due_s: float) -> float:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._cell.request(index, turn, prompt, due_s))
                for index, prompt in self._prompts.items()
            ]
        return max(task.result().ended_s for task in tasks)
