"""Worker processes as a user meets them: an open load that is ended, and a run that is killed and goes on."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from loadgen.journal import read_requests
from loadgen.records import Outcome
from reports.judge import judge_run
from reports.run_folder import read_run
from tests.depthgate.ended_load import ANSWERED, GOOD, Hanging, load_process
from tests.depthgate.test_load_faults import in_thread, load, wait_for
from tests.depthgate.test_resume import go_on, killed, only_run
from tests.loadgen.servers import Asked

pytestmark = pytest.mark.http


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_open_load_that_is_ended_loses_nothing_that_had_ended(
    tmp_path: Path, sent: signal.Signals
) -> None:
    """Twenty answers, then all hang, and the rest is due in a million years: nobody may wait for that."""
    answer = Hanging()
    path, trace = tmp_path / "records.jsonl", tmp_path / "due.txt"
    trace.write_text("0\n" * (ANSWERED + 5) + "500000\n" * 40)
    with in_thread(answer) as url:
        flags = ["--trace", str(trace), "--requests", "65", "--workers", "3", "--records", str(path)]
        process = load_process(url, "--json", "-", *flags)
        wait_for(lambda: path.exists() and path.read_bytes().count(b"\n") == ANSWERED)
        wait_for(lambda: answer.started == ANSWERED + 5)
        process.send_signal(sent)
        out, err = process.communicate(timeout=60)  # to its workers' end: they hold the other end of err
    assert process.returncode == (-9 if sent is signal.SIGKILL else 130), err
    assert "Traceback" not in out + err
    records, partial = read_requests(path)
    expected = {Outcome.DONE: ANSWERED} | ({} if sent is signal.SIGKILL else {Outcome.CANCELLED: 5})
    assert Counter(record.outcome for record in records) == expected
    assert len({record.request for record in records}) == len(records)
    assert partial is None
    if sent is not signal.SIGKILL:
        figures = json.loads(out)
        assert (figures["interrupted"], figures["completed"], figures["cancelled"]) == (True, ANSWERED, 5)


def test_one_queue_of_prompts_goes_out_in_its_order_whoever_sends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Request n takes prompt n: by one process, and by three."""
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("".join(f"prompt {number}\n" for number in range(40)))
    asked: list[str] = []

    async def answer(writer: asyncio.StreamWriter, request: Asked) -> None:
        asked.append(request.body["messages"][0]["content"])
        await GOOD(writer, request)

    plans = []
    for workers in ("1", "3"):
        path = tmp_path / workers
        with in_thread(answer) as url:
            more = ("--rate", "200", "--requests", "40", "--prompts", prompts, "--workers", workers)
            load(url, *more, "--records", path)
        records = sorted(read_requests(path)[0], key=lambda record: record.due_s)
        due_s = [record.due_s - records[0].due_s for record in records]
        plans.append(([record.request for record in records], due_s, sorted(asked)))
        asked.clear()
    assert plans[0][0] == plans[1][0] == [f"load/c1/r0/s0/{number}" for number in range(40)]
    assert plans[0][1] == pytest.approx(plans[1][1], abs=4e-9)
    assert plans[0][2] == plans[1][2] == sorted(f"prompt {number}" for number in range(40))
    said = capsys.readouterr().out
    assert "note: 3 worker processes drove the load" in said


SUITE = """
name = "shared"
question = "Does a run that two workers drive go on after it was killed?"
repeats = 1
[engine]
kind = "embedded"
profile = "h100-llama3.1-8b-eagle"
options = { k_max = 2 }
[load]
mode = "open"
rate_per_s = [10, 20]
duration_s = 1.5
workers = 2
[[traffic]]
name = "gsm8k"
max_tokens = 12
[[arms]]
name = "off"
governor = "off"
baseline = true
[[arms]]
name = "fixed_2"
governor = "fixed"
options = { depth = 2 }
"""


@pytest.mark.slow
def test_a_run_with_workers_that_is_killed_goes_on(tmp_path: Path) -> None:
    """Every request of the plan is there once, those of the cell that was cut short too."""
    suite = tmp_path / "shared.toml"
    suite.write_text(SUITE)
    killed(60, "run", suite, "--out", tmp_path / "cut")
    run_dir = only_run(tmp_path / "cut")
    assert judge_run(run_dir).partial
    go_on("--resume", run_dir)
    assert judge_run(run_dir).partial == ()
    go_on(suite, "--clock", "virtual", "--out", tmp_path / "whole")
    sent, planned = (
        sorted(record.request for path in folder.glob("requests/*") for record in read_requests(path)[0])
        for folder in (run_dir, only_run(tmp_path / "whole"))
    )
    assert sent == planned
    assert all(
        "2 worker processes drove the load" in cell.record.notes for cell in read_run(run_dir).cells.values()
    )
