"""The process guard: a command ends with its starter, and with the guard."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engines import process_guard

SAYS_ITS_NUMBER = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
PATIENCE_S = 30.0


def started() -> tuple[subprocess.Popen[str], int]:
    """A guard with a command that sleeps, and the command's process number."""
    guard = subprocess.Popen(
        [sys.executable, process_guard.__file__, "1", sys.executable, "-c", SAYS_ITS_NUMBER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert guard.stdout is not None
    return guard, int(guard.stdout.readline())


def is_over(pid: int) -> bool:
    """Within PATIENCE_S; what init has not reaped yet is over as well."""
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        try:
            with Path(f"/proc/{pid}/stat").open() as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):  # gone before it was opened, or before it was read
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_command_ends_when_its_starter_lets_go() -> None:
    guard, command = started()
    with guard:
        assert guard.stdin is not None
        guard.stdin.close()
        assert is_over(command)
    assert guard.returncode == process_guard.SIGNALLED + signal.SIGTERM


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_the_command_ends_with_a_guard_that_is_killed() -> None:
    guard, command = started()
    with guard:
        os.kill(guard.pid, signal.SIGKILL)
        assert is_over(command)


def test_a_command_that_does_not_exist_is_said() -> None:
    words = [sys.executable, process_guard.__file__, "1", "/nowhere/at-all"]
    done = subprocess.run(words, stdin=subprocess.PIPE, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (127, "/nowhere/at-all: No such file or directory\n")
