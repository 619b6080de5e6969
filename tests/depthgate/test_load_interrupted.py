"""Ctrl-C in `depthgate load`: the figures of what had ended are printed, with or without --records."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys

import pytest

from tests.depthgate.cli import ROOT
from tests.depthgate.test_load_faults import GOOD, in_thread, wait_for
from tests.loadgen.servers import STREAM, Asked, chunk, event

ANSWERED, STREAMS = 20, 3


@pytest.mark.http
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_load_sums_up_what_had_ended(sent: signal.Signals) -> None:
    """A stream sends again once its answer has ended: when all three hang, twenty have ended."""
    started = 0

    async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
        nonlocal started
        started += 1
        if started <= ANSWERED:
            return await GOOD(writer, asked)
        writer.write(STREAM + chunk(event("abc", 2)))
        await asyncio.sleep(60)

    with in_thread(answer) as url:
        command = [sys.executable, "-m", "depthgate", "load", "--url", url, "--model", "m", "--json", "-"]
        command += ["--requests", "500", "--max-tokens", "3", "--concurrency", str(STREAMS)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        wait_for(lambda: started == ANSWERED + STREAMS)
        process.send_signal(sent)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.strip() == "depthgate: interrupted; the figures are of what had ended"
    figures = json.loads(out)
    assert figures["interrupted"] is True
    assert (figures["completed"], figures["cancelled"], figures["failed"]) == (ANSWERED, STREAMS, 0)
    assert figures["output_tokens"] == 3 * ANSWERED
