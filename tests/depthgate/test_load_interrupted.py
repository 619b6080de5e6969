"""Ctrl-C in `depthgate load`: the figures of what had ended are printed, with or without --records."""

from __future__ import annotations

import json
import signal

import pytest

from tests.depthgate.ended_load import ANSWERED, Hanging, load_process
from tests.depthgate.test_load_faults import in_thread, wait_for

STREAMS = 3


@pytest.mark.http
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_load_sums_up_what_had_ended(sent: signal.Signals) -> None:
    """A stream sends again once its answer has ended: when all three hang, twenty have ended."""
    answer = Hanging()
    with in_thread(answer) as url:
        process = load_process(url, "--json", "-", "--requests", "500", "--concurrency", str(STREAMS))
        wait_for(lambda: answer.started == ANSWERED + STREAMS)
        process.send_signal(sent)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.strip() == "depthgate: interrupted; the figures are of what had ended"
    figures = json.loads(out)
    assert figures["interrupted"] is True
    assert (figures["completed"], figures["cancelled"], figures["failed"]) == (ANSWERED, STREAMS, 0)
    assert figures["output_tokens"] == 3 * ANSWERED
