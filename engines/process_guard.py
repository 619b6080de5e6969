"""Runs a command in a process group of its own and ends the group with whoever started this.

`python process_guard.py GRACE_S COMMAND…`: stdin is a pipe that the starter holds. When it closes (the
starter stopped, crashed or was killed with SIGKILL) the command gets SIGTERM, and GRACE_S later its group
SIGKILL. Should the guard itself be killed, Linux sends the command SIGTERM. Run by its path, and of the
standard library alone: nothing of this checkout reaches the command.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType

PR_SET_PDEATHSIG = 1  # linux/prctl.h
SIGNALLED = 128  # a shell's exit code for "ended by signal N" is this plus N


def guard(grace_s: float, command: Sequence[str]) -> int:
    """The command's exit code; SIGNALLED + N when a signal ended it, 127 when it cannot be run."""
    for number in (signal.SIGTERM, signal.SIGINT):  # the pipe alone says when it is over
        signal.signal(number, _pass_over)  # a handler, since the command would inherit SIG_IGN
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=_ends_with_its_parent()
        )
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    threading.Thread(target=_end_with_starter, args=(child.pid, grace_s), daemon=True).start()
    # Not reaped yet, so the number of the group cannot be another's: what is left of it can be ended.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    _kill_group(child.pid)
    code = child.wait()
    return code if code >= 0 else SIGNALLED - code


def _ends_with_its_parent() -> Callable[[], object] | None:
    """For the child to call before it becomes the command; None where there is no such thing."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up here: nothing is loaded between fork and exec
    return lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _end_with_starter(pid: int, grace_s: float) -> None:
    while os.read(0, 4096):
        pass
    os.kill(pid, signal.SIGTERM)
    time.sleep(grace_s)
    _kill_group(pid)


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _pass_over(number: int, frame: FrameType | None) -> None:
    return


if __name__ == "__main__":
    sys.exit(guard(float(sys.argv[1]), sys.argv[2:]))
