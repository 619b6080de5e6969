"""The line between depthgate and the master that it started: JSON, a line a message, over a Unix socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gevent
import gevent.lock
import gevent.socket
import orjson

from loadgen.swarm.control import CellFailed, Control, Workers
from loadgen.swarm.orders import Order

LOOK_S = 0.1


class Follower:
    """The master's end. `run` obeys until depthgate closes the line, however that came about."""

    def __init__(self, path: str, workers: Workers) -> None:
        self._socket = gevent.socket.socket(gevent.socket.AF_UNIX)
        self._socket.connect(path)
        self._lock = gevent.lock.RLock()
        self._workers = workers
        self.control = Control(workers, self.tell)

    def tell(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._socket.sendall(orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))

    def run(self, expected: int, bound: Callable[[], int]) -> None:
        """`expected`: workers to wait for before "ready"; `bound`: the port that workers come to."""
        self.tell({"kind": "bound", "port": bound()})
        gevent.spawn(self._await_workers, expected)
        for line in self._socket.makefile("rb"):
            message = orjson.loads(line)
            if message["kind"] == "cell":
                gevent.spawn(self._drive, message)
            elif message["kind"] == "cancel":
                self.control.cancel()

    def _await_workers(self, expected: int) -> None:
        said = -1
        while len(live := self._workers.live()) < expected:
            if len(live) != said:
                said = len(live)
                self.tell({"kind": "waiting", "workers": said})
            gevent.sleep(LOOK_S)
        self.tell({"kind": "ready", "workers": [self._workers.name(worker) for worker in live]})

    def _drive(self, message: dict[str, Any]) -> None:
        try:
            self.tell({"kind": "ended", **self.control.run(Order.of(message["order"]))})
        except CellFailed as error:
            self.tell({"kind": "failed", "why": str(error)})
