"""Closed loop over HTTP: C streams, each sends its next request when the last one ended."""

from __future__ import annotations

import asyncio

from loadgen.paced import Driven, until
from loadgen.steady import ClosedLoop
from loadgen.stream import RunningCell

PAUSE_S = 0.1  # after a request that the server did not answer: a refusing server is not hammered


class ClosedDriver:
    """Streams run until their requests, their prompts or the cell's time are used up; gives the steady state.

    A request is due when its stream sends it: in a closed loop nobody waits before that but to think.
    """

    def __init__(self, cell: RunningCell) -> None:
        self._cell = cell

    async def ready(self) -> None:
        """Each stream makes its prompts when it needs them."""

    async def run(self, start_s: float) -> Driven:
        cell = self._cell
        loop = ClosedLoop(cell.load, cell.key.concurrency, start_s, cell.prompts.name)
        async with asyncio.TaskGroup() as group:
            for index in cell.streams:
                group.create_task(_stream(cell, loop, index))
        course = loop.course(cell.streams)
        return Driven(course.window(), course=course)


async def _stream(cell: RunningCell, loop: ClosedLoop, index: int) -> None:
    for prompt in cell.stream(index):
        due_s = loop.due_s(stream=index, now_s=cell.clock())
        await until(cell.clock, due_s)
        turn = loop.begin(index, due_s)
        if turn is None:
            break
        exchange = await cell.request(index, turn, prompt, due_s)
        loop.ended(index, exchange.ended_s)
        if not exchange.answered:
            await asyncio.sleep(PAUSE_S)
    loop.run_out(index)
