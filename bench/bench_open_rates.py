"""An open loop at rates that one process holds, and at some that it does not: alone, and by workers.

Against the mock server of shared/kit, whose times are exact; skipped where there is none. Interleaved pairs,
of which nothing is asserted: what workers bring is a matter of the cores that the server and others leave.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from statistics import median

import numpy as np
import pytest

from depthgate.loop import run_loop
from engines.contract import EngineError
from loadgen.load_command import LoadSettings, only_model, run_load
from loadgen.records import Outcome, RequestRecord
from tests.loadgen.servers import closed_port
from tests.shared_files import SHARED

MOCK = SHARED / "kit" / "mockserver.cpp"
TTFT_S = 0.05
CHUNKS = 32  # 10 ms apart: a request takes 0.36 s
SECONDS = 4
REPEATS = 3


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not MOCK.exists() or shutil.which("g++") is None:
        pytest.skip("needs shared/kit and g++: the mock server is built from it")
    binary, port = tmp_path_factory.mktemp("mock") / "mockserver", closed_port()
    subprocess.run(["g++", "-O2", "-std=c++17", "-o", str(binary), str(MOCK)], check=True)
    flags = ["--ttft-ms", str(TTFT_S * 1e3), "--itl-ms", "10", "--chunks", str(CHUNKS)]
    process = subprocess.Popen([str(binary), "--port", str(port), *flags], stderr=subprocess.DEVNULL)
    try:
        asyncio.run(_answers(f"http://127.0.0.1:{port}"))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


async def _answers(url: str) -> None:
    for _ in range(100):
        try:
            await only_model(url)
        except EngineError:
            await asyncio.sleep(0.1)
        else:
            return


def driven(url: str, rate: float, workers: int) -> tuple[float, float, bool]:
    """Seconds that requests left late at p95, of TTFT too much at p50, and whether the cell is valid."""
    records: list[RequestRecord] = []
    requests = int(rate * SECONDS)
    settings = LoadSettings(url, 1, requests, CHUNKS, model="m", rate_per_s=rate, workers=workers)
    cell = run_loop(lambda: run_load(settings, records.append))
    assert [record.outcome for record in records] == [Outcome.DONE] * requests
    late_s = [(record.sent_s or 0.0) - record.due_s for record in records]
    ttft_s = [(record.first_token_s or 0.0) - record.due_s for record in records]
    return float(np.percentile(late_s, 95)), median(ttft_s) - TTFT_S, not cell.invalid


@pytest.mark.parametrize("rate", [500, 1000, 2000])
def test_rates(url: str, rate: float, note: Callable[[str], None]) -> None:
    workers = max(2, (os.cpu_count() or 1) - 1)
    runs = [(driven(url, rate, 1), driven(url, rate, workers)) for _ in range(REPEATS)]
    for number, name in enumerate(("one process", f"{workers} workers")):
        late_s, over_s, valid = zip(*(pair[number] for pair in runs), strict=True)
        note(
            f"{rate:g} requests/s of {CHUNKS} chunks, {name}: {median(late_s) * 1e3:.1f} ms late at p95, "
            f"TTFT p50 off by {median(over_s) * 1e3:.2f} ms, {sum(valid)} of {REPEATS} valid; "
            f"load average {os.getloadavg()[0]:.1f}"
        )
