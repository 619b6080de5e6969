"""Machine samples: shares of all cores from tick counters; unknown stays None."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import depthgate.machine as machine


def test_shares_come_from_the_difference_of_two_readings() -> None:
    before = {"user": 100, "system": 0, "idle": 100, "iowait": 0, "steal": 0}
    after = {"user": 130, "system": 10, "idle": 150, "iowait": 0, "steal": 10}
    taken = machine.sample(before, after)
    assert taken["cpu_busy"] == 0.5
    assert taken["cpu_steal"] == 0.1


def test_no_reading_is_unknown_and_not_zero() -> None:
    taken = machine.sample(None, None)
    assert taken["cpu_busy"] is None
    assert taken["cpu_steal"] is None


def test_an_unmoved_counter_divides_by_nothing() -> None:
    ticks = {"user": 1, "idle": 1, "iowait": 0, "steal": 0}
    assert machine.sample(ticks, ticks)["cpu_busy"] is None


def test_sampler_writes_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "SAMPLE_PERIOD_S", 0.01)
    path = tmp_path / "machine.jsonl"
    with machine.MachineSampler(path):
        while not path.exists() or path.read_text().count("\n") < 2:
            pass
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows[0]["time_s"] <= rows[1]["time_s"]


def test_a_full_disk_ends_the_samples_not_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "SAMPLE_PERIOD_S", 0.01)
    with machine.MachineSampler(tmp_path / "absent" / "machine.jsonl"):
        pass


def test_description_names_no_host_or_user() -> None:
    described = machine.describe_machine()
    assert set(described) == {"cpu", "cores", "memory_bytes", "system", "python", "accelerators"}
