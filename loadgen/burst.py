"""Bursts over HTTP: C requests at once, the next C when the last of them has ended."""

from __future__ import annotations

import asyncio

from loadgen.paced import Driven
from loadgen.steady import Turn, Window
from loadgen.stream import RunningCell
from suites.model import LoadSpec

NO_BURST = "no burst was measured: requests_per_stream must be at least 1"


def burst_turns(load: LoadSpec) -> list[Turn]:
    """`warmup_requests` bursts, then `requests_per_stream` that count."""
    bursts = load.warmup_requests + (load.requests_per_stream or 0)
    return [Turn(number, number < load.warmup_requests) for number in range(bursts)]


async def drive_bursts(cell: RunningCell) -> Driven:
    """Latency counts from a burst's release. The window: first measured release to the last answer's end."""
    streams = [cell.stream(index) for index in range(cell.key.concurrency)]
    window = Window(cell.clock(), cell.clock(), NO_BURST)
    for turn in burst_turns(cell.load):
        prompts = [next(stream) for stream in streams]
        due_s = cell.clock()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(cell.request(index, turn, prompt, due_s))
                for index, prompt in enumerate(prompts)
            ]
        if not turn.warmup:
            end_s = max(task.result().ended_s for task in tasks)
            window = Window(due_s if window.fault else window.start_s, end_s)
    return Driven(window)
