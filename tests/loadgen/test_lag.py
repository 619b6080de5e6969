"""When the load generator itself is to blame."""

from __future__ import annotations

import asyncio

from loadgen.lag import LoopLag, ReadLag, client_faults, client_saturated, core_faults, send_faults


def test_a_loop_that_keeps_up_has_no_faults() -> None:
    assert client_faults([], 1.0) == ()
    assert client_faults([0.001] * 100, 1.0) == ()
    assert client_faults([0.0] * 99 + [0.04], 1.0) == ()  # one stall of 4 % of the cell


def test_a_loop_that_is_always_late_was_saturated() -> None:
    (fault,) = client_faults([0.03] * 100, 10.0)
    assert fault.startswith(
        "the load generator was saturated: its loop woke 30 ms late at p95; spread the load"
    )


def test_one_long_stall_is_named() -> None:
    (fault,) = client_faults([0.0] * 99 + [0.5], 5.0)
    assert fault == "the load generator stalled for 0.50 s of 5.00 s; is the machine shared?"


def test_in_a_short_load_a_stall_and_a_loop_that_is_flat_out_look_alike() -> None:
    (fault,) = client_faults([0.0] * 99 + [0.03], 0.2)
    assert fault.startswith("the load generator was saturated for 30 ms of 200 ms; spread the load")
    assert client_saturated(fault)


def test_probes_measure_how_late_the_loop_woke() -> None:
    now_s = iter([0.0, 0.05, 1.0, 1.5, 2.0, 2.5])

    async def run() -> float | None:
        lag = LoopLag(lambda: next(now_s))
        async with lag.watching():
            await asyncio.sleep(0.03)  # one probe: slept from 0.0 to 0.05 by its clock, 0.02 was asked for
        return lag.worst_s

    worst_s = asyncio.run(run())
    assert worst_s is not None
    assert worst_s >= 0.03 - 1e-12


def test_a_loop_without_time_to_spare_was_saturated() -> None:
    assert core_faults(0.99, 0.99) == ()  # too short to say
    assert core_faults(9.4, 10.0) == ()
    (fault,) = core_faults(9.7, 10.0)
    assert fault.startswith("the load generator was saturated: it used 97% of a core; spread the load")
    assert client_saturated(fault)


def test_requests_that_leave_late_were_not_the_load_that_was_asked_for() -> None:
    assert send_faults([]) == ()
    assert send_faults([0.0] * 95 + [1.0] * 5) == ()  # p95 lies between the two groups, at 0.05 s
    (fault,) = send_faults([0.0] * 90 + [0.2] * 10)
    assert fault.startswith(
        "the load generator was saturated: requests left 200 ms after they were due at p95"
    )
    assert not client_saturated("the load generator stalled for 1.00 s of 2.00 s; is the machine shared?")


def test_reads_that_were_taken_late_are_said_and_too_many_are_a_fault() -> None:
    assert (ReadLag().notes(), ReadLag().faults()) == ((), ())
    assert ReadLag(1000, 2).notes() == ()
    (note,) = ReadLag(1000, 12).notes()
    assert note.startswith("the load generator took 1.2% of reads more than 20 ms after they had come")
    assert ReadLag(1000, 50).faults() == ()
    (fault,) = ReadLag(1000, 60).faults()
    assert client_saturated(fault)
    assert "6% of reads were taken more than 20 ms late" in fault


def test_a_stall_too_short_to_be_a_fault_is_said() -> None:
    lag = LoopLag(lambda: 0.0)
    lag.late_s = [0.0] * 400 + [0.02]
    assert (lag.notes(), lag.faults(8.0)) == ((), ())
    lag.late_s.append(0.13)
    (note,) = lag.notes()
    assert note.startswith("the load generator's loop woke 130 ms late at worst")
    assert lag.faults(8.0) == ()
