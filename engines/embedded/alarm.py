"""One callback at a precise moment of the monotonic clock.

Event loops round timers to milliseconds (epoll's timeout, libuv's timers), a quarter of a 4 ms step. On Linux
a timerfd wakes the loop within some 50 us instead; elsewhere `call_later` has to do.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Protocol

_CLOCK_MONOTONIC = 1
_TIMER_ABSTIME = 1


class Alarm(Protocol):
    """`at(deadline_s)` (time.monotonic) rings once, and replaces an earlier `at`; the past rings at once."""

    def at(self, deadline_s: float) -> None: ...

    def disarm(self) -> None:
        """It does not ring until the next `at`."""

    def close(self) -> None: ...


def make_alarm(loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> Alarm:
    """The most precise alarm that this system has."""
    if sys.platform == "linux":
        return TimerfdAlarm(loop, ring)
    return LoopAlarm(loop, ring)


class LoopAlarm:
    """The event loop's own timer: about a millisecond late."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None

    def at(self, deadline_s: float) -> None:
        self.close()
        self._timer = self._loop.call_later(max(0.0, deadline_s - time.monotonic()), self._ring)

    def disarm(self) -> None:
        self.close()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _TimerSpec(ctypes.Structure):
    """struct itimerspec: a period (none here) and the first expiry."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class TimerfdAlarm:
    """timerfd_create(2), which Python's os module has from 3.13 on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._spec = _TimerSpec(0, 0, 0, 0)  # the kernel copies it at each call
        self._at_spec = ctypes.byref(self._spec)
        self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        loop.add_reader(self._fd, self._expired)

    def at(self, deadline_s: float) -> None:
        spec = self._spec
        spec.value_s, spec.value_ns = divmod(max(1, round(deadline_s * 1e9)), 10**9)
        self._libc.timerfd_settime(self._fd, _TIMER_ABSTIME, self._at_spec, None)

    def disarm(self) -> None:
        self._libc.timerfd_settime(self._fd, _TIMER_ABSTIME, ctypes.byref(_TimerSpec(0, 0, 0, 0)), None)

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _expired(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # set again between expiry and this call
            return
        self._ring()
