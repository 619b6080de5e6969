"""A run folder of many requests, to measure judge and report on (docs/decisions/0015).

python -m bench.large_run FOLDER 1000000 4 --cells 1                  # all of them in one cell
python -m bench.large_run FOLDER 1000000 50 --cells 63 --journal      # 3 arms, 7 points, 3 repeats
/usr/bin/time -v depthgate judge FOLDER
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from loadgen.compaction import compact_run
from loadgen.journal import Journal
from loadgen.records import CellKey, RequestRecord
from loadgen.run_files import cell_stem
from reports.fingerprints import digest, record_sums, write_fingerprints
from reports.run_folder import expected_keys
from suites.model import Arm, Budget, EngineSpec, LoadSpec, Suite, TrafficClass
from tests.reports.hand_made import BUDGETS, cell, request, write_manifest


def suite(cells: int) -> Suite:
    """One cell at C = 64, else three arms at C = 1, 2, 4, ... in three repeats."""
    one = cells == 1
    points = (64,) if one else tuple(2**index for index in range(cells // 9))
    return Suite(
        name="large",
        question="How much memory does it take?",
        engine=EngineSpec(profile="h100-llama3.1-8b-eagle"),
        traffic=(TrafficClass("gsm8k"),),
        load=LoadSpec(points, requests_per_stream=10),
        arms=(Arm("off", "off", baseline=True), *(Arm(f"k{k}", "fixed", {"depth": k}) for k in (1, 2)))[
            : 1 if one else 3
        ],
        budgets=(Budget("itl_p50_s", max_value=0.05, arms=("off",)),) if one else BUDGETS,
        repeats=1 if one else 3,
    )


def requests(key: CellKey, count: int, chunks: int, rng: random.Random) -> Iterator[RequestRecord]:
    """Streams that each send again when the answer has ended; two tokens a chunk."""
    free_s = [0.0] * key.concurrency
    for index in range(count):
        stream = index % key.concurrency
        due_s = now_s = free_s[stream]
        times = [now_s := now_s + rng.uniform(0.01, 0.02) for _ in range(chunks)]
        free_s[stream] = now_s
        yield request(
            due_s, times, [2] * chunks, arm=key.arm, concurrency=key.concurrency, repeat=key.repeat,
            request=f"{cell_stem(key)}/{index}",
        )  # fmt: skip


def write(folder: Path, total: int, chunks: int, cells_of: int = 1, compacted: bool = True) -> None:
    """The folder as a run leaves it, compacted; says how large its journals were and how long that took.

    Not compacted: as a kill leaves it after the last cell, without sums.
    """
    of, rng = suite(cells_of), random.Random(1)
    keys = expected_keys(of)
    with Journal(folder / "cells.jsonl") as cells:
        for key in keys:
            last_s = 0.0
            with Journal(folder / "requests" / f"{cell_stem(key)}.jsonl") as journal:
                for record in requests(key, total // len(keys), chunks, rng):
                    journal.append(record)
                    last_s = record.chunk_times_s[-1]
            cells.append(
                cell(
                    0.1 * last_s, 0.9 * last_s, arm=key.arm, concurrency=key.concurrency, repeat=key.repeat,
                    requests=total // len(keys),
                )
            )  # fmt: skip
    if not compacted:
        write_manifest(folder, of, finished_utc=None)
        return
    before, started_s = _mebibytes(folder), time.monotonic()
    compact_run(folder / "requests")
    took_s, peak = time.monotonic() - started_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{before:.0f} MiB of journals, now {_mebibytes(folder):.0f}; {took_s:.0f} s, at most {peak:.0f} MiB"
    )
    sums = record_sums(folder)
    write_manifest(folder, of, records_sha256=digest(sums))
    write_fingerprints(folder, sums, (folder / "manifest.json").read_bytes())


def _mebibytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in (folder / "requests").iterdir()) / 2**20


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("requests", type=int)
    parser.add_argument("chunks", type=int)
    parser.add_argument("--cells", type=int, default=1, help="1, or a multiple of 9")
    parser.add_argument("--journal", action="store_true", help="leave journals, as a killed run does")
    args = parser.parse_args()
    write(args.folder, args.requests, args.chunks, args.cells, not args.journal)
