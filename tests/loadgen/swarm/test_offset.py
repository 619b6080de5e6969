"""Clock offsets out of pings: the midpoint, its error, and what is not told from 0."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loadgen.swarm.offset import DRIFT, OffsetEstimate, Ping


def estimate(*pings: Ping) -> OffsetEstimate:
    made = OffsetEstimate()
    for ping in pings:
        made.add(ping)
    return made


def test_no_ping_says_nothing() -> None:
    assert estimate().at(1.0) is None


def test_the_midpoint_of_the_quickest_ping() -> None:
    slow = Ping(10.0, 115.03, 10.04)  # 10 ms one way, 30 ms back
    quick = Ping(11.0, 116.001, 11.002)
    offset = estimate(slow, quick).at(11.002)
    assert offset is not None
    assert abs(offset.offset_s - 105.0) < 1e-9
    assert abs(offset.error_s - 0.001) < 1e-9
    assert abs(offset.ours(116.001) - 11.001) < 1e-9
    assert offset.theirs(offset.ours(7.0)) == 7.0


def test_an_old_ping_loses_to_a_newer_one_by_the_drift() -> None:
    old, new = Ping(0.0, 50.001, 0.002), Ping(100.0, 150.013, 100.022)
    soon, late = estimate(old, new).at(0.002), estimate(old, new).at(200.0)
    assert soon is not None
    assert late is not None
    assert abs(soon.error_s - 0.001) < 1e-9
    assert abs(late.offset_s - 50.002) < 1e-9
    assert abs(late.error_s - (0.011 + DRIFT * (200.0 - 100.022))) < 1e-9


def test_what_is_not_told_from_0_is_one_clock() -> None:
    found = estimate(Ping(1.0, 1.0009, 1.002)).at(1.002)
    assert found is not None
    assert found.offset_s == 0.0
    assert abs(found.error_s - 0.0011) < 1e-9  # half the round trip, and what was passed over


@given(
    offset_s=st.floats(-1e6, 1e6),
    delays_s=st.lists(st.tuples(st.floats(0, 0.5), st.floats(0, 0.5)), min_size=1, max_size=80),
)
def test_the_truth_is_within_the_error(offset_s: float, delays_s: list[tuple[float, float]]) -> None:
    pings, now_s = [], 100.0
    for there_s, back_s in delays_s:
        pings.append(Ping(now_s, now_s + there_s + offset_s, now_s + there_s + back_s))
        now_s += there_s + back_s
    found = estimate(*pings).at(now_s)
    assert found is not None
    assert abs(found.offset_s - offset_s) <= found.error_s + 1e-9
