"""`kill -9` of a run that drives a server: what the server had answered is in the records."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from loadgen.journal import read_requests
from loadgen.records import Outcome
from reports.judge import judge_run
from tests.depthgate.cli import ROOT
from tests.depthgate.test_main_job import serving
from tests.depthgate.test_resume import SUITE

STREAMS = 4
RUN = SUITE.replace("concurrency = [1, 2, 4]", f"concurrency = [{STREAMS}]").replace(
    "requests_per_stream = 6", "requests_per_stream = 200"
)
FINISHED = re.compile(r'^vllm:request_success_total\{.*finished_reason="(?:length|stop)".*\} (\d+)', re.M)


def answered(url: str) -> int:
    """Requests that the server has ended by itself, by its own count."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as reply:
        return sum(map(int, FINISHED.findall(reply.read().decode())))


def recorded(run_dir: Path) -> int:
    """Whole records of answers that came to their end; a line may be torn."""
    files = sorted((run_dir / "requests").glob("*.jsonl"))
    records = [record for file in files for record in read_requests(file)[0]]
    return sum(record.outcome is Outcome.DONE for record in records)


@pytest.mark.slow
@pytest.mark.http
def test_what_the_server_answered_is_recorded(tmp_path: Path) -> None:
    """A stream sends again when its answer has ended: each has one at most that it has not taken down yet,

    and one that waits to be parsed. The third kill falls into a further cell.
    """
    suite = tmp_path / "small.toml"
    suite.write_text(RUN)
    rng = random.Random(5)
    with serving("--engine-options", '{"k_max": 2}') as url:
        for number, moment in enumerate((rng.randrange(1, 400), rng.randrange(1, 400), 900)):
            out, before = tmp_path / str(number), answered(url)
            command = [sys.executable, "-m", "depthgate", "run", str(suite), "--engine", url]
            process = subprocess.Popen(
                [*command, "--exploratory", "--out", str(out)], stderr=subprocess.DEVNULL, cwd=ROOT
            )
            while answered(url) - before < moment:
                assert process.poll() is None
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.wait()
            (run_dir,) = out.iterdir()
            lost = answered(url) - before - recorded(run_dir)
            assert 0 <= lost <= 2 * STREAMS
            assert judge_run(run_dir).partial
