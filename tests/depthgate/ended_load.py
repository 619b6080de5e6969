"""A `depthgate load` to be ended in the middle: a server that hangs after some answers, and the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from tests.depthgate.cli import ROOT
from tests.loadgen.servers import STREAM, Asked, chunk, event, says, whole

GOOD = says(whole(event("abc", 2), event("d e", 3)))
ANSWERED = 20


class Hanging:
    """ANSWERED good answers, then every further one hangs after its first chunk."""

    def __init__(self) -> None:
        self.started = 0

    async def __call__(self, writer: asyncio.StreamWriter, asked: Asked) -> None:
        self.started += 1
        if self.started <= ANSWERED:
            return await GOOD(writer, asked)
        writer.write(STREAM + chunk(event("abc", 2)))
        await asyncio.sleep(60)
        return None


def load_process(url: str, *flags: str) -> subprocess.Popen[str]:
    """`depthgate load` in a process of its own, three tokens a request."""
    command = [sys.executable, "-m", "depthgate", "load", "--url", url, "--model", "m", "--max-tokens", "3"]
    return subprocess.Popen(
        [*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
