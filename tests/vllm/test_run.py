"""`depthgate run`, `reproduce` and `profile` against real vLLM, as a user types them."""

from __future__ import annotations

import asyncio
import json
import tomllib
from pathlib import Path

import pytest

from depthgate import catalogue_jobs
from depthgate.__main__ import main
from engines.contract import EngineRequest
from engines.vllm_switch import FLUSH_S
from governors.profile import Profile
from governors.telemetry import StepRecord
from loadgen.journal import read_steps
from reports.judge import judge_run
from reproducers.registry import REPRODUCERS
from tests.vllm.live import LiveVllm, ask

RULED = {
    0,
    1,
    3,
    4,
}  # a shared machine may well be called too busy to judge: the records are what counts here


def only_run(out: Path) -> Path:
    (run,) = out.iterdir()
    return run


def decoding(path: Path) -> list[StepRecord]:
    """Steps in which nothing but decoding went on, with drafts in hand as chosen before."""
    records, torn = read_steps(path)
    assert torn is None
    return [record for record in records if record.batch and not record.prefill_requests]


def test_the_smoke_suite_serves_every_arm(lent: LiveVllm, tmp_path: Path) -> None:
    assert main(["run", "vllm-cpu-smoke", "--out", str(tmp_path)]) in RULED
    run = only_run(tmp_path)
    judgement = judge_run(run)
    assert judgement.engine == "vLLM 0.32.0 (CPU)"
    assert not judgement.is_model
    assert judgement.partial == ()
    assert {cell.arm for cell in judgement.cells} == {"off", "fixed_0", "fixed_4", "schedule"}
    assert all(set(cell.requests) == {"done"} for cell in judgement.cells)
    assert all(cell.points["tokens_per_s"] > 0 for cell in judgement.cells)
    assert (run / "report.html").stat().st_size > 0
    length = {(cell.arm, cell.concurrency): cell.points.get("acceptance_length") for cell in judgement.cells}
    assert length["fixed_0", 4] == 1
    assert length["fixed_4", 1] is not None
    assert length["fixed_4", 1] > 1.5


def test_the_arms_ran_what_they_are_named_for(lent: LiveVllm, tmp_path: Path) -> None:
    assert main(["run", "vllm-cpu-smoke", "--out", str(tmp_path)]) in RULED
    steps = only_run(tmp_path) / "steps"
    for repeat in range(2):
        assert {step.depth_executed for step in decoding(steps / f"off.r{repeat}.jsonl")} == {0}
        assert {step.depth_executed for step in decoding(steps / f"fixed_0.r{repeat}.jsonl")} == {0}
        assert {step.depth_chosen for step in decoding(steps / f"fixed_4.r{repeat}.jsonl")} == {4}
        schedule = decoding(steps / f"schedule.r{repeat}.jsonl")
        assert {(step.batch > 2, step.depth_chosen) for step in schedule} == {(True, 0), (False, 4)}
        assert {step.governor for step in schedule} == {"schedule"}
        assert not any(step.faults for step in schedule)


def test_policies_are_applied_in_real_vllm(
    lent: LiveVllm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["reproduce", "policy-not-applied", "--engine", "vllm", "--repeats", "2", "--json"]
    code = main([*command, "--out", str(tmp_path)])
    said = json.loads(capsys.readouterr().out)
    assert (code, said["verdict"]) in {(1, "not-reproduced"), (4, "invalid")}  # invalid: the load was late
    assert said["evidence"][0].startswith("refuted: fixed K=0: another K ran than was chosen: in 0% to 0%")
    assert not said["is_model"]


def test_the_catalogue_goes_through_and_says_what_means_nothing_here(
    lent: LiveVllm, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {name: REPRODUCERS[name] for name in ("bistable", "drafter-starvation")}
    monkeypatch.setattr(catalogue_jobs, "REPRODUCERS", chosen)
    command = ["reproduce", "--all", "--engine", "vllm", "--repeats", "2", "--max-tokens", "24", "--json"]
    assert main([*command, "--out", str(tmp_path)]) in RULED
    bistable, starvation = json.loads(capsys.readouterr().out)
    assert bistable["verdict"] == "inconclusive"
    assert bistable["evidence"][0].startswith("not run: its cause lies in captured graphs")
    assert starvation["verdict"] != "reproduced"  # vLLM runs the drafter's forward at K=0
    assert "did not run" not in starvation["evidence"][0]
    run = only_run(tmp_path) / "drafter-starvation"
    assert {step.depth_chosen for step in decoding(run / "steps" / "pulse.r0.jsonl")} == {0, 3}


def test_profile_measures_served_steps_and_governors_take_it(
    lent: LiveVllm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tiny.json"
    grid = ["--depths", "0,2,4", "--batches", "1,4", "--steps", "10", "--rounds", "2", "--context", "24"]
    assert main(["profile", "--engine", "vllm", *grid, "--hardware", "test", "--out", str(path)]) == 0
    profile = Profile.from_mapping(json.loads(path.read_text()))
    assert (profile.batches, profile.depths) == ((1, 4), (0, 2, 4))
    assert profile.binding.drafter_class == "draft_model"
    assert profile.binding.engine_version == "vLLM 0.32.0 (CPU)"
    assert not profile.is_model
    assert all(seconds > 0 for row in profile.step_s for seconds in row)
    assert profile.verify_tokens == (1, 3, 4, 5, 12, 20)
    assert profile.draft_s is not None
    assert 0.3 < profile.acceptance[0] < 1.0
    assert "medians of served steps" in profile.source
    assert "profile: " in capsys.readouterr().out
    for governor in ("goodput_table", "dspark_argmax"):
        reasons = reasons_of(lent, governor, path, tmp_path / f"{governor}.jsonl")
        assert reasons
        assert "no-model" not in reasons


def test_a_fit_of_served_steps_is_a_profile_that_governors_take(lent: LiveVllm, tmp_path: Path) -> None:
    """Two depths, so that there is something to choose."""
    assert main(["run", "vllm-cpu-smoke", "--out", str(tmp_path / "out")]) in RULED
    path = tmp_path / "fitted.toml"
    arms = ["--arm", "fixed_0", "--arm", "fixed_4"]
    assert main(["fit", str(only_run(tmp_path / "out")), *arms, "--out", str(path)]) == 0
    profile = Profile.from_mapping(tomllib.loads(path.read_text()))
    assert profile.depths == (0, 4)
    assert profile.binding.target_model == "target"
    assert profile.binding.drafter_class == "draft_model"
    reasons = reasons_of(lent, "goodput_table", path, tmp_path / "steps.jsonl")
    assert reasons
    assert "no-model" not in reasons  # dspark's may be: on a noisy machine a verified token may seem free


def reasons_of(live: LiveVllm, governor: str, profile: Path, steps: Path) -> set[str]:
    """Reasons of a policy's decisions in a server that it was switched to, with a profile."""

    async def serve() -> None:
        async with live.engine.serve(EngineRequest("t", "fixed", {"depth": 4})) as endpoint:
            switch = next(item.switch for kind, item in live.engine.running.items() if kind.armed)
            await switch.to(governor, {}, profile, steps)
            await ask(endpoint, "now decide", 60)
            await asyncio.sleep(FLUSH_S)

    live.run(serve())
    return {step.reason for step in decoding(steps)[2:]}
