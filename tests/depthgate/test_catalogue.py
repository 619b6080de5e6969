"""The catalogue: what its exit code says, its list, its page, and runs over workers that end together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import depthgate.catalogue as catalogue
import depthgate.catalogue_jobs as catalogue_jobs
from depthgate.__main__ import main
from depthgate.catalogue import CatalogueRequest
from depthgate.launch import Overrides
from depthgate.reproduction import has_control
from depthgate.workers import run_jobs
from engines.contract import EngineError
from reports.catalogue import Catalogue, CatalogueRow, catalogue_code
from reports.catalogue_page import catalogue_page
from reports.formats import DASH
from reports.judgement import Interval
from reports.reproduction import ReproductionSummary, ReproductionVerdict
from reproducers.changes import with_options
from reproducers.registry import REPRODUCERS
from suites.model import EngineSpec
from suites.parse import load_suite

REPRODUCED, NOT = ReproductionVerdict.REPRODUCED, ReproductionVerdict.NOT_REPRODUCED
INCONCLUSIVE, INVALID = ReproductionVerdict.INCONCLUSIVE, ReproductionVerdict.INVALID
ROW = CatalogueRow(
    name="a-cliff", report="vllm#1", symptom="slow", verdict=REPRODUCED, control_verdict=NOT,
    control_says="no cause", published=(0.1, 0.2), published_of="1 over 10", published_text="10 -> 1",
    ours=Interval(0.1, 0.15, 0.2), ours_of="a over b", expected=(0.1, 0.3), page="a-cliff/report.html",
)  # fmt: skip


@pytest.mark.parametrize(
    ("verdict", "control", "code"),
    [
        (REPRODUCED, NOT, 0),
        (REPRODUCED, None, 0),
        (NOT, NOT, 1),
        (REPRODUCED, REPRODUCED, 1),
        (NOT, INVALID, 1),
        (INCONCLUSIVE, NOT, 3),
        (REPRODUCED, INCONCLUSIVE, 3),
        (INVALID, INCONCLUSIVE, 4),
    ],
)
def test_the_exit_code(verdict: ReproductionVerdict, control: ReproductionVerdict | None, code: int) -> None:
    assert catalogue_code([ROW, replace(ROW, verdict=verdict, control_verdict=control)]) == code


def test_the_object_of_a_row_and_unknown_figures() -> None:
    assert ROW.to_json() == {
        "reproducer": "a-cliff",
        "report": "vllm#1",
        "verdict": "reproduced",
        "control_verdict": "not-reproduced",
        "published": {"low": 0.1, "high": 0.2, "of": "1 over 10", "text": "10 -> 1"},
        "ours": {"low": 0.1, "point": 0.15, "high": 0.2, "of": "a over b"},
        "evidence": [],
    }
    unknown = replace(ROW, published=None, published_of=None, ours=None, control_verdict=None).to_json()
    assert unknown["published"] == {"low": None, "high": None, "of": None, "text": "10 -> 1"}
    assert unknown["ours"] == {"low": None, "point": None, "high": None, "of": "a over b"}
    assert unknown["control_verdict"] is None


def test_the_page_escapes_and_says_what_missed() -> None:
    row = replace(ROW, symptom="<script>x</script>", expected=(0.5, 0.6), verdict=INVALID, evidence=("<b>",))
    page = catalogue_page(Catalogue("run", "engine", "virtual", "depthgate <&>", (row,)))
    assert "<script>x" not in page
    assert "&lt;script&gt;x" in page
    assert "a-cliff: &lt;b&gt;" in page
    assert f"ours 0.15 (0.10{DASH}0.20) is outside the declared 0.50{DASH}0.60" in page
    assert "<script" not in page


def test_every_reproducer_has_a_control_here_and_on_a_real_engine_only_what_is_not_the_engine_s() -> None:
    real = Overrides(started=EngineSpec(kind="vllm", model="org/model"))
    assert all(has_control(each, Overrides()) for each in REPRODUCERS.values())
    assert not has_control(REPRODUCERS["capture-hole"], real)  # a switch of the embedded engine
    assert has_control(REPRODUCERS["withdrawn-fix"], real)  # another schedule
    assert not has_control(REPRODUCERS["bistable"], real)  # fewer repeats remove no cause


def test_all_in_one_folder_with_a_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue_jobs, "REPRODUCERS", {"capture-hole": REPRODUCERS["capture-hole"]})
    monkeypatch.setattr(catalogue_jobs, "WORKERS", 1)
    assert main(["reproduce", "--all", "--clock", "virtual", "--json", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr()
    (row,) = json.loads(said.out)
    assert (row["reproducer"], row["verdict"], row["control_verdict"]) == (
        "capture-hole", "reproduced", "not-reproduced",
    )  # fmt: skip
    (folder,) = tmp_path.iterdir()
    assert {path.name for path in folder.iterdir()} == {
        "capture-hole", "capture-hole.control", "catalogue.html",
    }  # fmt: skip
    assert "[2/2] capture-hole (control): not-reproduced" in said.err
    manifest = json.loads((folder / "capture-hole.control" / "manifest.json").read_text())
    assert manifest["overrides"] == ["--control (a batch between two sizes is padded to the next)"]


def job(name: str, folder: Path, unmet: str | None = None) -> catalogue_jobs.Job:
    real = Overrides(started=EngineSpec(kind="vllm", model="org/model"))
    return catalogue_jobs.Job(name, False, "wall", real, folder / name, quiet=True, unmet=unmet)


def summary(name: str) -> ReproductionSummary:
    return ReproductionSummary(name, "vllm#1", "slow", REPRODUCED, None, "10 -> 1")


def test_a_job_that_fails_and_one_without_meaning_do_not_end_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_job(job: catalogue_jobs.Job, servers: object) -> catalogue_jobs.Done:
        if job.name == "amplification":
            raise EngineError("vLLM did not start:\n out of memory")
        return catalogue_jobs.Done(summary(job.name), is_model=False, seconds=1.0)

    monkeypatch.setattr(catalogue_jobs, "run_job", run_job)
    jobs = [
        job("amplification", tmp_path),
        job("bistable", tmp_path, "no graphs"),
        job("small-tax", tmp_path),
    ]
    done, interrupted = catalogue_jobs.run_all(jobs, "wall")
    assert not interrupted
    rows = catalogue.catalogue_rows(done)
    assert [(row.name, row.verdict, row.evidence, row.page) for row in rows] == [
        ("amplification", INVALID, ("did not run: vLLM did not start: out of memory",), None),
        ("bistable", INCONCLUSIVE, ("not run: no graphs",), None),
        ("small-tax", REPRODUCED, (), "small-tax/report.html"),
    ]
    assert "[2/3] bistable: inconclusive, not run: no graphs" in capsys.readouterr().err


def test_ctrl_c_shows_what_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_job(job: catalogue_jobs.Job, servers: object) -> catalogue_jobs.Done:
        if job.name == "bistable":
            raise KeyboardInterrupt
        return catalogue_jobs.Done(summary(job.name), is_model=False, seconds=1.0)

    monkeypatch.setattr(catalogue_jobs, "run_job", run_job)
    jobs = [job("amplification", tmp_path), job("bistable", tmp_path), job("small-tax", tmp_path)]
    monkeypatch.setattr(catalogue, "plan_jobs", lambda *_, **__: jobs)
    assert main(["reproduce", "--all", "--json", "--out", str(tmp_path)]) == 130
    assert [row["reproducer"] for row in json.loads(capsys.readouterr().out)] == ["amplification"]
    (page,) = tmp_path.glob("catalogue-*/catalogue.html")
    assert "amplification" in page.read_text()


def test_one_armed_server_for_all_where_arming_costs_nothing() -> None:
    asked = {"model": "org/model", "share_armed": True}
    assert catalogue.overrides_of(CatalogueRequest(f"vllm:{json.dumps(asked)}")).k_max == 8
    apart = CatalogueRequest(f"vllm:{json.dumps(asked | {'share_armed': False})}")
    assert catalogue.overrides_of(apart).k_max is None
    assert catalogue.overrides_of(CatalogueRequest()).k_max is None


def test_the_control_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "capture-hole", "--control", "--clock", "virtual", "--json", "--out", str(tmp_path)]
    assert main(words) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "not-reproduced"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give the name of one reproducer"),
        (("capture-hole", "--all"), "give the name of one reproducer"),
        (("--all", "--control"), "--control goes with one"),
        (("--all", "--arm", "a=http://127.0.0.1:1"), "--arm goes with one"),
    ],
)
def test_flags_that_do_not_go_together(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_profile_that_cannot_run_a_reproducer_is_said_before_the_first_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "REPRODUCERS", {"amplification": REPRODUCERS["amplification"]})
    words = ["--clock", "virtual", "--profile", "h100-llama3.1-8b-eagle", "--out", str(tmp_path)]
    monkeypatch.setattr(catalogue, "load_suite", lambda name: with_options(k_max=9)(load_suite(name)))
    assert main(["reproduce", "--all", *words]) == 2
    assert "--profile h100-llama3.1-8b-eagle: amplification cannot run on it" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def process_of(number: int) -> tuple[int, int]:
    return number, os.getpid()


def refuse_two(number: int) -> int:
    if number == 2:
        raise ValueError("two")
    return number


def test_workers_keep_the_order_and_run_several_jobs_each() -> None:
    seen: list[int] = []
    found = run_jobs(process_of, range(6), 2, lambda count, job, result: seen.append(count))
    assert [number for number, _ in found] == list(range(6))
    assert len({pid for _, pid in found}) <= 2
    assert os.getpid() not in {pid for _, pid in found}
    assert seen == list(range(1, 7))


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_error_ends_all(workers: int) -> None:
    with pytest.raises(ValueError, match="two"):
        run_jobs(refuse_two, range(50), workers, lambda *_: None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_every_worker_without_a_traceback(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "depthgate", "reproduce", "--all", "--clock", "virtual"]
    with subprocess.Popen(
        [*command, "--out", str(tmp_path)], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as started:
        assert started.stderr is not None
        first = started.stderr.readline()
        started.send_signal(number)
        rest = started.stderr.read()  # ends when the last process that holds it has ended
    assert first.startswith("[ 1/")
    assert started.returncode == 130
    assert rest.splitlines()[-1] == "depthgate: interrupted; what was recorded is kept"
    assert "Traceback" not in rest
