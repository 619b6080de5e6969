"""A worker: a process of its own that drives its share of a cell's streams and writes records as they end.

A job comes in on stdin, then the start time; lines go out on stdout, the first byte says what each is. The
end of stdin, however the parent came to it, cancels the load.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import os
import pickle
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import orjson

from engines.contract import Endpoint
from loadgen.asked_lengths import AskedLengths
from loadgen.client import Client
from loadgen.closed import drive_closed
from loadgen.lag import LoopLag, ReadLag
from loadgen.paced import until
from loadgen.records import CellKey, Outcome, RequestRecord
from loadgen.request import ClientSettings
from loadgen.scribe import Scribe
from loadgen.share import Share
from loadgen.steady import Course
from loadgen.stream import Prompts, RunningCell
from suites.model import LoadSpec

READY, RECORD, TEXT, END, ALIVE = b"y", b"r", b"t", b"e", b"a"
ALIVE_S = 1.0  # between two signs of life: requests may take longer than that


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is given, pickled: `prompts` as all workers have them, cut down to the share already."""

    endpoint: Endpoint
    key: CellKey
    load: LoadSpec
    prompts: Prompts
    settings: ClientSettings
    share: Share
    keeps_text: bool


@dataclass(frozen=True, slots=True)
class Account:
    """What a worker says when it has ended; fields as in Scribe, LoopLag and Course."""

    course: Course
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


async def drive(job: Job) -> Account:
    """Raises CancelledError once a cancelled load's records are written."""
    clock = time.monotonic
    scribe, lag = Scribe(say_record, clock), LoopLag(clock)
    on_text = (lambda request, text: say(TEXT, orjson.dumps([request, text]))) if job.keeps_text else None
    async with Client(job.endpoint, job.settings, clock) as client:
        await client.connect(len(job.share.streams(job.key.concurrency)))
        cell = RunningCell(
            client, job.key, job.load, job.prompts, scribe, clock, lambda: None, on_text, share=job.share
        )
        say(READY)
        start_s = float(await asyncio.to_thread(sys.stdin.buffer.readline) or b"0")
        _cancel_at_end_of_input()
        await until(clock, start_s)
        async with scribe.writing(), lag.watching(), _saying_alive():
            how = await drive_closed(cell)
    assert how.course is not None
    return Account(
        how.course, scribe.outcomes, scribe.first_failure, scribe.lengths,
        lag.late_s, list(scribe.send_delays_s), lag.cpu_s, lag.wall_s, client.lag,
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


def _cancel_at_end_of_input() -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def watch() -> None:
        sys.stdin.buffer.read()
        with suppress(RuntimeError):  # the loop has ended by itself
            loop.call_soon_threadsafe(task.cancel)

    threading.Thread(target=watch, daemon=True).start()


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
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            account = runner.run(drive(job))
    except (asyncio.CancelledError, BrokenPipeError):
        os._exit(1)
    say(END, base64.b64encode(pickle.dumps(account)))
    os._exit(0)  # a thread still waits for stdin
