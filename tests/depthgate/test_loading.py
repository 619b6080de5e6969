"""`depthgate load`: when a client that is flat out is a fault, and when it is what was asked for."""

from __future__ import annotations

from dataclasses import replace

from depthgate.loading import summed_up
from loadgen.lag import client_faults, core_faults
from loadgen.load_command import LoadSettings
from loadgen.records import CellRecord
from reports.load_summary import LoadSummary

FLOOD = LoadSettings("http://x", concurrency=16, requests=480, max_tokens=512)
(LATE,) = client_faults([0.05] * 100, 10.0)
(FULL,) = core_faults(9.9, 10.0)
(STALLED,) = client_faults([0.0] * 99 + [3.0], 10.0)


def cell(*invalid: str) -> CellRecord:
    return CellRecord("load", 16, 0, 0.0, 10.0, clock="wall", invalid=invalid)


def test_streams_without_a_schedule_may_be_the_limit() -> None:
    loaded = summed_up(LoadSummary(), cell(LATE, FULL), FLOOD)
    assert (loaded.faults, loaded.warnings, loaded.exit_code) == ((), (LATE, FULL), 0)
    assert (loaded.figures["invalid"], loaded.figures["client_limited"]) == ([], [LATE, FULL])


def test_a_schedule_must_be_kept() -> None:
    for scheduled in (replace(FLOOD, rate_per_s=4.0), replace(FLOOD, think_s=1.0)):
        loaded = summed_up(LoadSummary(), cell(LATE), scheduled)
        assert (loaded.faults, loaded.warnings, loaded.exit_code) == ((LATE,), (), 4)


def test_a_stall_is_a_fault_of_any_load() -> None:
    loaded = summed_up(LoadSummary(), cell(STALLED, LATE, "no steady state: too short"), FLOOD)
    assert (loaded.faults, loaded.warnings, loaded.exit_code) == ((STALLED,), (LATE,), 4)


def test_one_of_a_thing_is_said_as_one() -> None:
    one = summed_up(LoadSummary(), None, replace(FLOOD, concurrency=1, requests=1))
    assert one.text.splitlines()[0] == "http://x: 1 request over 1 stream"
    assert summed_up(LoadSummary(), None, FLOOD).text.startswith("http://x: 480 requests over 16 streams\n")
