"""A run that was killed goes on: whole cells stay, the rest is run again, and the judge cannot tell."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict
from io import StringIO
from pathlib import Path

import pytest

from depthgate import run as runs
from depthgate.__main__ import main
from depthgate.run import Run
from depthgate.run_lock import run_lock
from engines.contract import EngineError
from reports.judge import judge_run
from reports.run_folder import read_run
from tests.depthgate.cli import ROOT, Finished, depthgate, refusal

SUITE = """
name = "small"
question = "Does a run that was killed go on?"
repeats = 3
[engine]
kind = "embedded"
profile = "h100-llama3.1-8b-eagle"
options = { k_max = 2 }
[load]
mode = "closed"
concurrency = [1, 2, 4]
requests_per_stream = 6
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
[[budgets]]
metric = "tokens_per_s"
min_ratio = 0.5
"""
BROKEN, LOST = 1, 4
UNSEALED = 3  # kept, and never a pass
# The seal says so when the checkout was committed to between a run and its resumption.
DIFFER = {"run", "command", "commit", "started_utc", "finished_utc", "sessions", "records_sha256", "seal"}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("suite") / "small.toml"
    path.write_text(SUITE)
    return path


@pytest.fixture(scope="module")
def whole(suite: Path) -> Path:
    depthgate("run", suite, "--clock", "virtual", "--out", suite.parent / "whole")
    (run_dir,) = (suite.parent / "whole").iterdir()
    return run_dir


def killed(lines: int, *arguments: str | Path) -> None:
    command = [sys.executable, "-m", "tests.depthgate.killed", str(lines), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr


def go_on(*arguments: str | Path) -> Finished:
    """`depthgate run ARGUMENTS...` in this process."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["run", *map(str, arguments)])
    return Finished(code, out.getvalue(), err.getvalue())


def lines_of(run_dir: Path) -> int:
    files = [run_dir / "cells.jsonl", *run_dir.glob("requests/*"), *run_dir.glob("steps/*")]
    return sum(file.read_bytes().count(b"\n") for file in files)


def judged(run_dir: Path) -> str:
    """The judgement as JSON, apart from what a resumed run must say otherwise."""
    found = asdict(judge_run(run_dir))
    manifest = found.pop("manifest")
    del found["run"], found["seal"]
    kept = {name: value for name, value in manifest.items() if name not in DIFFER}
    return json.dumps([found, kept], sort_keys=True, allow_nan=False)


def only_run(out: Path) -> Path:
    (run_dir,) = out.iterdir()
    return run_dir


@pytest.mark.parametrize("share", [0.0, 0.003, 0.11, 0.36, 0.62, 0.87, 0.999])
def test_a_virtual_run_killed_anywhere_goes_on_to_the_same_judgement(
    suite: Path, whole: Path, tmp_path: Path, share: float
) -> None:
    moment = int(share * lines_of(whole))
    killed(moment, "run", suite, "--clock", "virtual", "--out", tmp_path)
    run_dir = only_run(tmp_path)
    assert judge_run(run_dir).partial
    done = go_on("--resume", run_dir, "--json")
    assert done.code == UNSEALED, done.err
    assert judge_run(run_dir).partial == ()
    assert judged(run_dir) == judged(whole)


def test_a_run_killed_again_and_again_comes_to_the_same_judgement(
    suite: Path, whole: Path, tmp_path: Path
) -> None:
    """Three deaths, one of them within a repeat that was resumed before."""
    total = lines_of(whole)
    killed(total // 3, "run", suite, "--clock", "virtual", "--out", tmp_path)
    run_dir = only_run(tmp_path)
    for _ in range(2):
        killed(total // 5, "run", "--resume", run_dir)
    assert go_on("--resume", run_dir).code == UNSEALED
    manifest = read_run(run_dir).manifest
    sessions = manifest["sessions"]
    assert isinstance(sessions, list)
    assert len(sessions) == 4
    assert [session["ended_utc"] is None for session in sessions] == [True, True, True, False]
    assert sessions[0]["set_aside"] == []
    assert all(session["set_aside"] for session in sessions[1:])
    assert judged(run_dir) == judged(whole)


def test_what_is_set_aside_lies_there_and_is_not_counted(suite: Path, whole: Path, tmp_path: Path) -> None:
    killed(int(0.4 * lines_of(whole)), "run", suite, "--clock", "virtual", "--out", tmp_path)
    run_dir = only_run(tmp_path)
    before = {path.name: path.read_bytes() for path in run_dir.glob("*/*.jsonl")}
    done = go_on("--resume", run_dir)
    sessions = read_run(run_dir).manifest["sessions"]
    assert isinstance(sessions, list)
    names = sessions[1]["set_aside"]
    assert names
    for name in names:
        assert name in done.err
        assert (run_dir / "aside" / "1" / name).read_bytes() == before[Path(name).name]


@pytest.mark.http
def test_a_wall_clock_run_goes_on_with_a_further_engine(suite: Path, tmp_path: Path) -> None:
    """Killed within a repeat: its second engine has steps of its own, and every cell finds its own."""
    killed(30, "run", suite, "--out", tmp_path)  # within fixed_2's or off's second point: 6 + 12 + 24 lines
    run_dir = only_run(tmp_path)
    kept = {path.name: path.read_bytes() for path in run_dir.glob("requests/*.c1.r0.jsonl")}
    assert go_on("--resume", run_dir).code in (0, 1, 3, 4)
    run = read_run(run_dir)
    assert not run.missing
    assert len(run.cells) == 2 * 3 * 3
    assert [life.since for life in run.lives("off", 0)] == [None, 4]
    assert all((run_dir / "requests" / name).read_bytes() == data for name, data in kept.items())
    steps = {cell.concurrency: cell.figures.get("verified_per_emitted") for cell in judge_run(run_dir).cells}
    assert set(steps) == {1, 2, 4}


def resumed_refusal(run_dir: Path, *more: str | Path) -> str:
    before = (run_dir / "manifest.json").read_bytes()
    said = refusal("run", *more, "--resume", run_dir)
    assert (run_dir / "manifest.json").read_bytes() == before
    return said


@pytest.fixture
def partial(suite: Path, whole: Path, tmp_path: Path) -> Path:
    killed(lines_of(whole) // 2, "run", suite, "--clock", "virtual", "--out", tmp_path / "out")
    return only_run(tmp_path / "out")


def test_an_altered_suite_is_refused(partial: Path, suite: Path) -> None:
    other = partial.parent / "other.toml"
    other.write_text(SUITE.replace("min_ratio = 0.5", "min_ratio = 0.1"))
    assert "not the suite of" in resumed_refusal(partial, other)
    path = partial / "manifest.json"
    path.write_text(path.read_text().replace('"min_ratio": 0.5', '"min_ratio": 0.1'))
    assert "its suite was altered after the run began" in resumed_refusal(partial)


def test_the_own_suite_may_be_named(partial: Path, suite: Path) -> None:
    assert go_on(suite, "--resume", partial).code == UNSEALED


@pytest.mark.parametrize(
    "flag", [["--profile", "x"], ["--clock", "virtual"], ["--trace"], ["--arm", "off=x"]]
)
def test_a_run_goes_on_with_what_it_began_with(partial: Path, flag: list[str]) -> None:
    assert f"{flag[0]}: a run goes on with what it began with" in resumed_refusal(partial, *flag)


@pytest.mark.parametrize("name", ["versions", "commit"])
def test_another_version_makes_the_run_exploratory(partial: Path, name: str) -> None:
    path = partial / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest[name] = {"depthgate": "0.0.1"} if name == "versions" else "abc"
    manifest["seal"] = {"state": "sealed", "sentence": "sealed", "seal": {}}
    path.write_text(json.dumps(manifest))
    done = go_on("--resume", partial)
    assert f"another {name}" in done.err
    judgement = judge_run(partial)
    assert not judgement.gated
    assert f"resumed with another {name}" in judgement.seal


def test_a_finished_run_is_judged_as_it_is(whole: Path) -> None:
    page = whole / "report.html"
    before = {path: path.read_bytes() for path in whole.rglob("*") if path.is_file() and path != page}
    done = go_on("--resume", whole)
    assert f"{whole}: this run is finished: judged as it is; what it lacks takes a new run\n" in done.err
    assert "not the suite of" in resumed_refusal(whole, "quickstart")
    assert done.code == depthgate("judge", whole).code
    after = {path: path.read_bytes() for path in whole.rglob("*") if path.is_file() and path != page}
    assert after == before


def test_a_finished_run_that_is_broken_stays_broken(tmp_path: Path) -> None:
    """A loop that resumes until 0 must not take a finished run for a kept one."""
    suite = tmp_path / "small.toml"
    suite.write_text(SUITE.replace("min_ratio = 0.5", "min_ratio = 50"))
    assert depthgate("run", suite, "--clock", "virtual", "--out", tmp_path / "runs").code == BROKEN
    (run_dir,) = (tmp_path / "runs").iterdir()
    assert go_on("--resume", run_dir).code == BROKEN


def test_an_engine_that_goes_away_is_no_usage_error(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost_later(run: Run) -> None:
        virtual(run)
        raise EngineError("http://h:1: no connection; start the server there")

    virtual = runs._CLOCKS["virtual"]
    monkeypatch.setitem(runs._CLOCKS, "virtual", lost_later)
    done = go_on(suite, "--clock", "virtual", "--out", tmp_path)
    run_dir = only_run(tmp_path)
    assert done.code == LOST
    assert f"what came is kept: depthgate run --resume {run_dir}" in done.err
    monkeypatch.setitem(runs._CLOCKS, "virtual", virtual)
    assert go_on("--resume", run_dir).code == UNSEALED


def test_a_second_process_is_refused(partial: Path) -> None:
    with run_lock(partial):
        assert f"process {os.getpid()} is working on it" in resumed_refusal(partial)
    assert go_on("--resume", partial).code == UNSEALED
    assert not (partial / "run.lock").exists()


def test_the_lock_dies_with_its_holder(partial: Path) -> None:
    """A pid in a file that a killed process left behind locks nothing."""
    (partial / "run.lock").write_text("1\n")
    assert go_on("--resume", partial).code == UNSEALED


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    assert "no such run folder" in refusal("run", "--resume", tmp_path / "nowhere")
    assert "no suite; name one" in refusal("run")


def test_a_run_killed_while_it_signs_off_has_nothing_left_to_run(
    suite: Path, whole: Path, tmp_path: Path
) -> None:
    """Every cell is there, SHA256SUMS too, the manifest does not say so yet."""
    run_dir = Path(shutil.copytree(whole, tmp_path / "run"))
    manifest = json.loads((run_dir / "manifest.json").read_text())
    (run_dir / "manifest.json").write_text(
        json.dumps(manifest | {"finished_utc": None, "records_sha256": None})
    )
    done = go_on("--resume", run_dir)
    assert "18 of 18 cells are whole" in done.err
    assert "set aside" not in done.err
    assert done.code == UNSEALED
    assert judge_run(run_dir).partial == ()
    assert judged(run_dir) == judged(whole)
