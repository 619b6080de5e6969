"""Memory and time of judging one large cell: `depthgate judge` over a made run folder.

A million requests of four chunks must stay under 1 GB (docs/decisions/0015); here a fifth of them, so that
the bench is short: `python -m bench.large_run FOLDER 1000000 4` makes the folder of that figure.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.large_run import write

REQUESTS, CHUNKS = 200_000, 4
MEASURED = """
import re, sys, time
from pathlib import Path
from depthgate.__main__ import main
main(["judge", sys.argv[1]])
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())  # ru_maxrss has the parent's
print(int(peak[1]) / 1024, time.process_time(), file=sys.stderr)
"""


@pytest.mark.parametrize("compacted", [True, False], ids=["parquet", "journal"])
def test_judge(compacted: bool, tmp_path: Path, note: Callable[[str], None]) -> None:
    folders = {count: tmp_path / str(count) for count in (CHUNKS, REQUESTS)}
    peaks = {}
    for count, folder in folders.items():
        write(folder, count, CHUNKS, compacted=compacted)
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, str(folder)], capture_output=True, text=True, check=True
        )
        peaks[count], cpu_s = map(float, done.stderr.split()[-2:])
    each = (peaks[REQUESTS] - peaks[CHUNKS]) * 2**20 / REQUESTS
    kind = "Parquet" if compacted else "journal"
    note(
        f"judging {REQUESTS:,} requests of {CHUNKS} chunks, {kind}: at most {peaks[REQUESTS]:.0f} MiB, "
        f"{each:.0f} bytes a request over a run of {CHUNKS}; {1e6 * cpu_s / REQUESTS:.0f} us of CPU a request"
    )
