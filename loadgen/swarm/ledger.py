"""A worker's books: exchanges become records beside the load, in a file here and in batches to the master."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

import gevent
import gevent.event
import orjson

from loadgen.exchange import Ask, Exchange, record_of
from loadgen.journal import Journal, JournalError
from loadgen.reads import Clock
from loadgen.records import RequestRecord

SLICE_S = 0.0005  # of parsing between two looks at the sockets
REST_S = 0.002  # from one slice to the next
BUSY_S = 0.0005  # later than that: the loop has streams to see to
BACKLOG = 1024  # exchanges that may wait for a calm loop
SHIP_S = 0.5
PROBE_S = 0.02  # as loadgen.lag

Ship = Callable[[list[bytes], list[float]], None]


class Ledger:
    """`put` exchanges in. `ship(lines, late_s)` every SHIP_S: records as JSON, and how late the loop woke.

    A worker that dies loses what it had not shipped; the file in `folder` (None: none) has those too, in the
    worker's own clock. `fault`: why the file is not whole.
    """

    def __init__(
        self, path: Path | None, ship: Ship, on_record: Callable[[RequestRecord], None], clock: Clock
    ) -> None:
        self._path = path
        self._ship = ship
        self._on_record = on_record
        self._clock = clock
        self._waiting: deque[tuple[Ask, Exchange]] = deque()
        self._more = gevent.event.Event()
        self._lines: list[bytes] = []
        self._late_s: list[float] = []
        self._journal: Journal | None = None
        self._greenlets = [gevent.spawn(each) for each in (self._write, self._ship_often, self._probe)]
        self.fault: str | None = None

    def put(self, ask: Ask, exchange: Exchange) -> None:
        self._waiting.append((ask, exchange))
        self._more.set()

    def close(self) -> None:
        """Everything is written and shipped."""
        gevent.killall(self._greenlets)
        while self._waiting:
            self._write_one()
        self._ship_now()
        if self._journal is not None:
            try:
                self._journal.close()
            except JournalError as error:
                self.fault = str(error)

    def _write(self) -> None:
        while True:
            self._more.wait()
            self._more.clear()
            while self._waiting:
                self._pause()
                until_s = self._clock() + SLICE_S
                while self._waiting and self._clock() < until_s:
                    self._write_one()

    def _pause(self) -> None:
        """Until a turn of the loop leaves time: answers that end together are followed up first."""
        began_s = self._clock()
        gevent.sleep(REST_S)
        while self._clock() - began_s > REST_S + BUSY_S and len(self._waiting) < BACKLOG:
            began_s = self._clock()
            gevent.sleep(REST_S)

    def _write_one(self) -> None:
        record = record_of(*self._waiting.popleft())
        line = orjson.dumps(record)
        self._lines.append(line)
        self._keep(record)
        self._on_record(record)

    def _keep(self, record: RequestRecord) -> None:
        """In the local file; one that cannot be written does not end the load: the master has the records."""
        if self._path is None or self.fault is not None:
            return
        try:
            self._journal = self._journal or Journal(self._path)
            self._journal.append(record)
        except JournalError as error:
            self.fault = str(error)

    def _ship_often(self) -> None:
        while True:
            gevent.sleep(SHIP_S)
            self._ship_now()

    def _ship_now(self) -> None:
        if self._lines or self._late_s:
            lines, late_s = self._lines, self._late_s
            self._lines, self._late_s = [], []
            self._ship(lines, late_s)

    def _probe(self) -> None:
        """How late the loop wakes: what a chunk's stamp is late by at that moment."""
        while True:
            due_s = self._clock() + PROBE_S
            gevent.sleep(PROBE_S)
            self._late_s.append(max(0.0, self._clock() - due_s))
