"""A worker's side of a run: gets ready for a cell, hands streams to locust's users, reports what they did."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gevent
import gevent.queue

from engines.contract import EngineError
from loadgen.records import RequestRecord
from loadgen.request import ClientSettings
from loadgen.swarm.http import StreamClient
from loadgen.swarm.ledger import Ledger
from loadgen.swarm.orders import (
    BURST,
    DONE,
    PONG,
    READY,
    RECORDS,
    Order,
    digest,
    mix_of,
)
from loadgen.swarm.streams import Streams
from loadgen.traffic import TrafficMix
from suites.model import Suite

CLOCK = time.monotonic

Send = Callable[[str, dict[str, Any]], None]


class Station:
    """`serve()` is what every user does, for ever: wait for a stream, drive it to its end, wait again.

    `send` takes a message to the master; `users()` counts this worker's; `folder` is for the local files.
    """

    def __init__(
        self,
        send: Send,
        users: Callable[[], int],
        on_record: Callable[[RequestRecord], None],
        folder: Path | None,
    ) -> None:
        self._send = send
        self._users = users
        self._on_record = on_record
        self._folder = folder
        self._jobs: gevent.queue.Queue = gevent.queue.Queue()
        self._driving: set[gevent.Greenlet] = set()
        self._cell: _Cell | None = None
        self._mix: tuple[Mapping[str, Any], TrafficMix] | None = None
        self.warnings: list[str] = []  # of locust's own, about this process

    def serve(self) -> None:
        """One stream, in a greenlet beside the user's: locust loses sight of a user that is thrown at.

        Raises GreenletExit when locust stops the user, and what the stream failed with.
        """
        cell, stream = self._jobs.get()
        driving = gevent.spawn(cell.streams.drive, stream)
        self._driving.add(driving)
        try:
            driving.get()
        except gevent.GreenletExit:
            cell.faults.append(f"was made to stop the user of stream {stream} in mid-cell")
            driving.kill()
            raise
        except Exception as error:
            cell.faults.append(f"failed in stream {stream}: {type(error).__name__}: {error}")
            self.cancel()  # others may wait for this stream's burst
            raise
        finally:
            self._driving.discard(driving)
            cell.stream_ended()

    def ping(self, data: Mapping[str, Any]) -> None:
        self._send(PONG, {"number": data["number"], "answered_s": CLOCK()})

    def order(self, data: Mapping[str, Any]) -> None:
        """Gets ready, and says so, or why not."""
        self.cancel()
        order = Order.of(data)
        try:
            self._cell = self._prepared(order)
        except (EngineError, ValueError, OSError, KeyError) as error:
            self._send(READY, {"number": order.number, "fault": f"{type(error).__name__}: {error}"})

    def go(self, data: Mapping[str, Any]) -> None:
        cell = self._cell
        if cell is None or cell.number != data["number"]:
            return
        cell.begin(tuple(data["streams"]), data["start_s"])
        for stream in data["streams"]:
            self._jobs.put((cell, stream))

    def release(self, data: Mapping[str, Any]) -> None:
        if self._cell is not None and self._cell.number == data["number"]:
            self._cell.streams.release(data["burst"], data["due_s"])

    def cancel(self) -> None:
        """Ends the cell under way; requests under way are kept as cancelled."""
        for greenlet in tuple(self._driving):
            greenlet.kill(block=False)
        while not self._jobs.empty():
            cell, _ = self._jobs.get()
            cell.stream_ended()

    def _prepared(self, order: Order) -> _Cell:
        suite = order.read_suite()
        prompts = self._traffic(order.suite, suite).cell(order.key)
        settings = ClientSettings.of(suite.load)
        client = StreamClient(order.base_url, order.model, settings, CLOCK)
        users = self._users()
        client.connect(users)
        cell = _Cell(self, order, client)
        cell.streams = Streams(order, suite.load, prompts, client, cell.ledger, CLOCK, cell.burst_ended)
        self._send(
            READY,
            {
                "number": order.number,
                "users": users,
                "digest": digest(prompts),
                "host": socket.gethostname(),
                "pid": os.getpid(),
            },
        )
        return cell

    def _traffic(self, canonical: Mapping[str, Any], suite: Suite) -> TrafficMix:
        """Read once a run."""
        if self._mix is None or self._mix[0] != canonical:
            self._mix = canonical, mix_of(suite)
        return self._mix[1]

    def path(self, order: Order) -> Path | None:
        """Of the local records: one file a cell and worker process."""
        if self._folder is None:
            return None
        key = order.key
        name = f"{key.arm}.c{key.concurrency}.r{key.repeat}.{socket.gethostname()}.{os.getpid()}.jsonl"
        return self._folder / name

    def tell(self, kind: str, data: dict[str, Any]) -> None:
        self._send(kind, data)

    def seen(self, record: RequestRecord) -> None:
        self._on_record(record)


class _Cell:
    """One cell on this worker, from the order to the last record shipped."""

    streams: Streams

    def __init__(self, station: Station, order: Order, client: StreamClient) -> None:
        self.number = order.number
        self.faults: list[str] = []
        self._station = station
        self._client = client
        self._left = 0
        self._begun = CLOCK(), time.process_time()
        self.ledger = Ledger(station.path(order), self._ship, station.seen, CLOCK)

    def begin(self, streams: tuple[int, ...], start_s: float) -> None:
        self._left = len(streams)
        self._begun = CLOCK(), time.process_time()
        self._station.warnings.clear()
        self.streams.start(streams, start_s)

    def burst_ended(self, burst: int) -> None:
        self._station.tell(BURST, {"number": self.number, "burst": burst})

    def stream_ended(self) -> None:
        """The last one closes the books."""
        self._left -= 1
        if not self._left:
            gevent.spawn(self._close)

    def _close(self) -> None:
        wall_s, cpu_s = CLOCK() - self._begun[0], time.process_time() - self._begun[1]
        self.ledger.close()
        self._client.close()
        fault = self.ledger.fault
        self._station.tell(
            DONE,
            {
                "number": self.number,
                "ends": [asdict(end) for end in self.streams.ends],
                "cpu_s": cpu_s,
                "wall_s": wall_s,
                "faults": self.faults,
                "warnings": list(self._station.warnings),
                "notes": [f"keeps no local file of this cell: {fault}"] if fault else [],
            },
        )

    def _ship(self, lines: list[bytes], late_s: list[float]) -> None:
        self._station.tell(RECORDS, {"number": self.number, "lines": lines, "late_s": late_s})
