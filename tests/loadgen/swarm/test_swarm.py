"""A master and three workers as processes: what one process would send, merged, and missed when lost."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from engines.contract import Endpoint
from loadgen.cell import drive_cell
from loadgen.journal import read_requests
from loadgen.records import Outcome, RequestRecord, TokenSource
from loadgen.swarm.cell import check_load
from loadgen.swarm.fleet import FleetSettings, Link, SwarmError, SwarmLost, open_fleet
from loadgen.traffic import TrafficMix
from suites.model import LoadSpec
from tests.loadgen.swarm.fleets import (
    BURST,
    CLOSED,
    KEY,
    REQUEST,
    Found,
    by_request,
    cell_through,
    children,
    command_lines,
    engine,
    lost_streams,
    seen,
    suite_of,
)

SECRET = "sk-not-to-be-seen"
served = pytest.mark.parametrize("name", ["burst", "closed"])


@dataclass
class Story:
    """What one fleet went through, in this order; cells by name, and what one process got for the same."""

    folder: Path
    said: list[str] = field(default_factory=list)
    through: dict[str, Found] = field(default_factory=dict)
    own: dict[str, list[RequestRecord]] = field(default_factory=dict)
    arguments: bytes = b""
    cancelled: list[RequestRecord] = field(default_factory=list)
    last_words: str = ""
    left: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    told = Story(tmp_path_factory.mktemp("swarm"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", SECRET)
        asyncio.run(_tell(told))
    told.left = children("locustfile")
    return told


async def _tell(told: Story) -> None:
    fleet = open_fleet(FleetSettings(workers=3), told.folder, told.said.append)
    async with engine().serve(REQUEST) as endpoint, fleet as link:
        for name, load in {"burst": BURST, "closed": CLOSED}.items():
            told.through[name] = await cell_through(link, endpoint, suite_of(load))
            told.own[name] = await _in_this_process(endpoint, load)
        fewer = replace(KEY, concurrency=2)
        told.through["fewer"] = await cell_through(link, endpoint, suite_of(CLOSED), fewer)
        told.arguments = command_lines("locust")
        await _cancel(told, link, endpoint)
        await _kill_a_worker(told, link, endpoint)
        await _kill_the_master(told, link, endpoint)


async def _in_this_process(endpoint: Endpoint, load: LoadSpec) -> list[RequestRecord]:
    suite, records = suite_of(load), list[RequestRecord]()
    prompts = TrafficMix(suite.traffic, suite.seed).cell(KEY)
    await drive_cell(endpoint, KEY, load, prompts, on_record=records.append, clock=time.monotonic)
    return records


async def _cancel(told: Story, link: Link, endpoint: Endpoint) -> None:
    suite, key = suite_of(replace(CLOSED, requests_per_stream=99), max_tokens=200), replace(KEY, repeat=2)
    driving = asyncio.create_task(cell_through(link, endpoint, suite, key, told.cancelled.append))
    await seen(lambda: driving.done() or bool(told.cancelled))
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving


async def _kill_a_worker(told: Story, link: Link, endpoint: Endpoint) -> None:
    suite, key = suite_of(replace(CLOSED, requests_per_stream=40)), replace(KEY, repeat=3)
    shipped: list[RequestRecord] = []
    driving = asyncio.create_task(cell_through(link, endpoint, suite, key, shipped.append))
    await seen(lambda: driving.done() or len({record.request.split("/")[3] for record in shipped}) == 6)
    os.kill(children("--worker")[0], signal.SIGKILL)
    told.through["lost"] = await driving
    told.through["after"] = await cell_through(link, endpoint, suite_of(CLOSED), replace(KEY, repeat=4))


async def _kill_the_master(told: Story, link: Link, endpoint: Endpoint) -> None:
    suite = suite_of(replace(CLOSED, requests_per_stream=99))
    driving = asyncio.create_task(cell_through(link, endpoint, suite, replace(KEY, repeat=5)))
    await asyncio.sleep(0.5)
    os.kill(children("--bind")[0], signal.SIGKILL)
    with pytest.raises(SwarmLost) as lost:
        await driving
    told.last_words = str(lost.value)


@pytest.mark.http
@pytest.mark.slow
class TestStory:
    @served
    def test_the_same_requests_get_the_same_tokens(self, story: Story, name: str) -> None:
        records, cell = story.through[name]
        assert by_request(records) == by_request(story.own[name])
        assert len(records) == cell.requests == 18
        assert {record.outcome for record in records} == {Outcome.DONE}
        assert {record.tokens_are for record in records} == {TokenSource.CONTINUOUS_USAGE}
        assert sum(record.warmup for record in records) == {"burst": 6, "closed": 0}[name]

    @served
    def test_times_are_in_order_and_in_this_clock(self, story: Story, name: str) -> None:
        records, cell = story.through[name]
        for record in records:
            times = [record.due_s, record.sent_s, record.first_byte_s, *record.chunk_times_s, record.done_s]
            assert times == sorted(times, key=lambda at_s: at_s or 0.0)
            assert cell.window_start_s - 10 < record.due_s < cell.window_end_s + 10
            assert sum(record.chunk_tokens or ()) == record.output_tokens
        assert any("3 locust workers by this machine's clock, within" in note for note in cell.notes)

    def test_fewer_streams_than_workers(self, story: Story) -> None:
        records, cell = story.through["fewer"]
        assert len(records) == cell.requests == 6
        assert {record.outcome for record in records} == {Outcome.DONE}

    def test_bursts_leave_together_and_the_window_holds_the_measured_ones(self, story: Story) -> None:
        records, cell = story.through["burst"]
        bursts = [[r for r in records if r.request.endswith(f"/{number}")] for number in range(3)]
        dues = [{round(record.due_s, 5) for record in burst} for burst in bursts]
        ends = [max(record.done_s or 0.0 for record in burst) for burst in bursts]
        assert [len(due) for due in dues] == [1, 1, 1]  # one release for all, whichever the worker
        assert max(dues[0]) < ends[0] <= min(dues[1]) < ends[1] <= min(dues[2])
        assert cell.window_start_s == pytest.approx(min(dues[1]), abs=2e-5)
        assert ends[2] <= cell.window_end_s < ends[2] + 0.1  # the last read, which may hold no body any more

    def test_workers_keep_their_own_files(self, story: Story) -> None:
        files = sorted((story.folder / "workers").glob("fixed_2.c6.r1.*"))
        kept = [record for path in files for record in read_requests(path)[0]]
        assert len(files) == 3
        assert len(kept) == 36  # of the burst and the closed cell, which have one key here
        assert by_request(kept) == by_request(story.through["burst"][0]) | by_request(
            story.through["closed"][0]
        )

    def test_engine_counters_and_lag_are_the_cells(self, story: Story) -> None:
        _, cell = story.through["closed"]
        assert cell.drafts is not None
        assert cell.drafts > 0
        assert cell.lag_s is not None
        assert cell.client_lag_s is not None

    def test_a_cancelled_cell_keeps_what_was_under_way(self, story: Story) -> None:
        outcomes = [record.outcome for record in story.cancelled]
        assert outcomes.count(Outcome.CANCELLED) == 6
        assert set(outcomes) == {Outcome.DONE, Outcome.CANCELLED}

    def test_a_lost_worker_is_stated_and_its_records_are_kept(self, story: Story) -> None:
        records, cell = story.through["lost"]
        (loss,) = [fault for fault in cell.invalid if "was lost" in fault]
        kept = int(loss.split("the cell: ")[1].split()[0])
        assert "records that it had shipped are kept, later ones are missing" in loss
        lost = lost_streams(loss)
        assert lost <= kept < 40 * lost
        assert len(records) == cell.requests == 40 * (6 - lost) + kept

    def test_the_next_cell_goes_to_those_that_are_left(self, story: Story) -> None:
        records, cell = story.through["after"]
        assert len(records) == 18
        assert not [fault for fault in cell.invalid if "lost" in fault]
        assert any("2 locust workers" in note for note in cell.notes)

    def test_a_master_that_is_gone_is_said(self, story: Story) -> None:
        assert story.last_words.startswith("locust's master is gone: ")
        assert "locust-master.log" in story.last_words

    def test_nothing_is_left_behind(self, story: Story) -> None:
        assert story.left == []

    def test_the_key_is_nowhere(self, story: Story) -> None:
        assert b"locustfile.py" in story.arguments
        assert SECRET.encode() not in story.arguments
        files = [path for path in story.folder.rglob("*") if path.is_file()]
        assert len(files) > 4
        assert not [path for path in files if SECRET.encode() in path.read_bytes()]


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    async def run() -> None:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, open_fleet(FleetSettings(expected=1, port=port), tmp_path, lambda _: None):
            pass

    with pytest.raises(SwarmError, match=r"--master-port \d+ on 127.0.0.1: Address already in use"):
        asyncio.run(run())


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (LoadSpec((1,), "open", requests_per_stream=1, rate_per_s=1.0), "an open loop"),
        (replace(CLOSED, bursts=()), "phases or bursts on top"),
    ],
)
def test_a_load_that_one_process_must_time_is_refused(load: LoadSpec, words: str) -> None:
    with pytest.raises(SwarmError, match=f"has {words}; use --load asyncio"):
        check_load(load)
