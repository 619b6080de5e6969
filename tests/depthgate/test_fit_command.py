"""`depthgate fit` from a run folder and from bare journals; bad input is one line and exit code 2."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from depthgate.__main__ import main
from depthgate.fitting import remarks
from engines.embedded.governor_profile import governor_profile
from engines.embedded.profile import load_profile
from governors.profile import Profile
from governors.vllm_settings import read_profile
from loadgen.journal import Journal
from suites.canonical import content
from suites.parse import load_suite
from tests.depthgate.cli import refusal
from tests.reports.test_step_fit import virtual_steps

BINDING = ["--hardware", "abacus", "--model", "tiny", "--drafter-class", "eagle", "--engine-version", "none"]


def journal(path: Path, spoil: str = "") -> Path:
    with Journal(path) as file:
        for step in virtual_steps():
            file.append(step)
    if spoil:
        with path.open("a") as file_text:
            file_text.write(spoil)
    return path


def run_folder(path: Path, manifest: Mapping[str, object]) -> Path:
    (path / "steps").mkdir(parents=True)
    journal(path / "steps" / "fixed.r0.jsonl")
    (path / "manifest.json").write_text(json.dumps(manifest))
    return path


MODELLED = {"is_model": True, "profile": "h200-qwen3-4b-eagle", "drafter_class": "eagle"}
MEASURED = {
    "is_model": False,
    "engine": "vllm 0.26.0",
    "drafter_class": "eagle",
    "machine": {"accelerators": ["H200"]},
}


def test_a_journal_becomes_a_profile_that_vllm_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, page = tmp_path / "p.toml", tmp_path / "p.html"
    steps = journal(tmp_path / "steps.jsonl")
    assert main(["fit", str(steps), *BINDING, "--out", str(out), "--page", str(page), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["held_out_p90_abs_error"] < 0.05
    assert said["constants"]["overhead_full_s"]["seconds"] == pytest.approx(5e-3, rel=0.02)
    assert said["constants"]["overhead_none_s"]["seconds"] is None
    assert "never happened" in said["constants"]["overhead_none_s"]["why"]
    profile = read_profile(out)
    assert profile is not None
    assert profile.binding.target_model == "tiny"
    assert not profile.is_model
    assert "Residuals" in page.read_text()


def test_what_governors_cannot_do_with_a_profile_is_said() -> None:
    plain = governor_profile(load_profile("h200-qwen3-4b-eagle"))
    assert list(remarks(plain)) == []
    flat = replace(plain, verify_s=(0.004,) * len(plain.verify_s))
    (said,) = remarks(flat)
    assert "dspark policies verify every draft (reason no-model)" in said


def test_a_modelled_run_is_bound_as_its_profile(tmp_path: Path) -> None:
    run, out = run_folder(tmp_path / "run", MODELLED), tmp_path / "p.json"
    assert main(["fit", str(run), "--out", str(out)]) == 0
    profile = Profile.from_mapping(json.loads(out.read_text()))
    assert profile.binding == load_profile("h200-qwen3-4b-eagle").binding
    assert profile.is_model


def test_a_measured_run_needs_what_its_manifest_lacks(tmp_path: Path) -> None:
    run, out = run_folder(tmp_path / "run", MEASURED), tmp_path / "p.toml"
    assert "target_model is not known from the records; add --model" in refusal(
        "fit", str(run), "--out", str(out)
    )
    assert main(["fit", str(run), "--model", "Qwen3-4B", "--out", str(out)]) == 0
    binding = tomllib.loads(out.read_text())["binding"]
    assert binding == {
        "hardware": "H200",
        "target_model": "Qwen3-4B",
        "drafter_class": "eagle",
        "engine_version": "vllm 0.26.0",
    }


def test_a_model_is_bound_by_its_name_as_profile_binds_it(tmp_path: Path) -> None:
    """A folder's path holds on one machine alone."""
    suite = replace(load_suite("vllm-cpu-smoke"), repeats=1)
    run = run_folder(tmp_path / "run", {**MEASURED, "suite": content(suite)})
    out = tmp_path / "p.toml"
    assert main(["fit", str(run), "--out", str(out)]) == 0
    assert tomllib.loads(out.read_text())["binding"]["target_model"] == "target"


def test_mixed_bindings_are_refused(tmp_path: Path) -> None:
    one = run_folder(tmp_path / "one", MODELLED)
    other = run_folder(tmp_path / "other", {**MODELLED, "profile": "h100-llama3.1-8b-eagle"})
    words = refusal("fit", str(one), str(other), "--out", str(tmp_path / "p.toml"))
    assert "a profile holds for one; fit them apart" in words


def test_modelled_and_measured_are_not_mixed(tmp_path: Path) -> None:
    one = run_folder(tmp_path / "one", {**MEASURED, "drafter_class": None, "engine": None, "machine": {}})
    other = run_folder(tmp_path / "other", {"is_model": True, "profile": "none such"})
    words = refusal("fit", str(one), str(other), *BINDING, "--out", str(tmp_path / "p.toml"))
    assert "some runs are modelled and some measured" in words


def test_a_flag_against_the_manifest_is_refused(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", MODELLED)
    words = refusal("fit", str(run), "--drafter-class", "mtp", "--out", str(tmp_path / "p.toml"))
    assert "--drafter-class mtp: the manifest says 'eagle'" in words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no step record"),
        ('{"step": 0, "star', "cut off the torn line"),
        ("not json at all\n", "steps.jsonl"),
    ],
)
def test_journals_that_cannot_be_read(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text(text)
    assert words in refusal("fit", str(path), *BINDING, "--out", str(tmp_path / "p.toml"))


def test_a_torn_last_line_is_refused(tmp_path: Path) -> None:
    path = journal(tmp_path / "steps.jsonl", spoil='{"step": 9, "start_s": 1')
    assert "cut off the torn line" in refusal("fit", str(path), *BINDING, "--out", str(tmp_path / "p.toml"))


def test_one_batch_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    with Journal(path) as file:
        for step in virtual_steps():
            if step.batch:
                file.append(replace(step, batch=2))
    words = refusal("fit", str(path), *BINDING, "--out", str(tmp_path / "p.toml"))
    assert "every step decodes 2 requests: one batch size fits no cost" in words


def test_impossible_times_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    with Journal(path) as file:
        for step in virtual_steps():
            file.append(replace(step, end_s=step.start_s - 1))
    words = refusal("fit", str(path), *BINDING, "--out", str(tmp_path / "p.toml"))
    assert "holds times or counts that cannot be" in words


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["/no/such", "--out", "p.toml"], "/no/such: no such file"),
        (["x", "--out", "p.txt"], "--out p.txt: end it in .toml or .json"),
        (["x", "--out", "/no/such/p.toml"], "no such folder; make it first"),
    ],
)
def test_bad_flags(flags: list[str], words: str) -> None:
    assert words in refusal("fit", *flags)


def test_an_arm_that_is_not_there(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", MODELLED)
    words = refusal("fit", str(run), "--arm", "nope", "--out", str(tmp_path / "p.toml"))
    assert "no step records of nope; there are: fixed" in words


def test_a_page_in_the_profile_s_place_is_refused(tmp_path: Path) -> None:
    steps, out = journal(tmp_path / "steps.jsonl"), tmp_path / "p.toml"
    page = tmp_path / ".." / tmp_path.name / "p.toml"
    said = refusal("fit", str(steps), *BINDING, "--out", str(out), "--page", str(page))
    assert "would overwrite the profile" in said
    assert not out.exists()
    assert "is a folder; name a file" in refusal(
        "fit", str(steps), *BINDING, "--out", str(out), "--page", str(tmp_path)
    )


def test_steps_given_twice_count_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise what is held out of one copy is fitted in the other."""
    steps, found = journal(tmp_path / "steps.jsonl"), []
    copy = journal(tmp_path / "copy.jsonl")
    for sources in ([steps], [steps, copy, steps]):
        main(["fit", *map(str, sources), *BINDING, "--out", str(tmp_path / "p.json"), "--json"])
        said = capsys.readouterr()
        found.append(json.loads(said.out))
    assert found[0] == found[1]
    assert said.err.count("counted once") == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"kv_blocks_free": 9, "kv_blocks_total": 8},
        {"kv_blocks_free": -1},
        {"reached_by_position": (-5, 3)},
        {"accepted_by_position": (-3, 1)},
    ],
)
def test_impossible_counts_are_refused(tmp_path: Path, wrong: Mapping[str, object]) -> None:
    path = tmp_path / "steps.jsonl"
    with Journal(path) as file:
        for step in virtual_steps():
            file.append(replace(step, **wrong))  # type: ignore[arg-type]
    assert "counts that cannot be" in refusal("fit", str(path), *BINDING, "--out", str(tmp_path / "p.toml"))


def test_one_depth_alone_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "steps.jsonl"
    with Journal(path) as file:
        for step in virtual_steps(depths=(2,)):
            file.append(step)
    assert main(["fit", str(path), *BINDING, "--out", str(tmp_path / "p.toml")]) == 0
    assert "the steps hold K=2 alone, so that no policy can choose" in capsys.readouterr().err
