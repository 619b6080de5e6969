"""locust's processes of one run: a master, its workers here or awaited from elsewhere, the line to it."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from engines import process_guard
from loadgen.swarm.orders import LINK_VARIABLE
from suites.grammar import counted

CHECKOUT = Path(__file__).parents[2]
LOCUSTFILE = CHECKOUT / "loadgen" / "locustfile.py"
DEFAULT_PORT = 5557  # locust's own
GRACE_S = 3.0  # from SIGTERM to SIGKILL
START_S = 60.0
TAIL_LINES = 6
LINE_BYTES = 1 << 28  # a batch of records at most

Say = Callable[[str], None]


class SwarmError(Exception):
    """locust's processes cannot drive this load, or could not be started; the message names the mend."""


class SwarmLost(SwarmError):
    """They were up, and are gone or cannot go on: the machines' fault, not the command line's."""


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """`workers` processes are started here, or so many are `expected` from elsewhere: one of both.

    bind      the address that workers, and the web page, come to
    port      for workers from elsewhere; None: a free one, for workers here alone
    web_port  of locust's page; None = no page
    """

    workers: int = 1
    expected: int | None = None
    bind: str = "127.0.0.1"
    port: int | None = None
    web_port: int | None = None

    def says(self) -> str:
        """In words, for the manifest."""
        if self.expected is not None:
            return f"locust, {counted(self.expected, 'worker')} from elsewhere"
        return f"locust, {counted(self.workers, 'local worker')}"


class Link:
    """Messages to and from the master. Raises SwarmError when it is gone."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cause: Callable[[], str]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._cause = cause

    async def send(self, message: dict[str, Any]) -> None:
        self._writer.write(orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
        with suppress(OSError):
            await self._writer.drain()

    async def receive(self) -> dict[str, Any]:
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise SwarmLost(f"locust's master is gone: {self._cause()}")
        message: dict[str, Any] = orjson.loads(line)
        return message


@asynccontextmanager
async def open_fleet(settings: FleetSettings, run_dir: Path, say: Say) -> AsyncIterator[Link]:
    """Master and workers, until the block ends. Whatever ends this process ends them too.

    Logs go to `run_dir`/logs, each local worker's own records to `run_dir`/workers.
    """
    check_fleet(settings)
    logs = run_dir / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    processes = Processes()
    with tempfile.TemporaryDirectory(prefix="depthgate-") as folder:  # 0700
        try:
            link, port = await _master(processes, settings, Path(folder) / "link", logs)
            if settings.expected is None:
                for index in range(settings.workers):
                    command = worker_command("127.0.0.1", port, run_dir / "workers")
                    await processes.start(command, logs / f"locust-worker.{index}.log")
            else:
                awaited = counted(settings.expected, "worker")
                say(f"waiting for {awaited}; start each with: {_hint(settings, port)}")
            await _ready(link, settings, say)
            if settings.web_port is not None:
                say(f"locust's page: http://{settings.bind}:{settings.web_port}")
            yield link
        finally:
            await processes.stop()


def check_fleet(settings: FleetSettings) -> None:
    """SwarmError for what can be known before a run: locust is not here, an address or a port is not ours."""
    if find_spec("locust") is None:
        raise SwarmError("--load locust: locust is not installed here; pip install 'depthgate[bench]'")
    for flag, port in (("--master-port", _port(settings)), ("--web", settings.web_port or 0)):
        refuse_busy_port(flag, settings.bind, port)


def refuse_busy_port(flag: str, bind: str, port: int) -> None:
    """SwarmError when somebody listens there; 0 is always free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("" if bind == "*" else bind, port))
        except OSError as error:
            if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                raise SwarmError(
                    f"--bind {bind}: no address of this machine ({error.strerror}); name one, or 0.0.0.0"
                ) from None
            raise SwarmError(
                f"{flag} {port} on {bind}: {error.strerror}; is another locust up? Name a free port"
            ) from None


class Processes:
    """Each in a group of its own; they end with `stop`, and with this process however it dies."""

    def __init__(self) -> None:
        self._started: list[asyncio.subprocess.Process] = []

    async def start(
        self, command: Sequence[str], log: Path, environ: dict[str, str] | None = None
    ) -> asyncio.subprocess.Process:
        paths = [str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                process_guard.__file__,
                str(GRACE_S),
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C reaches this process alone
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(environ or {})},
            )
        self._started.append(process)
        return process

    async def stop(self) -> None:
        """Closes the guards' stdin: each ends its command's group, and then itself."""
        for process in self._started:
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S + 5):
                await asyncio.gather(*(process.wait() for process in self._started))


def worker_command(host: str, port: int, records: Path) -> list[str]:
    """Of a worker on this machine."""
    flags = ["--worker", "--master-host", host, "--master-port", str(port), "--records", str(records)]
    return [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), *flags]


async def _master(processes: Processes, settings: FleetSettings, path: Path, logs: Path) -> tuple[Link, int]:
    """The master, once it listens for workers, and the port that it does so on."""
    log = logs / "locust-master.log"
    called: asyncio.Queue[Link] = asyncio.Queue()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.put_nowait(Link(reader, writer, lambda: tail(log)))

    server = await asyncio.start_unix_server(connected, path, limit=LINE_BYTES)
    try:
        command = [sys.executable, "-m", "loadgen.locustfile", "--bind", settings.bind]
        command += ["--port", str(_port(settings)), "--expect", str(settings.expected or settings.workers)]
        command += [] if settings.web_port is None else ["--web-port", str(settings.web_port)]
        process = await processes.start(command, log, {LINK_VARIABLE: str(path)})
        link = await _first(called, process, log)
    finally:
        server.close()  # one master is all that may call
    return link, (await link.receive())["port"]


async def _first(called: asyncio.Queue[Link], process: asyncio.subprocess.Process, log: Path) -> Link:
    """The line that the master opens; SwarmError when it ends before."""
    waiting = {asyncio.ensure_future(called.get()), asyncio.ensure_future(process.wait())}
    try:
        done, _ = await asyncio.wait(waiting, timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
        found = [task.result() for task in done if isinstance(task.result(), Link)]
    finally:
        for task in waiting:
            task.cancel()
    if not found:
        raise SwarmError(f"locust's master did not start: {tail(log)}")
    link = found[0]
    assert isinstance(link, Link)
    return link


def _port(settings: FleetSettings) -> int:
    if settings.port is not None:
        return settings.port
    return 0 if settings.expected is None else DEFAULT_PORT


async def _ready(link: Link, settings: FleetSettings, say: Say) -> None:
    limit_s = START_S if settings.expected is None else None
    try:
        async with asyncio.timeout(limit_s):
            while (message := await link.receive())["kind"] != "ready":
                if settings.expected is not None:
                    say(f"{message['workers']} of {counted(settings.expected, 'worker')} here")
    except TimeoutError:
        raise SwarmError(
            f"locust's workers were not up in {START_S:g} s; see logs/ in the run folder"
        ) from None
    say(f"locust: {', '.join(message['workers'])}")


def _hint(settings: FleetSettings, port: int) -> str:
    host = "THIS-MACHINE" if settings.bind in ("0.0.0.0", "*") else settings.bind
    return f"locust -f loadgen/locustfile.py --worker --master-host {host} --master-port {port}"


def tail(log: Path) -> str:
    """The end of a log, on one line."""
    try:
        lines = log.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    return f"{' | '.join(lines[-TAIL_LINES:]) or 'it said nothing'} (log: {log})"
