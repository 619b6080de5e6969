"""`depthgate profile` end to end on the embedded engine, whose costs are known; and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from depthgate.__main__ import main
from depthgate.profiling import Words, answer_tokens
from engines.embedded.governor_profile import governor_profile
from engines.embedded.profile import load_profile
from governors.profile import Profile
from tests.depthgate.cli import refusal

pytestmark = pytest.mark.http

ENGINE = "h100-llama3.1-8b-eagle"  # no graph penalties and no host drift: a step costs what the model says


def test_served_steps_give_the_model_s_own_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "h100.json"
    grid = ["--depths", "1,2", "--batches", "1,4", "--steps", "6", "--rounds", "1"]
    assert main(["profile", "--profile", ENGINE, *grid, "--hardware", "test", "--out", str(path)]) == 0
    profile = Profile.from_mapping(json.loads(path.read_text()))
    assert profile.is_model
    assert profile.binding.drafter_class == "eagle"
    model = governor_profile(load_profile(ENGINE))
    for batch, row in zip(profile.batches, profile.step_s, strict=True):
        for depth, seconds in zip(profile.depths, row, strict=True):
            known = model.step_s[model.batches.index(batch)][model.depths.index(depth)]
            assert seconds == pytest.approx(known, rel=0.1)  # other contexts than the table's reference
    assert "a model, not a measurement" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--depths", "1;2"], "--depths 1;2: write whole numbers from 0 to 1000000 with commas"),
        (["--batches", "0,1"], "--batches 0,1: write whole numbers from 1 to"),
        (["--steps", "3"], "--steps 3: a median needs 5 or more"),
        (["--rounds", "0"], "--rounds: '0' must be a whole number from 1 to 1000"),
        (["--batches", "1,99999999"], "--batches 1,99999999: write whole numbers from 1 to 1000000"),
        (
            ["--batches", "1,257"],
            "--batches 257: the engine runs 256 requests at once (max_num_seqs); lower it",
        ),
        (["--context", "9999999"], "--context 9999999: write whole numbers from 1 to 1000000"),
        (
            ["--context", "96,4000"],
            "--context 4000: with its answer of --steps 20 a request has 5140 tokens",
        ),
        (
            ["--steps", "9999"],
            "--context 96: with its answer of --steps 9999 a request has 50155 tokens, ",
        ),
        (["--depths", "9" * 5000], "write whole numbers from 0 to 1000000 with commas"),
        (["--depths", "99999"], "k_max = 99999: must be at most 1000"),
        (["--engine", 'vllm:{"model": "m", "max_num_seqs": 4}'], "--batches 16: the engine runs 4 requests"),
        (["--engine", "http://127.0.0.1:1"], "step records are needed"),
        (["--engine", "vlm"], "--engine vlm: not known"),
        (["--profile", "nope"], "nope"),
        (["--out", "/no/such/folder/p.json"], "no such folder; make it first"),
    ],
)
def test_bad_input(flags: list[str], words: str, tmp_path: Path) -> None:
    assert words in refusal("profile", "--out", str(tmp_path / "p.json"), *flags)


def test_prompts_are_as_long_as_asked_for_and_never_alike() -> None:
    streams = [Words(24, 8).stream(index) for index in range(3)]
    texts = [next(stream).text for stream in streams for _ in range(3)]
    assert {len(text.split()) for text in texts} == {24}
    assert len(set(texts)) == 9
    assert answer_tokens(steps=20, depth=4) == 140
