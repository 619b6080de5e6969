"""Seals: an unaltered suite is sealed, an altered one is not, and history is kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from suites.locate import find_suite
from suites.model import SuiteError
from suites.seal import SealState, check_seal, seal_path, seal_suite

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(find_suite("quickstart").read_text())
    return path


def test_sealing_then_altering(suite: Path) -> None:
    assert check_seal(suite).state is SealState.UNSEALED
    seal = seal_suite(suite, now=NOON)
    assert seal.sealed_utc == "2026-01-02T12:00:00+00:00"
    assert seal.commit is None
    assert check_seal(suite).state is SealState.SEALED
    suite.write_text("# a comment does not count\n" + suite.read_text())
    assert check_seal(suite).state is SealState.SEALED
    suite.write_text(suite.read_text().replace("0.97", "0.70"))
    status = check_seal(suite)
    assert status.state is SealState.ALTERED
    assert "mine.toml was altered after it was sealed at 2026-01-02T12:00:00+00:00" in status.sentence


def test_sealing_again_keeps_the_first_seal(suite: Path) -> None:
    first = seal_suite(suite, now=NOON)
    assert seal_suite(suite) == first


def test_an_altered_suite_is_resealed_only_by_force_and_the_former_seal_is_kept(suite: Path) -> None:
    first = seal_suite(suite, now=NOON)
    suite.write_text(suite.read_text().replace("0.97", "0.70"))
    with pytest.raises(SuiteError, match="use force"):
        seal_suite(suite)
    second = seal_suite(suite, force=True)
    assert second.sha256 != first.sha256
    assert [item["sha256"] for item in second.history] == [first.sha256]
    assert check_seal(suite).state is SealState.SEALED
    assert check_seal(suite).seal == second


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"sealed_utc": 3}', '{"sealed_utc": "2026-01-01"}', "\0"]
)
def test_a_seal_that_cannot_be_read_is_not_a_seal(suite: Path, text: str) -> None:
    seal_path(suite).write_text(text)
    assert check_seal(suite).state is SealState.ALTERED
    with pytest.raises(SuiteError, match="not a readable seal"):
        seal_suite(suite)
    assert seal_suite(suite, force=True).history == ({"unreadable": text},)


def test_a_status_is_json(suite: Path) -> None:
    assert check_seal(suite).to_json()["seal"] is None
    seal_suite(suite, now=NOON)
    table = json.loads(json.dumps(check_seal(suite).to_json()))
    assert table["state"] == "sealed"
    assert table["seal"]["sealed_utc"] == "2026-01-02T12:00:00+00:00"
