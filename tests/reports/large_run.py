"""A run folder of many requests, to measure judge and report on (docs/decisions/0015).

python -m tests.reports.large_run FOLDER REQUESTS CHUNKS POINTS
/usr/bin/time -v depthgate judge FOLDER
"""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from loadgen.compaction import compact_run
from loadgen.journal import Journal
from loadgen.records import CellKey, RequestRecord
from loadgen.run_files import cell_stem
from reports.fingerprints import digest, record_sums, write_fingerprints
from reports.run_folder import expected_keys
from suites.model import Arm, EngineSpec, LoadSpec, Suite, TrafficClass
from tests.reports.hand_made import BUDGETS, cell, request, write_manifest

REPEATS = 3


def suite(points: int) -> Suite:
    """Three arms at C = 1, 2, 4, ..."""
    return Suite(
        name="large",
        question="How much memory does it take?",
        engine=EngineSpec(profile="h100-llama3.1-8b-eagle"),
        traffic=(TrafficClass("gsm8k"),),
        load=LoadSpec(tuple(2**index for index in range(points)), requests_per_stream=10),
        arms=(Arm("off", "off", baseline=True), *(Arm(f"k{k}", "fixed", {"depth": k}) for k in (1, 2))),
        budgets=BUDGETS,
        repeats=REPEATS,
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


def write(folder: Path, total: int, chunks: int, points: int) -> None:
    """The folder as a run leaves it, compacted; says how large its journals were and how long that took."""
    of, rng = suite(points), random.Random(1)
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
    write(Path(sys.argv[1]), *map(int, sys.argv[2:]))
