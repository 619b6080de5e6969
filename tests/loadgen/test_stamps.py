"""The kernel's receive stamps: when bytes arrived, not when they were read."""

from __future__ import annotations

import socket
import struct
import sys
import time

import pytest

from loadgen.stamps import ROOM, SO_TIMESTAMPNS, KernelStamps


def stamp(wall_s: float) -> list[tuple[int, int, bytes]]:
    seconds = int(wall_s)
    return [(socket.SOL_SOCKET, SO_TIMESTAMPNS, struct.pack("@ll", seconds, int((wall_s - seconds) * 1e9)))]


def test_a_late_read_is_stamped_with_its_arrival() -> None:
    """Read a tenth of a second late: its stamp lies between the moments just before and after it was sent."""
    if sys.platform != "linux":
        pytest.skip("SO_TIMESTAMPNS is Linux's")
    stamps = KernelStamps(time.monotonic)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as ours,
    ):
        stamps.ask(ours)
        theirs, _ = server.accept()
        with theirs:
            time.sleep(0.05)  # the kernel turns stamps on a moment after they are asked for
            before_s = time.monotonic()
            theirs.send(b"x")
            after_s = time.monotonic()
            time.sleep(0.1)
            _, ancillary, _, _ = ours.recvmsg(10, ROOM)
    if not ancillary:
        pytest.skip("this kernel stamps no TCP reads")
    assert before_s - 1e-3 <= stamps.read_s(ancillary, 0.0) <= after_s + 1e-3
    assert (stamps.lag.reads, stamps.lag.late) == (1, 1)


def test_a_clock_of_ones_own_is_left_alone() -> None:
    ticks = iter(range(100))
    stamps = KernelStamps(lambda: float(next(ticks)))
    assert not stamps.available
    begun_s = stamps.align()
    assert stamps.read_s([], begun_s) == begun_s + 1.0  # the next tick


def test_a_stamp_that_cannot_be_is_not_believed() -> None:
    stamps = KernelStamps(time.monotonic)
    for wall_s in (time.time() + 60, time.time() - 60):  # the wall clock was set meanwhile
        before_s = time.monotonic()
        assert before_s <= stamps.read_s(stamp(wall_s), before_s) <= time.monotonic()
