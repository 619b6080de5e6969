"""The same load through locust: alone (`locust -f`), or from `depthgate run --load locust`.

The one file that imports locust, which patches sockets: always a process of its own (docs/locust.md).
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import gevent
from gevent.event import AsyncResult
from gevent.lock import RLock
from locust import FastHttpUser, constant, events, task
from locust.argument_parser import get_parser
from locust.env import Environment
from locust.log import setup_logging
from locust.runners import STATE_MISSING, MasterRunner, Runner, WorkerRunner

from loadgen.offline_prompts import GENERATORS
from loadgen.records import RequestRecord
from loadgen.swarm import orders
from loadgen.swarm.figures import rows
from loadgen.swarm.ledger import Ledger
from loadgen.swarm.link import Follower
from loadgen.swarm.solo import CLOCK, Solo, SoloSettings, local_path
from loadgen.swarm.solo_master import SoloMaster
from loadgen.swarm.station import Station

FROM_WORKERS = (orders.PONG, orders.READY, orders.BURST, orders.RECORDS, orders.DONE, orders.CLAIM)
DRIVEN = "depthgate_driven"  # an option that the master passes on with every order to spawn users


class Unsuccessful(Exception):
    """A request that was not done; what locust counts as a failure."""


class StreamUser(FastHttpUser):
    """One stream: of a cell that depthgate drives, or endless."""

    wait_time = constant(0)
    insecure = False  # for tasks that others add; streams have connections of their own

    def on_start(self) -> None:
        here = _places[self.environment]
        self._steps: Iterator[None] | None = None if here.driven else here.solo().user()

    @task
    def stream(self) -> None:
        if self._steps is None:
            _places[self.environment].station.serve()
        else:
            next(self._steps)


class _Process:
    """What the users of this process work with, a worker or plain locust."""

    def __init__(self, environment: Environment, runner: Runner) -> None:
        self._environment = environment
        self._runner = runner
        self._folder = _folder(environment)
        self._solo: Solo | None = None
        self._ledger: Ledger | None = None
        self._numbers = count()
        self._making = RLock()
        self._tickets: dict[int, AsyncResult] = {}
        self.station = Station(runner.send_message, lambda: runner.user_count, self._show, self._folder)
        events.cpu_warning.add_listener(self._warned)
        events.test_stop.add_listener(self._stopped)
        events.quitting.add_listener(self._stopped)

    @property
    def driven(self) -> bool:
        return bool(getattr(self._environment.parsed_options, DRIVEN, False))

    def solo(self) -> Solo:
        """Made with the first user of a test: only then is the host known. Others wait for it."""
        with self._making:
            if self._solo is None:
                worker = isinstance(self._runner, WorkerRunner)
                name = f"{socket.gethostname()}.{os.getpid()}" if worker else "requests"
                path = None if self._folder is None else local_path(self._folder, name)
                ledger = Ledger(path, self._ship, self._show, CLOCK)
                claim = self._claim if worker else lambda: next(self._numbers)
                host = self._environment.host or ""
                self._solo, self._ledger = Solo(_settings(self._environment), host, claim, ledger), ledger
            return self._solo

    def stream_is(self, data: dict[str, Any]) -> None:
        self._tickets.pop(data["ticket"]).set(data["stream"])

    def _claim(self) -> int:
        ticket = next(self._numbers)
        answer = self._tickets[ticket] = AsyncResult()
        self._runner.send_message(orders.CLAIM, {"ticket": ticket})
        return int(answer.get())

    def _ship(self, lines: list[bytes], late_s: list[float]) -> None:
        if isinstance(self._runner, WorkerRunner):
            text = [line.decode() for line in lines]
            self._runner.send_message(orders.RECORDS, {"lines": text, "late_s": late_s})

    def _show(self, record: RequestRecord) -> None:
        for row in rows(record):
            events.request.fire(
                request_type=row.kind,
                name=row.name,
                response_time=row.value,
                response_length=row.length,
                exception=None if row.failure is None else Unsuccessful(row.failure),
                context={},
            )

    def _warned(self, cpu_usage: float, **_: Any) -> None:
        self.station.warnings.append(f"locust warned of its CPU use, {cpu_usage:.0f} % of a core")

    def _stopped(self, **_: Any) -> None:
        """Of a plain locust: a later start begins a new file and a new run."""
        self.station.cancel()
        if self._ledger is not None:
            self._ledger.close()
        self._ledger = self._solo = None


class _Workers:
    """loadgen.swarm.control.Workers over locust's master."""

    def __init__(self, runner: MasterRunner) -> None:
        self._runner = runner

    def live(self) -> tuple[str, ...]:
        return tuple(node.id for node in self._runner.clients.values() if node.state != STATE_MISSING)

    def users(self, worker: str) -> int:
        return int(self._runner.clients[worker].user_count) if worker in self._runner.clients else 0

    def name(self, worker: str) -> str:
        return f"worker {self._runner.get_worker_index(worker)} ({worker.rpartition('_')[0]})"

    def send(self, kind: str, data: dict[str, Any], worker: str) -> None:
        self._runner.send_message(kind, data, client_id=worker)

    def spawn(self, users: int, host: str) -> None:
        self._runner.environment.host = host
        self._runner.start(users, float(users))


_places: dict[Environment, _Process] = {}  # one a process, which locust's users have no other way to
_followers: dict[Environment, Follower] = {}


@events.init_command_line_parser.add_listener
def add_options(parser: argparse.ArgumentParser) -> None:
    """Of a plain run; `depthgate run` says all of this itself."""
    group = parser.add_argument_group("depthgate")
    add = group.add_argument
    add("--suite", help="take traffic, seed, route and time limit of this suite (a name or a TOML file)")
    add("--traffic", default="gsm8k,chat", help=f"classes, by comma; offline: {', '.join(GENERATORS)}")
    add("--max-tokens", type=int, default=180, help="of each request; default: 180")
    add("--seed", type=int, default=0, help="one seed makes the same requests; default: 0")
    add("--model", help="default: the only one that the server lists")
    add("--route", choices=("chat", "completions"), default="chat", help="default: chat")
    add("--timeout-s", type=float, default=300.0, help="a request's deadline; default: 300")
    add("--records", default="out/locust", help="folder for records of every request; '' = none")


@events.init.add_listener
def wire(environment: Environment, runner: Runner, **_: Any) -> None:
    """Messages to whoever is to hear them."""
    gevent.get_hub().loop.update_now()  # or --run-time begins when importing did, seconds ago
    if isinstance(runner, MasterRunner):
        _wire_master(environment, runner)
        return
    here = _places[environment] = _Process(environment, runner)
    station = here.station
    for kind, hear in {
        orders.PING: station.ping,
        orders.ORDER: station.order,
        orders.GO: station.go,
        orders.RELEASE: station.release,
        orders.CANCEL: lambda data: station.cancel(),
        orders.STREAM: here.stream_is,
    }.items():
        runner.register_message(kind, _listener(hear), concurrent=kind == orders.ORDER)


def _wire_master(environment: Environment, runner: MasterRunner) -> None:
    workers = _Workers(runner)
    link = os.environ.get(orders.LINK_VARIABLE)
    follower = Follower(link, workers) if link else None
    if follower is None:
        folder = _folder(environment)
        path = None if folder is None else local_path(folder, "requests")
        heard = SoloMaster(workers, path).heard
    else:
        heard = follower.control.heard
        _followers[environment] = follower
    for kind in FROM_WORKERS:
        runner.register_message(kind, _master_listener(heard, kind))


def _listener(hear: Callable[[dict[str, Any]], None]) -> Callable[..., None]:
    return lambda environment, msg, **_: hear(msg.data)


def _master_listener(hear: Callable[[str, dict[str, Any], str], None], kind: str) -> Callable[..., None]:
    return lambda environment, msg, **_: hear(kind, msg.data, msg.node_id)


def _folder(environment: Environment) -> Path | None:
    named = getattr(environment.parsed_options, "records", None)
    return Path(named) if named else None


def _settings(environment: Environment) -> SoloSettings:
    options: Any = environment.parsed_options
    return SoloSettings(
        suite=options.suite,
        traffic=tuple(name.strip() for name in options.traffic.split(",")),
        max_tokens=options.max_tokens,
        seed=options.seed,
        model=options.model,
        route=options.route,
        timeout_s=options.timeout_s,
    )


def main(argv: list[str]) -> int:
    """The master of a `depthgate run`: users come and go as its orders say. Ends when its line is closed."""
    own = argparse.ArgumentParser(
        prog="python -m loadgen.locustfile",
        description="The master of a `depthgate run`, which starts it itself. In the group depthgate: what "
        "a plain `locust -f loadgen/locustfile.py` takes too (locust's own --help knows only its own).",
    )
    add_options(own)
    own.add_argument("--bind", default="127.0.0.1")
    own.add_argument("--port", type=int, default=0)
    own.add_argument("--expect", type=int, default=1)
    own.add_argument("--web-port", type=int)
    args = own.parse_args(argv)
    sys.argv = sys.argv[:1]  # locust's page parses the command line anew
    setup_logging("INFO")
    os.environ.setdefault("LOCUST_WAIT_FOR_WORKERS_REPORT_AFTER_RAMP_UP", "30")  # s; 1 is short when busy
    options = get_parser().parse_args(["--headless"])
    setattr(options, DRIVEN, True)
    environment = Environment(user_classes=[StreamUser], events=events, parsed_options=options)
    runner = environment.create_master_runner(args.bind, args.port)
    if args.web_port is not None:
        environment.create_web_ui(host=args.bind, port=args.web_port)
    events.init.fire(environment=environment, runner=runner, web_ui=environment.web_ui)
    obeying = gevent.spawn(_followers[environment].run, args.expect, lambda: runner.server.port)
    obeying.join()
    runner.quit()
    return 0 if obeying.successful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
