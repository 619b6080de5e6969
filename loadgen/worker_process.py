"""A worker: a process of its own that drives its share of a cell's streams and writes records as they end.

A job comes in on stdin, then the start time and when each round is over; lines go out on stdout, the first
byte says what each is. The end of stdin, however the parent came to it, cancels the load.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import os
import pickle
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import orjson

from engines.contract import Endpoint
from loadgen.asked_lengths import AskedLengths
from loadgen.client import Client
from loadgen.driving import drive_here
from loadgen.lag import ReadLag
from loadgen.lockstep import Round
from loadgen.paced import Driven, until
from loadgen.reads import Clock
from loadgen.records import CellKey, Outcome, RequestRecord
from loadgen.request import ClientSettings
from loadgen.scribe import Scribe
from loadgen.share import Share
from loadgen.stream import Prompts, RunningCell
from suites.model import LoadSpec

READY, ROUND, RECORD, TEXT, END, ALIVE = b"y", b"o", b"r", b"t", b"e", b"a"
ALIVE_S = 1.0  # between two signs of life: requests may take longer than that


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is given, pickled. `prompts`: as all workers have them, or its share of a closed loop's

    queue.
    """

    endpoint: Endpoint
    key: CellKey
    load: LoadSpec
    prompts: Prompts
    settings: ClientSettings
    share: Share
    keeps_text: bool


@dataclass(frozen=True, slots=True)
class Account:
    """What a worker says when it has ended; other fields as in Scribe and LoopLag."""

    driven: Driven
    outcomes: Counter[Outcome]
    first_failure: str | None
    lengths: AskedLengths
    late_s: list[float]
    send_delays_s: list[float]
    cpu_s: float
    wall_s: float
    reads: ReadLag


def say(kind: bytes, line: bytes = b"") -> None:
    """One whole line to the parent, whoever reads it how slowly."""
    left = b"%b%b\n" % (kind, line)
    while left:
        left = left[os.write(1, left) :]


def say_record(record: RequestRecord) -> None:
    """A record, as it ends."""
    say(RECORD, orjson.dumps(record))


class InStep:
    """Lockstep of a worker: it says where it is and hears from the parent, who hears all."""

    def __init__(self, heard: asyncio.Queue[bytes], clock: Clock) -> None:
        self._heard = heard
        self._clock = clock

    async def start(self) -> float:
        gc.freeze()  # prompts made ahead are nothing to collect
        say(READY)
        start_s = float(await self._heard.get())
        await until(self._clock, start_s)
        return start_s

    async def round_over(self, ended_s: float) -> Round:
        say(ROUND, b"%.9f" % ended_s)
        return Round(*map(float, (await self._heard.get()).split()))


async def drive(job: Job) -> Account:
    """Raises CancelledError once a cancelled load's records are written."""
    clock = time.monotonic
    scribe = Scribe(say_record, clock)
    on_text = (lambda request, text: say(TEXT, orjson.dumps([request, text]))) if job.keeps_text else None
    async with _obeying() as heard, _saying_alive(), Client(job.endpoint, job.settings, clock) as client:
        cell = RunningCell(
            client, job.key, job.load, job.prompts, scribe, clock, lambda: None, InStep(heard, clock),
            on_text, share=job.share,
        )  # fmt: skip
        how, lag = await drive_here(cell)
    return Account(
        how, scribe.outcomes, scribe.first_failure, scribe.lengths,
        lag.late_s, list(lag.send_delays_s), lag.cpu_s, lag.wall_s, lag.reads,
    )  # fmt: skip


@asynccontextmanager
async def _saying_alive() -> AsyncIterator[None]:
    async def say_so() -> None:
        while True:
            say(ALIVE)
            await asyncio.sleep(ALIVE_S)

    task = asyncio.create_task(say_so())
    try:
        yield
    finally:
        task.cancel()


@asynccontextmanager
async def _obeying() -> AsyncIterator[asyncio.Queue[bytes]]:
    """Lines from the parent; their end cancels the task that is in this block."""
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    loop, load = asyncio.get_running_loop(), asyncio.current_task()
    assert load is not None
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)

    async def hear() -> None:
        while line := await lines.readline():
            heard.put_nowait(line)
        load.cancel()

    task = asyncio.create_task(hear())
    try:
        yield heard
    finally:
        task.cancel()


def main() -> None:
    """Until the share is done, or stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which then closes stdin
    job = pickle.load(sys.stdin.buffer)
    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            account = runner.run(drive(job))
    except (asyncio.CancelledError, BrokenPipeError):
        os._exit(1)
    say(END, base64.b64encode(pickle.dumps(account)))
    os._exit(0)  # nothing is left to put away
