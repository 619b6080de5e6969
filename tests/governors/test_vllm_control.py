"""The control file: followed at once, answered beside it, and never fatal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from governors.contract import DepthLimits
from governors.vllm_control import ControlFile
from governors.vllm_engine import VllmFacts
from governors.vllm_gate import Gate
from governors.vllm_settings import Settings
from tests.governors.vllm_fakes import FakeRequest, FakeWorker, drive, governed_fake

FACTS = VllmFacts(
    limits=DepthLimits(4, 8),
    method="eagle",
    stock=(0, 4, 4, 4, 4, 3, 2, 1, 0),
    asynchronous=False,
    runner_v2=False,
    trims=True,
    workers_here=True,
    data_parallel=1,
)


def ask(path: Path, what: object) -> None:
    part = path.with_suffix(".part")
    part.write_text(what if isinstance(what, str) else json.dumps(what))
    part.replace(path)


def answer(path: Path) -> Any:
    return json.loads(Path(f"{path}.ack").read_text())


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(FACTS, Settings("fixed", {"depth": 4}), lambda _: None)


def control(path: Path, gate: Gate) -> ControlFile:
    return ControlFile(path, gate.switch)


def test_a_change_is_followed_once_and_answered(tmp_path: Path) -> None:
    path, asked = tmp_path / "control", list[Mapping[str, object]]()

    def apply(what: Mapping[str, object]) -> Mapping[str, object]:
        asked.append(what)
        return {"governor": "fixed"}

    file = ControlFile(path, apply)
    assert not file.poll()
    ask(path, {"id": 7, "governor": "fixed"})
    assert file.poll()
    assert not file.poll()
    assert asked == [{"id": 7, "governor": "fixed"}]
    assert answer(path) == {"id": 7, "error": None, "governor": "fixed"}


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("{", "is no JSON"),
        ("[]", "give an object"),
        ({"id": 3, "govenor": "off"}, "'govenor' is not known"),
        ({"id": 3, "governor": "fixt"}, "did you mean 'fixed'"),
        ({"id": 3, "governor": "fixed", "options": {"depth": 9}}, "k_max=4"),
        ({"id": 3, "governor": "fixed", "options": 4}, "an object"),
        ({"id": 3, "governor": 4}, "give a name or null"),
        ({"id": 3, "governor": "off"}, "fixed with depth=0"),
        ({"id": 3, "governor": "dspark", "profile": "/nowhere"}, "give the JSON file of a profile"),
        ({"id": 3, "governor": None, "steps": "/nowhere/steps"}, "No such file"),
        ({"id": 3, "governor": None, "telemetry": "off"}, "telemetry='off': give 1 or 0"),
    ],
)
def test_what_cannot_be_followed_changes_nothing(
    what: object, error: str, tmp_path: Path, gate: Gate
) -> None:
    path = tmp_path / "control"
    before = gate.seat.sitter
    ask(path, what)
    control(path, gate).poll()
    assert error in answer(path)["error"]
    gate.begin()
    assert gate.seat.sitter is before


def test_the_next_step_obeys(tmp_path: Path, gate: Gate) -> None:
    path, steps = tmp_path / "control", tmp_path / "steps.jsonl"
    scheduler = governed_fake(False, gate, 4)
    drive(scheduler, FakeWorker(), [FakeRequest("before", 10, 20)])
    ask(path, {"id": 1, "governor": "fixed", "options": {"depth": 0}, "steps": str(steps)})
    control(path, gate).poll()
    assert answer(path) == {
        "id": 1,
        "error": None,
        "governor": "fixed",
        "options": {"depth": 0},
        "warnings": [],
    }
    drive(scheduler, FakeWorker(), [FakeRequest("after", 10, 20)])
    gate.close()
    written = [json.loads(line) for line in steps.read_text().splitlines()]
    assert len(written) == 20  # a prompt, then a token a step
    assert {row["depth_chosen"] for row in written} == {0}


def test_a_switch_forgets_the_faults_of_the_one_before(gate: Gate) -> None:
    gate.seat.fault("decide", ValueError("broken"))
    gate.switch({"governor": None})
    assert gate.seat.faults == 1
    gate.begin()
    assert gate.seat.faults == 0


def test_telemetry_can_be_switched(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    gate = Gate(FACTS, Settings(steps=path), lambda _: None)
    scheduler = governed_fake(False, gate, 4)
    for telemetry in (False, True, False):
        gate.switch({"governor": None, "telemetry": telemetry})
        drive(scheduler, FakeWorker(), [FakeRequest(f"{telemetry}", 10, 20)])
    gate.close()
    numbers = [json.loads(line)["step"] for line in path.read_text().splitlines()]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert numbers[0] > 0
