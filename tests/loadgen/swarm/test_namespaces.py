"""Workers on machines of their own, as far as one machine plays three: network namespaces, another clock."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from loadgen.records import Outcome, RequestRecord
from loadgen.swarm.fleet import CHECKOUT, LOCUSTFILE, FleetSettings, open_fleet
from tests.loadgen.swarm.fleets import (
    BURST,
    CLOSED,
    KEY,
    REQUEST,
    Found,
    cell_through,
    engine,
    lost_streams,
    seen,
    suite_of,
)

pytestmark = [pytest.mark.http, pytest.mark.slow]
SPACES = 3
NET = "10.213"  # of /30 links, one a namespace: .1 is this side, .2 the worker
MASTER = f"{NET}.1.1"
AHEAD_S = 5000  # the last worker's monotonic clock, which a time namespace shifts


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def namespaces() -> Iterator[list[str]]:
    """Three network namespaces that reach this one, and each other not at all. Skips where they cannot be."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    names = [f"depthgate-{os.getpid()}-{index}" for index in range(SPACES)]
    try:
        try:
            for index, name in enumerate(names, start=1):
                _link(name, f"dg{os.getpid() % 10_000}-{index}", f"{NET}.{index}")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def _link(name: str, veth: str, net: str) -> None:
    within = ("ip", "-n", name)
    _run("ip", "netns", "add", name)
    _run("ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", name)
    _run("ip", "addr", "add", f"{net}.1/30", "dev", veth)
    _run("ip", "link", "set", veth, "up")
    _run(*within, "addr", "add", f"{net}.2/30", "dev", "eth0")
    _run(*within, "link", "set", "eth0", "up")
    _run(*within, "route", "add", "default", "via", f"{net}.1")


def worker(name: str, port: int, folder: Path, before: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """As docs/locust.md starts one on another machine."""
    flags = ["--worker", "--master-host", MASTER, "--master-port", str(port), "--records", str(folder)]
    command = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), *flags]
    with (folder.parent / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            ["ip", "netns", "exec", name, *before, *command],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            start_new_session=True,
        )


def _other_clock() -> list[str]:
    if shutil.which("unshare") is None:
        return []
    shifted = ["unshare", "--time", "--monotonic", str(AHEAD_S), "--fork", "--kill-child"]
    return shifted if subprocess.run([*shifted, "true"], capture_output=True).returncode == 0 else []


async def _through(names: list[str], folder: Path, port: int, before: Sequence[str]) -> list[Found]:
    settings = FleetSettings(expected=SPACES, bind="0.0.0.0", port=port)
    workers = [worker(name, port, folder / "theirs", before if name == names[-1] else ()) for name in names]
    try:
        async with engine(MASTER).serve(REQUEST) as endpoint, open_fleet(settings, folder, _ignore) as link:
            found = [await cell_through(link, endpoint, suite_of(load)) for load in (BURST, CLOSED)]
            suite, shipped = suite_of(replace(CLOSED, requests_per_stream=40)), list[RequestRecord]()
            driving = asyncio.create_task(
                cell_through(link, endpoint, suite, replace(KEY, repeat=2), shipped.append)
            )
            await seen(lambda: driving.done() or len({r.request.split("/")[3] for r in shipped}) == 6)
            os.killpg(workers[0].pid, signal.SIGKILL)
            return [*found, await driving]
    finally:
        for process in workers:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _ignore(sentence: str) -> None:
    return None


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Found]:
    folder = tmp_path_factory.mktemp("namespaces")
    (folder / "theirs").mkdir()
    with namespaces() as names:
        return asyncio.run(_through(names, folder, 20_000 + os.getpid() % 10_000, _other_clock()))


@pytest.mark.parametrize("at", [0, 1], ids=["burst", "closed"])
def test_three_machines_make_one_cell(cells: list[Found], at: int) -> None:
    records, cell = cells[at]
    assert len(records) == cell.requests == 18
    assert {record.outcome for record in records} == {Outcome.DONE}
    assert not [fault for fault in cell.invalid if "lost" in fault]


def test_another_clock_is_estimated_and_taken_off(cells: list[Found]) -> None:
    if not _other_clock():
        pytest.skip("no time namespaces here: a worker with another clock cannot be had")
    records, cell = cells[0]
    (note,) = [note for note in cell.notes if "its clock is ours" in note]
    offset_s = float(note.split("ours ")[1].split(" s")[0])
    error_s = float(note.split("+- ")[1].split(" ms")[0]) / 1e3
    assert 0 < error_s < 0.1
    assert abs(offset_s - AHEAD_S) <= error_s  # the truth, which only this test knows
    now_s = time.monotonic()
    assert all(now_s - 600 < record.due_s < now_s for record in records)
    measured = [record.due_s for record in records if record.request.endswith("/1")]
    assert max(measured) - min(measured) <= 2 * error_s  # one burst, released at one time


def test_a_worker_killed_in_mid_run_is_stated_and_its_records_are_kept(cells: list[Found]) -> None:
    records, cell = cells[2]
    (loss,) = [fault for fault in cell.invalid if "was lost" in fault]
    kept, lost = int(loss.split("the cell: ")[1].split()[0]), lost_streams(loss)
    assert lost <= kept < 40 * lost
    assert len(records) == cell.requests == 40 * (6 - lost) + kept
