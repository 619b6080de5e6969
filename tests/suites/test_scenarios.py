"""The bundled scenarios: each is sealed, asks one question of three kinds of arm, and runs as its golden run.

A golden run (tests/golden/scenarios/NAME.json) is the first repeat of every cell in virtual time, as whole
numbers: requests, tokens, steps, preemptions, and what K did. After a change that is meant to change it:
`python -m tests.suites.scenario_runs [NAME ...]`, and the diff is the review.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from suites.locate import find_suite
from suites.parse import load_suite
from suites.seal import SealState, check_seal
from tests.suites.scenario_runs import GOLDEN, SCENARIOS, cell, fingerprint, golden_path

PAGE = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_runs_as_its_golden_run_did(name: str) -> None:
    golden = json.loads(golden_path(name).read_text(encoding="utf-8"))
    assert fingerprint(load_suite(name)) == golden


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_sealed_and_asks_one_question_of_three_kinds_of_arm(name: str) -> None:
    suite = load_suite(name)
    assert check_seal(find_suite(name)).state is SealState.SEALED
    assert suite.question.endswith("?")
    assert (suite.baseline.name, suite.baseline.governor) == ("off", "off")
    governors = {arm.governor for arm in suite.arms}
    assert "fixed" in governors
    assert governors - {"off", "fixed"}
    metrics = {budget.metric for budget in suite.budgets}
    assert metrics >= {"tokens_per_s", "itl_p95_s", "switches_per_1k_steps"}
    assert f"`{name.removeprefix('scenario-')}`" in PAGE


def test_every_golden_run_is_of_a_scenario() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(SCENARIOS)


def test_another_seed_is_another_run() -> None:
    """A fingerprint that could not differ would guard nothing."""
    suite = load_suite("scenario-prefill-burst")
    golden = json.loads(golden_path(suite.name).read_text(encoding="utf-8"))
    assert cell(replace(suite, seed=suite.seed + 1), suite.arms[1], 8) != golden["cells"]["fixed_2/c8"]
