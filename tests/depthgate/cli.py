"""The command line as its users call it: a process, its streams and its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from depthgate.__main__ import main

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that ended."""

    code: int
    out: str
    err: str


def depthgate(*arguments: str | Path, cwd: Path | None = None, timeout_s: float = 240.0) -> Finished:
    """Run a verb in a process of its own, from `cwd`."""
    command = [sys.executable, "-m", "depthgate", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=cwd or ROOT, timeout=timeout_s, env=environment
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def refusal(*arguments: str | Path) -> str:
    """The one line of a usage error, asked for in this process: exit code 2, one line, no traceback."""
    said = StringIO()
    with redirect_stderr(said), redirect_stdout(StringIO()):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as refused:  # what the parser says
            code = int(refused.code or 0)
    assert code == 2, said.getvalue()
    lines = [line for line in said.getvalue().splitlines() if line.strip()]
    assert len(lines) == 1, said.getvalue()
    return lines[0]
