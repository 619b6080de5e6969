"""A cell shared out among worker processes of this machine: started together, heard as they go, merged.

CLOCK_MONOTONIC is one clock for all processes of a host, so records need no correction. A worker that dies
takes what it had under way with it; the cell says so and is invalid.
"""

from __future__ import annotations

import asyncio
import base64
import pickle
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from loadgen.asked_lengths import AskedLengths
from loadgen.decode import decode
from loadgen.lag import ADVICE, LoopLag, ReadLag, client_faults, client_saturated, core_faults, send_faults
from loadgen.lockstep import Rounds
from loadgen.paced import Driven
from loadgen.records import Outcome, RequestRecord
from loadgen.share import Share
from loadgen.stream import Queue
from loadgen.together import together
from loadgen.worker_count import usable_cores
from loadgen.worker_process import ALIVE, END, READY, RECORD, ROUND, TEXT, Account, Job
from suites.grammar import counted

READY_S = 60.0  # to start, or between two signs of life while it connects and makes prompts
LEAD_S = 0.02  # from the word to go to the start itself,
ROUND_LEAD_S = 0.002  # and to what follows a round: short, an engine stands idle meanwhile
LAST_WORDS_S = 10.0  # for records of what was cancelled
SILENT_S = 60.0  # without a sign of life: stopped, or starved; it is ended
LONGEST_LINE = 1 << 28
ROOT = str(Path(__file__).parents[1])
START = (  # -m would name its classes otherwise than we do; -P keeps the working folder's modules out
    f"import sys; sys.path.insert(0, {ROOT!r}); from loadgen.worker_process import main; main()"
)


class WorkerError(RuntimeError):
    """A worker could not begin; the message names it and the mend."""


@dataclass(slots=True)
class Worker:
    """One process. `account`: what it said at its end, None = it did not. `heard`: lines of it."""

    number: int
    process: asyncio.subprocess.Process
    account: Account | None = None
    kept: int = 0
    heard: int = 0
    silent: bool = False
    hung_up: bool = False

    def tell(self, line: bytes) -> None:
        """To its stdin, which ends only with `dismiss`."""
        assert self.process.stdin is not None
        if not self.process.stdin.is_closing():
            self.process.stdin.write(line)

    def dismiss(self) -> None:
        """It cancels what it has under way, writes records of it and ends."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def end(self) -> None:
        """One that has hung up ends by itself: to kill it would lose how it came to its end."""
        if self.hung_up:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS_S):
                    await self.process.wait()
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


class Crew:
    """The workers of a cell; Tally and Lag of loadgen.cell in one. `job.share.of` says how many."""

    def __init__(
        self,
        job: Job,
        on_record: Callable[[RequestRecord], None],
        on_progress: Callable[[], None],
        on_text: Callable[[str, str], None] | None,
    ) -> None:
        self._job = job
        self._on_record, self._on_progress, self._on_text = on_record, on_progress, on_text
        self._workers: list[Worker] = []
        self._rounds = Rounds(job.share.of)
        self._start_s = 0.0
        self.outcomes: Counter[Outcome] = Counter()
        self.first_failure: str | None = None
        self.lengths = AskedLengths()

    async def drive(self) -> Driven:
        """Until all have ended. Cancelled, it hears what they had under way first. Raises WorkerError."""
        try:
            for number in range(self._job.share.of):
                self._workers.append(await self._started(number))
            await asyncio.gather(*map(self._ready, self._workers))
            self._start_s = round(time.monotonic() + LEAD_S, 9)  # as it is written
            self._tell_all(b"%.9f\n" % self._start_s)
            await self._hear_all()
        except asyncio.CancelledError:
            for worker in self._workers:
                worker.dismiss()
            with suppress(TimeoutError):  # one that is stopped says nothing; the others have
                async with asyncio.timeout(LAST_WORDS_S):
                    await self._hear_all()
            raise
        finally:
            for worker in self._workers:
                await worker.end()
        return self._driven()

    @property
    def worst_s(self) -> float | None:
        """How late a worker's loop woke at worst."""
        return max((late_s for account in self._accounts() for late_s in account.late_s), default=None)

    def faults(self, cell_s: float) -> Iterator[str]:
        """Why the cell cannot be trusted: workers that died, one by one, or did not keep up, summed."""
        of = len(self._workers)
        held_up: dict[bool, dict[int, str]] = {True: {}, False: {}}  # saturated or not -> worker -> its fault
        for worker in self._workers:
            if worker.account is None:
                yield (
                    f"worker {worker.number + 1} of {of} died ({_how(worker)}): {worker.kept} of its records "
                    "are kept, what it had under way is lost; run the cell again"
                )
                continue
            for fault in _held_up(worker.account, cell_s):
                held_up[client_saturated(fault)].setdefault(worker.number + 1, fault)
        for found in filter(None, held_up.values()):
            first, fault = next(iter(found.items()))
            who = f"worker {first} of {of}"
            if len(found) > 1:
                who = f"{len(found)} of {of} workers: the first, worker {first}"
            yield f"{_advised(fault, of)} ({who})"

    async def _started(self, number: int) -> Worker:
        job = replace(self._job, share=Share(number, self._job.share.of))
        if isinstance(job.prompts, Queue) and job.load.mode != "open":  # there its order is the arrivals'
            job = replace(job, prompts=job.prompts.share(job.share))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-c", START,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LONGEST_LINE,
        )  # fmt: skip
        worker = Worker(number, process)
        worker.tell(pickle.dumps(job))
        return worker

    async def _ready(self, worker: Worker) -> None:
        assert worker.process.stdout is not None
        line = ALIVE
        while line[:1] == ALIVE:
            try:
                async with asyncio.timeout(READY_S):
                    line = await worker.process.stdout.readline()
            except TimeoutError:
                line = b""
        if line[:1] != READY:
            raise WorkerError(
                f"worker {worker.number + 1} of {self._job.share.of} did not start; "
                "see what it wrote above, or use workers = 1"
            )

    async def _hear_all(self) -> None:
        await asyncio.gather(*map(self._hear, self._workers))

    async def _hear(self, worker: Worker) -> None:
        watcher = asyncio.create_task(_end_when_silent(worker))
        try:
            await self._hear_lines(worker)
            worker.hung_up = True
        finally:
            watcher.cancel()
            self._rounds.gone(worker.number)
            self._next_round()

    async def _hear_lines(self, worker: Worker) -> None:
        assert worker.process.stdout is not None
        while line := await worker.process.stdout.readline():
            worker.heard += 1
            kind, rest = line[:1], line[1:-1]
            if not line.endswith(b"\n"):
                return  # killed in the middle of a line
            if kind == RECORD:
                self._keep(worker, decode(RequestRecord, orjson.loads(rest)))
            elif kind == ROUND:
                self._rounds.over(worker.number, float(rest))
                self._next_round()
            elif kind == TEXT and self._on_text is not None:
                self._on_text(*orjson.loads(rest))
            elif kind == END:
                worker.account = pickle.loads(base64.b64decode(rest))
                worker.dismiss()
                self.lengths.add(worker.account.lengths)

    def _next_round(self) -> None:
        if (ended_s := self._rounds.ended_s()) is not None:
            self._tell_all(b"%.9f %.9f\n" % (ended_s, time.monotonic() + ROUND_LEAD_S))

    def _tell_all(self, line: bytes) -> None:
        for worker in self._workers:
            worker.tell(line)

    def _keep(self, worker: Worker, record: RequestRecord) -> None:
        worker.kept += 1
        self.outcomes[record.outcome] += 1
        if record.outcome is not Outcome.DONE and self.first_failure is None:
            self.first_failure = f"{record.outcome}: {record.why}"
        self._on_record(record)
        self._on_progress()

    def _accounts(self) -> list[Account]:
        return [worker.account for worker in self._workers if worker.account is not None]

    def _driven(self) -> Driven:
        accounts = self._accounts()
        parts = [account.driven for account in accounts]
        how = together(
            self._job.load, self._job.key.concurrency, self._job.prompts.name, self._start_s, parts
        )
        reads = ReadLag(sum(a.reads.reads for a in accounts), sum(a.reads.late for a in accounts))
        drove = f"{len(self._workers)} worker processes drove the load"
        lag = LoopLag(time.monotonic)
        lag.reads = reads
        lag.late_s = [late_s for account in accounts for late_s in account.late_s]
        return replace(how, notes=(*how.notes, drove, *lag.notes()))


def _held_up(account: Account, cell_s: float) -> tuple[str, ...]:
    return (
        *client_faults(account.late_s, cell_s),
        *core_faults(account.cpu_s, account.wall_s),
        *send_faults(account.send_delays_s),
        *account.reads.faults(),
    )


def _advised(fault: str, workers: int) -> str:
    """More workers than cores are held up by one another: still more of them would not help."""
    cores = usable_cores()
    fewer = f"{workers} worker processes share {counted(cores, 'core')}: start fewer (--workers)"
    return fault.replace(ADVICE, fewer) if workers > cores else fault


async def _end_when_silent(worker: Worker) -> None:
    """Silence counts in halves: after a Ctrl-Z of all, time has passed before the first line comes."""
    silent_halves = 0
    while silent_halves < 2:
        before = worker.heard
        await asyncio.sleep(SILENT_S / 2)
        silent_halves = silent_halves + 1 if worker.heard == before else 0
    worker.silent = True
    with suppress(ProcessLookupError):
        worker.process.kill()


def _how(worker: Worker) -> str:
    code = worker.process.returncode
    if worker.silent:
        return f"silent for {SILENT_S:g} s, then ended"
    return signal.Signals(-code).name if code is not None and code < 0 else f"exit {code}"
