"""The kernel's own receive stamp of a read (SO_TIMESTAMPNS), in the clock of the run.

A program that reads late stamps late: 256 streams that answer at once are milliseconds of reading. The
kernel stamps a packet as it arrives, whatever the program does. A read of several carries the last one's.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

from loadgen.lag import LATE_S, ReadLag
from loadgen.reads import Clock

SO_TIMESTAMPNS = 35  # asm-generic/socket.h; Python names it from 3.15 on
ROOM = 64  # bytes of ancillary data: a timespec and its header
KNOWN = (time.perf_counter, time.monotonic)  # CLOCK_MONOTONIC, which wall-clock time runs parallel to

_seconds_and_nanoseconds = struct.Struct("@ll").unpack


class KernelStamps:
    """Turns a read's ancillary data into seconds of `clock`; the clock itself where there is no stamp.

    Wall-clock time can be set while a load runs: `align` before each request, and a stamp outside what is
    possible is not believed.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.available = sys.platform == "linux" and clock in KNOWN
        self._offset_s = 0.0
        self._reads = self._late = 0
        self.align()

    @property
    def lag(self) -> ReadLag:
        """How late stamped reads were taken so far."""
        return ReadLag(self._reads, self._late)

    def ask(self, on: socket.socket) -> None:
        """From now on reads of the socket carry stamps, if the kernel gives them."""
        if self.available:
            try:
                on.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            except OSError:
                self.available = False

    def align(self) -> float:
        """Measures how far wall-clock time is ahead of the run's clock; returns now, in the latter."""
        before_s, wall_s, after_s = self._clock(), time.time(), self._clock()
        self._offset_s = wall_s - (before_s + after_s) / 2
        return after_s

    def read_s(self, ancillary: list[tuple[int, int, bytes]], not_before_s: float) -> float:
        """When a read's last packet arrived, `not_before_s` .. now.

        not_before_s   the stamp of the read before it, or what `align` returned before the request
        """
        now_s = self._clock()
        if not ancillary:
            return now_s
        seconds, nanoseconds = _seconds_and_nanoseconds(ancillary[0][2])
        stamp_s: float = seconds - self._offset_s + nanoseconds * 1e-9
        if not not_before_s <= stamp_s <= now_s:
            return now_s
        self._reads += 1
        if now_s - stamp_s > LATE_S:
            self._late += 1
        return stamp_s
