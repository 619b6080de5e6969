"""Runs a command in a process group of its own and ends the group with whoever started this.

`python process_guard.py GRACE_S COMMAND…`: stdin is a pipe that the starter holds. When it closes (the
starter stopped, crashed or was killed with SIGKILL) the command gets SIGTERM, and GRACE_S later its group
SIGKILL. Run by its path, and of the standard library alone: nothing of this checkout reaches the command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType

SIGNALLED = 128  # a shell's exit code for "ended by signal N" is this plus N


def guard(grace_s: float, command: Sequence[str]) -> int:
    """The command's exit code; SIGNALLED + N when a signal ended it, 127 when it cannot be run."""
    for number in (signal.SIGTERM, signal.SIGINT):  # the pipe alone says when it is over
        signal.signal(number, _pass_over)  # a handler, since the command would inherit SIG_IGN
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    threading.Thread(target=_end_with_starter, args=(child.pid, grace_s), daemon=True).start()
    # Not reaped yet, so the number of the group cannot be another's: what is left of it can be ended.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    _kill_group(child.pid)
    code = child.wait()
    return code if code >= 0 else SIGNALLED - code


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
