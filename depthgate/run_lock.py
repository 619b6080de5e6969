"""One process a run folder: a lock that its holder's death sets free, with the holder's pid to be named."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from depthgate.exits import UsageError

FILE = "run.lock"


@contextmanager
def run_lock(run_dir: Path) -> Iterator[None]:
    """Raises UsageError, with its pid, when another process works on the folder.

    A file system without locks locks nothing.
    """
    path = run_dir / FILE
    with path.open("a+b", buffering=0) as file:  # nothing is left to be written when it closes
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise _held(run_dir, file.read().decode().strip()) from None
        except OSError:
            yield
            return
        if os.fstat(file.fileno()).st_nlink == 0:  # its holder has just ended and taken the file along
            raise _held(run_dir, "")
        with suppress(OSError):  # a full disk keeps no pid; the lock holds
            file.truncate(0)
            file.write(f"{os.getpid()}\n".encode())
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _held(run_dir: Path, pid: str) -> UsageError:
    return UsageError(f"{run_dir}: process {pid or 'unknown'} is working on it; wait for it, or end it first")
