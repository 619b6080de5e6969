"""The journal of a server: rows become StepRecords again, files can be switched, a full disk ends it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from governors.telemetry import StepRecord
from governors.vllm_journal import ROWS_HELD, StepJournal, line_of, with_json
from loadgen.journal import read_steps

FULL = Path("/dev/full")


def row(step: int, **more: object) -> dict[str, object]:
    plain: dict[str, object] = {
        field.name: 0 for field in fields(StepRecord) if field.default is not None and field.name != "faults"
    }
    plain |= {
        "step": step,
        "reached_by_position": np.array([3, 1]),
        "accepted_by_position": np.array([1, 0]),
        "graph_mode": "full",
        "reason": "steady",
        "verified": np.int64(4),
        "faults": 0,
        "governor": None,
        "note": None,
        "request_ids": np.array([5, 6]),
        "window_mean": None,
    }
    return plain | more


def made(step: int, **more: object) -> Callable[[], dict[str, object]]:
    return lambda: row(step, **more)


def journal(path: Path | None, said: list[str]) -> StepJournal:
    return StepJournal(path, said.append, flush_s=3600)


def test_rows_are_step_records(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    written = journal(path, [])
    written.append(made(1))
    written.append(made(2, governor="fixed", note="once"))
    written.close()
    records, fault = read_steps(path)
    assert fault is None
    assert [record.step for record in records] == [1, 2]
    assert records[0].request_ids == (5, 6)
    assert records[0].reached_by_position == (3, 1)
    assert (records[0].governor, records[0].window_mean) == (None, None)
    assert (records[1].governor, records[1].note) == ("fixed", "once")


def test_defaults_are_left_out() -> None:
    line = json.loads(line_of(row(1)))
    assert "note" not in line
    assert "window_mean" in line


def test_both_encoders_write_the_same() -> None:
    written = row(3, start_s=0.1 + 0.2, target_s=None, request_ids=np.arange(300), note="é\n")
    line = line_of(written)
    assert line.count(b"\n") == 1
    assert json.loads(line) == json.loads(
        with_json({n: v for n, v in written.items() if n in json.loads(line)})
    )
    assert json.loads(line)["start_s"] == 0.1 + 0.2


def test_switch_goes_on_in_another_file(tmp_path: Path) -> None:
    written = journal(tmp_path / "a", [])
    written.append(made(1))
    written.switch(tmp_path / "b")
    written.append(made(2))
    written.switch(None)
    written.append(made(3))
    written.close()
    assert [len((tmp_path / name).read_text().splitlines()) for name in "ab"] == [1, 1]
    assert written.lost == 0


def test_a_file_that_cannot_be_opened_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        journal(tmp_path / "no" / "steps.jsonl", [])


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_disk_ends_the_journal_once_and_is_counted() -> None:
    said: list[str] = []
    written = journal(FULL, said)
    for step in range(3):
        written.append(made(step))
    written.flush()
    assert not written.open
    written.append(made(3))
    written.close()
    assert written.lost == 4
    assert len(said) == 1
    assert "No space left" in said[0]


def test_a_disk_that_hangs_does_not_fill_the_memory(tmp_path: Path) -> None:
    written = journal(tmp_path / "steps.jsonl", [])
    for step in range(ROWS_HELD + 10):
        written.append(made(step))
    assert written.lost == 10
    written.close()


def test_a_thread_writes_without_being_asked(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    done = threading.Event()

    def last() -> dict[str, Any]:
        done.set()
        return row(1)

    written = StepJournal(path, print, flush_s=0.001)
    written.append(last)
    assert done.wait(timeout=30)
    written.close()
    assert len(path.read_text().splitlines()) == 1
