"""One cell through locust: ordered from the master, merged from its workers, summed up as any cell is."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

from engines.contract import Endpoint
from loadgen.asked_lengths import AskedLengths
from loadgen.cell import CellSummary
from loadgen.client import Client
from loadgen.counters import read_metrics
from loadgen.lag import ADVICE, SATURATED, client_faults, core_faults, send_faults
from loadgen.paced import Driven
from loadgen.reads import Clock
from loadgen.records import CellKey, CellRecord, Outcome, RequestRecord
from loadgen.request import ClientSettings
from loadgen.rules import driver_of
from loadgen.steady import Window, steady_window
from loadgen.swarm.fleet import Link, SwarmError, SwarmLost
from loadgen.swarm.merge import read_lines
from loadgen.swarm.orders import LOADS, Order
from suites.canonical import content
from suites.grammar import counted
from suites.model import LoadSpec, Suite, TrafficClass

_numbers = count(1)
LAST_WORDS_S = 5.0  # for records of a cell that was cancelled


def check_load(load: LoadSpec) -> None:
    """Raises SwarmError for a load whose requests one process must time: several cannot."""
    if driver_of(load) not in LOADS:
        kind = "an open loop" if load.mode == "open" else "phases or bursts on top"
        raise SwarmError(
            f"--load locust drives plain closed and burst loads, this suite's has {kind}; "
            "use --load asyncio (the default)"
        )


class Merged:
    """The records of a cell, from all workers: kept, counted, and what was odd about them.

    The parts of scribe and lag that loadgen.cell.CellSummary asks for.
    """

    def __init__(
        self,
        traffic: Sequence[TrafficClass],
        on_record: Callable[[RequestRecord], None],
        on_progress: Callable[[], None],
    ) -> None:
        self._traffic = {item.name: item for item in traffic}
        self._on_record = on_record
        self._on_progress = on_progress
        self._late_s: dict[str, list[float]] = {}
        self._delays_s: dict[str, list[float]] = {}  # from due to sent
        self._unreadable: Counter[str] = Counter()
        self._said: list[Mapping[str, Any]] = []
        self._start_s = 0.0
        self._streams: dict[int, list[RequestRecord]] = {}
        self.outcomes: Counter[Outcome] = Counter()
        self.lengths = AskedLengths()
        self.first_failure: str | None = None

    def batch(self, message: Mapping[str, Any]) -> None:
        """What a worker shipped."""
        worker = message["worker"]
        self._late_s.setdefault(worker, []).extend(message["late_s"])
        records, bad = read_lines(message["lines"], message["offset_s"])
        self._unreadable[worker] += bad
        for record in records:
            if record.sent_s is not None:
                self._delays_s.setdefault(worker, []).append(record.sent_s - record.due_s)
            self._keep(record)

    def ended(self, message: Mapping[str, Any]) -> None:
        """What the master said of the whole cell."""
        self._said, self._start_s = message["workers"], message["start_s"]

    def driven(self, load: LoadSpec, concurrency: int) -> Driven:
        """Window and notes, as a driver in this process would say them."""
        ends = {end["stream"]: end for said in self._said for end in said["ends"]}
        for said in self._said:
            if said["lost_s"] is not None:
                ends |= {stream: self._of_records(stream) for stream in said["streams"]}
        begun = [ends[stream]["begun_s"] if stream in ends else None for stream in range(concurrency)]
        ran_out = [end["ended_s"] for end in ends.values()]
        window = steady_window(begun, ran_out, self._start_s)
        if load.mode == "burst":
            released = [at for at in begun if at is not None]
            window = Window(min(released, default=self._start_s), max(ran_out, default=self._start_s))
        return Driven(window, notes=tuple(self._notes()))

    @property
    def worst_s(self) -> float | None:
        """Of all workers: how late a loop woke."""
        return max((max(late, default=0.0) for late in self._late_s.values()), default=None)

    def faults(self, cell_s: float) -> Iterator[str]:
        """Why the cell cannot be trusted: a worker that was lost, saturated, or stopped."""
        for said in self._said:
            worker = said["worker"]
            if said["lost_s"] is not None:
                yield self._loss(said)
            yield from (f"{worker} {fault}" for fault in said["faults"])
            saturated = (
                *client_faults(self._late_s.get(worker, ()), cell_s),
                *core_faults(said["cpu_s"], said["wall_s"]),
                *send_faults(self._delays_s.get(worker, ())),
                *(f"{SATURATED}: {warning}; {ADVICE}" for warning in said["warnings"]),
            )
            yield from (f"{fault} ({worker})" for fault in saturated)

    def _keep(self, record: RequestRecord) -> None:
        self._on_record(record)
        self._on_progress()
        self.outcomes[record.outcome] += 1
        if record.outcome is not Outcome.DONE and self.first_failure is None:
            self.first_failure = f"{record.outcome}: {record.why}"
        self._streams.setdefault(_stream_of(record), []).append(record)
        item = self._traffic.get(record.traffic_class)
        if item is not None:
            least = record.max_tokens if item.ignore_eos else item.min_tokens
            self.lengths.see(least, record)

    def _of_records(self, stream: int) -> dict[str, Any]:
        """What is known of a stream whose worker is gone."""
        records = self._streams.get(stream, [])
        begun = [record.due_s for record in records if not record.warmup]
        ended = [record.done_s or record.due_s for record in records]
        return {"begun_s": min(begun, default=None), "ended_s": max(ended, default=self._start_s)}

    def _loss(self, said: Mapping[str, Any]) -> str:
        kept = sum(len(self._streams.get(stream, ())) for stream in said["streams"])
        after_s, streams = said["lost_s"] - self._start_s, _range(said["streams"])
        return (
            f"{said['worker']} with {streams} was lost, which was noticed {after_s:.1f} s into the cell: "
            f"{kept} records that it had shipped are kept, later ones are missing; restart it and run again"
        )

    def _notes(self) -> Iterator[str]:
        """On clocks first. Rounded up, so that cells which are alike say the same."""
        ours = [said for said in self._said if not said["offset_s"] and said["lost_s"] is None]
        if ours:
            error_ms = _rounded_up(max(said["error_s"] for said in ours) * 1e3)
            count = f"{len(ours)} locust worker{'s' if len(ours) > 1 else ''}"
            yield f"{count} by this machine's clock, within {error_ms} ms"
        for said in self._said:
            worker, offset_s = said["worker"], said["offset_s"]
            if offset_s:
                moved = f"moved by {said['moved_s'] * 1e3:+.2f} ms over the cell"
                error = f"+- {said['error_s'] * 1e3:.2f} ms (half a round trip, and drift)"
                yield f"locust {worker}: its clock is ours {offset_s:+.6f} s {error}, taken off; {moved}"
            yield from (f"{worker} {note}" for note in said["notes"])
            if bad := self._unreadable[worker]:
                yield f"{worker} shipped {counted(bad, 'record')} that cannot be read"


@dataclass(frozen=True, slots=True)
class SwarmCells:
    """`drive` is loadgen.cell.drive_cell through `link`, for the cells of one suite."""

    link: Link
    suite: Suite

    async def drive(
        self,
        endpoint: Endpoint,
        key: CellKey,
        *,
        on_record: Callable[[RequestRecord], None],
        on_progress: Callable[[], None],
        clock: Clock,
    ) -> CellRecord:
        """Cancelled, it keeps a record of every request under way, then raises CancelledError."""
        load = self.suite.load
        merged = Merged(self.suite.traffic, on_record, on_progress)
        async with Client(endpoint, ClientSettings.of(load), clock) as client:
            before = read_metrics(await client.get("/metrics"))
            await self._order(endpoint, key)
            try:
                await self._listen(merged)
            except asyncio.CancelledError:
                await self._last_words(merged)
                raise
            after = read_metrics(await client.get("/metrics"))
        driven = merged.driven(load, key.concurrency)
        return CellSummary(key, load, driven, merged, before, after, merged).record()

    async def _order(self, endpoint: Endpoint, key: CellKey) -> None:
        order = Order(next(_numbers), endpoint.base_url, endpoint.model, content(self.suite), key)
        await self.link.send({"kind": "cell", "order": asdict(order)})

    async def _listen(self, merged: Merged) -> None:
        """Until the cell has ended."""
        while True:
            message = await self.link.receive()
            if message["kind"] == "records":
                merged.batch(message)
            elif message["kind"] == "ended":
                return merged.ended(message)
            elif message["kind"] == "failed":
                raise SwarmLost(message["why"])

    async def _last_words(self, merged: Merged) -> None:
        try:
            async with asyncio.timeout(LAST_WORDS_S):
                await self.link.send({"kind": "cancel"})
                await self._listen(merged)
        except (TimeoutError, SwarmError):
            return


def _stream_of(record: RequestRecord) -> int:
    """Out of arm/cC/rR/sS/N (loadgen.stream.request_name); -1 for another name."""
    part = record.request.rpartition("/")[0].rpartition("/")[2]
    return int(part[1:]) if part[:1] == "s" and part[1:].isdigit() else -1


def _range(streams: Sequence[int]) -> str:
    if len(streams) == 1:
        return f"stream {streams[0]}"
    return f"streams {streams[0]}-{streams[-1]}"


def _rounded_up(value: float) -> str:
    """To 1, 2 or 5 of a power of ten."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-3)))
    return f"{next(step * power for step in (1, 2, 5, 10) if step * power >= value * (1 - 1e-9)):g}"
