"""A run that kills itself (SIGKILL) in the middle of its n-th line: any moment, the same one every time.

`python -m tests.depthgate.killed LINES ARGUMENTS...` is `depthgate ARGUMENTS...` that dies so.
"""

from __future__ import annotations

import os
import signal
import sys

import orjson

from depthgate.__main__ import main
from loadgen.journal import Dataclass, Journal


def dying(lines: int) -> None:
    """The journals of this process write `lines` lines in all, and half of the next one."""
    left = lines

    def append(self: Journal, record: Dataclass) -> None:
        nonlocal left
        line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        if left == 0:
            os.write(self._file, line[: len(line) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        os.write(self._file, line)

    Journal.append = append  # type: ignore[method-assign]


if __name__ == "__main__":
    dying(int(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
