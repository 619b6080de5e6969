"""A plain `locust --master`: numbers the streams of all workers, and merges their records into one file."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import gevent

from loadgen.journal import Journal
from loadgen.swarm.control import PING_EVERY_S, Clocks, Workers
from loadgen.swarm.merge import read_lines
from loadgen.swarm.orders import CLAIM, PONG, RECORDS, STREAM


class SoloMaster:
    """`heard` takes every message. `path`: of the merged records, in the master's clock; None = none."""

    def __init__(self, workers: Workers, path: Path | None) -> None:
        self._workers = workers
        self._clocks = Clocks(workers)
        self._numbers = count()
        self._journal = None if path is None else Journal(path)
        self._pinging = gevent.spawn(self._ping)

    def heard(self, kind: str, data: Mapping[str, Any], worker: str) -> None:
        if kind == PONG:
            self._clocks.pong(worker, data)
        elif kind == CLAIM:
            answer = {"ticket": data["ticket"], "stream": next(self._numbers)}
            self._workers.send(STREAM, answer, worker)
        elif kind == RECORDS and self._journal is not None:
            offset = self._clocks.of(worker)
            records, _ = read_lines(data["lines"], 0.0 if offset is None else offset.offset_s)
            for record in records:
                self._journal.append(record)

    def _ping(self) -> None:
        while True:
            for worker in self._workers.live():
                self._clocks.ping(worker)
            gevent.sleep(PING_EVERY_S)
