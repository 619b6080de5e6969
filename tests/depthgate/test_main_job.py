"""The main job end to end: run, kill, judge, report, reproduce; over HTTP and in virtual time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.depthgate.cli import ROOT, depthgate, refusal
from tests.depthgate.test_bad_input import SUITE

FIGURES = {
    "tokens_per_s", "itl_p50_s", "itl_p95_s", "itl_p99_s", "ttft_p50_s", "ttft_p99_s", "e2e_p99_s",
    "acceptance_length",
}  # fmt: skip


def test_reproduce_in_virtual_time_prints_one_object(tmp_path: Path) -> None:
    done = depthgate("reproduce", "threshold-collapse", "--clock", "virtual", "--json", "--out", tmp_path)
    found = json.loads(done.out)
    assert found["reproducer"] == "threshold-collapse"
    assert found["verdict"] == "reproduced"
    assert done.code == 0
    assert found["ratio"]["low"] < found["ratio"]["point"] < found["ratio"]["high"] < 0.75
    assert set(found["arms"]) == {"off", "fixed_2", "schedule"}
    assert set(found["arms"]["schedule"]["8"]) == FIGURES
    assert found["profile"] == "h200-qwen3-4b-eagle"
    assert "model" in found["engine"]
    assert Path(found["page"]).exists()


def test_the_cause_removed_does_not_reproduce(tmp_path: Path) -> None:
    """The control: without the two penalties the same schedule costs nothing beyond K=0."""
    text = (ROOT / "suites" / "threshold-collapse.toml").read_text()
    off = "penalties = { piecewise_downgrade = false, zero_depth_sync = false }"
    text = text.replace("options = { k_max = 2 }", f"options = {{ k_max = 2, {off} }}", 1)
    path = tmp_path / "control.toml"
    path.write_text(text)
    done = depthgate("run", path, "--clock", "virtual", "--json", "--out", tmp_path / "out")
    judged = json.loads(done.out)
    ratios = {
        cell["concurrency"]: cell["ratios"]["tokens_per_s"]["point"]
        for cell in judged["cells"]
        if cell["arm"] == "schedule"
    }
    assert min(ratios.values()) > 0.9


def test_a_schedule_that_the_engine_ignores_is_no_refutation(tmp_path: Path) -> None:
    """vllm#51510: what ran was K=2 throughout, which says nothing about the schedule."""
    text = (ROOT / "engines" / "embedded" / "profiles" / "h200-qwen3-4b-eagle.toml").read_text()
    text = text.replace("[penalties]\n", "[penalties]\npolicy_ignored = 2\n", 1)
    text = text.replace("[sources.penalties]\n", '[sources.penalties]\npolicy_ignored = "test"\n', 1)
    profile = tmp_path / "ignores.toml"
    profile.write_text(text)
    flags = ("--clock", "virtual", "--repeats", "2", "--profile", profile, "--out", tmp_path, "--json")
    done = depthgate("reproduce", "threshold-collapse", *flags)
    assert json.loads(done.out)["verdict"] == "invalid"
    assert done.code == 4


def test_the_same_seed_gives_the_same_records(tmp_path: Path) -> None:
    runs = []
    for name in ("a", "b"):
        depthgate("run", "quickstart", "--clock", "virtual", "--out", tmp_path / name)
        (run_dir,) = (tmp_path / name).iterdir()
        runs.append({p.name: p.read_bytes() for p in sorted(run_dir.glob("*/*.jsonl"))})
    assert runs[0] == runs[1]
    assert len(runs[0]) > 6


@pytest.mark.http
def test_quickstart_over_http(tmp_path: Path) -> None:
    """Records of every cell, true token counts, a page; the ruling may be invalid on a busy machine."""
    done = depthgate("run", "quickstart", "--json", "--out", tmp_path)
    assert done.code in (0, 1, 3, 4), done.err
    judged = json.loads(done.out)
    (run_dir,) = tmp_path.iterdir()
    manifest = json.loads((run_dir / "manifest.json").read_text())
    assert manifest["is_model"] is True
    assert manifest["finished_utc"]
    assert judged["partial"] == []
    rows = [
        json.loads(line)
        for path in (run_dir / "requests").iterdir()
        for line in path.read_text().splitlines()
    ]
    assert len(rows) == 2 * 3 * 2 * (1 + 4 + 8)  # arms x repeats x bursts x streams
    assert {row["outcome"] for row in rows} == {"done"}
    assert {row["tokens_are"] for row in rows} == {"continuous-usage"}
    assert all(sum(row["chunk_tokens"]) == row["output_tokens"] == 60 for row in rows)
    assert "embedded engine" in (run_dir / "report.html").read_text().lower()


@contextmanager
def serving(*flags: str) -> Iterator[str]:
    """`depthgate serve` on a free port."""
    command = [sys.executable, "-m", "depthgate", "serve", "--port", "0", *flags]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    try:
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())["url"]
    finally:
        server.terminate()
        server.wait(timeout=30)


@contextmanager
def without_switch(url: str) -> Iterator[str]:
    """A server that passes everything on but /depthgate/arm: as any OpenAI-compatible server would look."""
    script = Path(__file__).with_name("plain_server.py")
    proxy = subprocess.Popen([sys.executable, str(script), url], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert proxy.stdout is not None
        yield proxy.stdout.readline().strip()
    finally:
        proxy.terminate()
        proxy.wait(timeout=30)


def start(tmp_path: Path, *more: str) -> subprocess.Popen[str]:
    path = tmp_path / "tiny.toml"
    path.write_text(
        SUITE.replace("repeats = 2", "repeats = 50").replace("max_tokens = 8", "max_tokens = 200")
    )
    command = [sys.executable, "-m", "depthgate", "run", str(path), "--out", str(tmp_path / "out"), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def wait_for_cells(tmp_path: Path, cells: int) -> Path:
    """Until `cells` cells have ended; the test's own timeout is the limit."""
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        for path in (tmp_path / "out").glob("tiny-*/cells.jsonl"):
            if path.read_text().count("\n") >= cells:
                return path.parent
        time.sleep(0.05)
    raise AssertionError("no cell ended")


@pytest.mark.http
@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)]
)
def test_a_run_that_is_ended_keeps_its_records(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    process = start(tmp_path)
    run_dir = wait_for_cells(tmp_path, 3)
    process.send_signal(sent)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code, err
    assert "Traceback" not in err
    judged = depthgate("judge", run_dir, "--json")
    (judgement,) = json.loads(judged.out)
    assert judgement["partial"]
    assert judgement["ruling"] != "kept"
    assert any(cell["points"].get("tokens_per_s") for cell in judgement["cells"])
    assert depthgate("report", run_dir).code == 0
    assert no_server_left(run_dir)


def test_a_virtual_run_takes_sigterm_for_ctrl_c(tmp_path: Path) -> None:
    process = start(tmp_path, "--clock", "virtual")
    run_dir = wait_for_cells(tmp_path, 1)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert err.rstrip().endswith("what was recorded is kept")
    assert depthgate("judge", run_dir).code == 3


def no_server_left(run_dir: Path) -> bool:
    """The engine's process goes with its parent, kill -9 included."""
    deadline_s = time.monotonic() + 10
    while time.monotonic() < deadline_s:
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        if str(run_dir) not in listed.replace(str(os.getpid()), ""):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 0.77, 0.999])
def test_a_truncated_run_folder_is_judged_for_what_is_there(tmp_path: Path, share: float) -> None:
    depthgate("run", "quickstart", "--clock", "virtual", "--out", tmp_path)
    (run_dir,) = tmp_path.iterdir()
    for path in (run_dir / "cells.jsonl", *sorted((run_dir / "requests").iterdir())[:2]):
        os.truncate(path, int(path.stat().st_size * share))
    done = depthgate("judge", run_dir, "--json")
    (judgement,) = json.loads(done.out)
    assert judgement["partial"]
    assert done.code in (1, 3, 4)


@pytest.mark.http
def test_reproducing_against_urls(tmp_path: Path) -> None:
    """Three servers, one an arm; the server says itself that it is a model."""
    arms = {"off": {}, "fixed": {"depth": 2}, "schedule": {"schedule": [[1, 4, 2], [5, 512, 0]]}}
    servers, flags = [], []
    try:
        for governor, options in arms.items():
            command = [sys.executable, "-m", "depthgate", "serve", "--port", "0", "--governor", governor]
            command += ["--options", json.dumps(options), "--engine-options", '{"k_max": 2}']
            server = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
            )
            servers.append(server)
            assert server.stdout is not None
            name = "fixed_2" if governor == "fixed" else governor
            flags += ["--arm", f"{name}={json.loads(server.stdout.readline())['url']}"]
        done = depthgate(
            "reproduce", "threshold-collapse", "--repeats", "2", "--json", "--out", tmp_path, *flags
        )
    finally:
        for server in servers:
            server.terminate()
    found = json.loads(done.out)
    assert found["verdict"] in ("reproduced", "inconclusive", "invalid"), done.err
    assert found["is_model"] is True
    assert found["profile"] == "h200-qwen3-4b-eagle"
    assert found["arms"]["off"]["1"]["tokens_per_s"] > found["arms"]["schedule"]["1"]["tokens_per_s"]


@pytest.mark.http
def test_one_embedded_server_serves_every_arm(tmp_path: Path) -> None:
    with serving("--engine-options", '{"k_max": 2}') as url:
        done = depthgate("reproduce", "threshold-collapse", "--engine", url, "--repeats", "1", "--json",
                         "--out", tmp_path)  # fmt: skip
    found = json.loads(done.out)
    assert found["verdict"] in ("inconclusive", "invalid"), done.err  # one repeat shows no spread
    assert found["arms"]["off"]["8"]["acceptance_length"] == 1.0  # zero drafts
    assert found["arms"]["fixed_2"]["8"]["acceptance_length"] > 2
    assert found["arms"]["off"]["8"]["tokens_per_s"] > 2 * found["arms"]["schedule"]["8"]["tokens_per_s"]


@pytest.mark.http
def test_a_lone_server_that_cannot_switch_is_taken_for_the_schedule(tmp_path: Path) -> None:
    """Figures of one arm, no verdict on it, and the mend; `run` refuses, since it has nothing to compare."""
    with serving("--host", "127.0.0.1") as url, without_switch(url) as plain:
        done = depthgate("reproduce", "threshold-collapse", "--engine", plain, "--repeats", "1", "--json",
                         "--out", tmp_path)  # fmt: skip
        found = json.loads(done.out)
        said = refusal("run", "quickstart", "--engine", plain, "--out", tmp_path)
    assert list(found["arms"]) == ["schedule"]
    assert found["verdict"] in ("inconclusive", "invalid")
    assert "every arm" in found["evidence"][0]
    assert "--arm NAME=URL" in said


@pytest.mark.http
def test_load_alone_writes_the_agreed_keys(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "depthgate", "serve", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        out = tmp_path / "load.json"
        done = depthgate(
            "load", "--url", url, "--concurrency", "4", "--requests", "10", "--max-tokens", "12",
            "--ignore-eos", "--records", tmp_path / "records.jsonl", "--json", out,
        )  # fmt: skip
    finally:
        server.terminate()
    figures = json.loads(out.read_text())
    latencies = {
        f"{m}_{p}_s" for m in ("ttft", "itl", "chunk_gap", "tpot", "e2e") for p in ("p50", "p95", "p99")
    }
    assert latencies <= set(figures)
    assert figures["completed"] == 10, done.err
    assert figures["output_tokens"] == 120
    assert figures["tokens_are"] == "continuous-usage"
    assert figures["failed"] == figures["refused"] == 0
    assert (tmp_path / "records.jsonl").read_text().count("\n") == 10


def test_the_script_is_the_verb(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "reproducers.threshold_collapse",
        "--clock",
        "virtual",
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "REPRODUCED" in done.stdout


@pytest.mark.http
def test_a_recorded_trace_replays_bit_for_bit(tmp_path: Path) -> None:
    """The policy that made the decisions makes them again; another one can be tried on the same course."""
    text = SUITE.replace('name = "fixed"\ngovernor = "fixed"', 'name = "fixed"\ngovernor = "schedule"')
    schedule = "schedule = [[1, 1, 2], [2, 512, 0]]"
    path = tmp_path / "tiny.toml"
    path.write_text(text.replace("depth = 2", schedule).replace("repeats = 2", "repeats = 1"))
    depthgate("run", path, "--trace", "--out", tmp_path / "out")
    (run_dir,) = (tmp_path / "out").iterdir()
    options = '{"schedule": [[1, 1, 2], [2, 512, 0]]}'
    trace = run_dir / "trace" / "fixed.r0.jsonl"
    done = depthgate("replay", trace, "--governor", "schedule", "--options", options, "--json")
    decided = [json.loads(line)["depth_next"] for line in done.out.splitlines()]
    steps = [json.loads(line) for line in (run_dir / "steps" / "fixed.r0.jsonl").read_text().splitlines()]
    assert decided == [step["depth_chosen"] for step in steps]
    assert set(decided) == {0, 2}
    assert "0 switches" in depthgate("replay", trace, "--governor", "fixed", "--options", '{"depth": 1}').out


def test_every_verb_helps_with_an_example() -> None:
    for verb in ("list", "run", "seal", "judge", "report", "load", "reproduce", "serve", "replay"):
        done = depthgate(verb, "--help")
        assert done.code == 0
        assert "example" in done.out
        assert f"depthgate {verb}" in done.out


def test_list_names_what_there_is() -> None:
    found = json.loads(depthgate("list", "--json").out)
    assert {row["name"] for row in found["governors"]} >= {
        "off", "fixed", "disable_above", "schedule", "hysteresis_schedule", "goodput_table",
        "dspark", "dspark_argmax",
    }  # fmt: skip
    assert {row["name"] for row in found["suites"]} >= {"quickstart", "threshold-collapse", "sweep-c1-c256"}
    assert len(found["profiles"]) >= 4
    assert all(row["summary"] for rows in found.values() for row in rows)
