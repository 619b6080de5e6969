"""A run folder in which anything was altered: judged and shown without a traceback, and never kept."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from depthgate.reporting import report_input, write_page
from loadgen.compaction import compact_run
from reports.fingerprints import digest, record_sums, write_fingerprints
from reports.judge import judge_run
from reports.judgement import Ruling
from reports.run_folder import StoredRequests, read_run
from tests.reports.hand_made import step, suite, write_lines, write_manifest, write_run

FLIPS = (
    40  # of each way and form; thousands were run by hand: `python -m tests.reports.test_altered_run 3000`
)
PAGES = 20  # one in so many is shown as well


def finished(path: Path, *, compacted: bool) -> Path:
    """A small run as it is left when it ends, kept."""
    of = suite(points=(1, 2))
    run = write_run(path, of, {"off": 10.0, "fast": 8.0})
    for arm in of.arms:
        for repeat in range(of.repeats):
            steps = [step(number, number / 10, 2) for number in range(40)]
            write_lines(run / f"steps/{arm.name}.r{repeat}.jsonl", steps)
    if compacted:
        assert compact_run(run / "requests", small_bytes=0) == ()
    sums = record_sums(run)
    write_manifest(run, of, records_sha256=digest(sums))
    write_fingerprints(run, sums, (run / "manifest.json").read_bytes())
    return run


def flipped_bit(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def other_bytes(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 9)):
        changed[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(changed)


def other_digit(data: bytes, rng: random.Random) -> bytes:
    """What stays well-formed: another number, another name."""
    places = [at for at, byte in enumerate(data) if chr(byte).isdigit()]
    if not places:
        return flipped_bit(data, rng)
    at = rng.choice(places)
    return data[:at] + str(rng.randrange(10)).encode() + data[at + 1 :]


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def line_lost(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    del lines[rng.randrange(len(lines))]
    return b"".join(lines)


WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flipped_bit,
    other_bytes,
    other_digit,
    cut,
    line_lost,
)


def fuzz(run: Path, way: Callable[[bytes, random.Random], bytes], count: int) -> None:
    files = sorted(path for path in run.rglob("*") if path.is_file())
    rng = random.Random(way.__name__)
    for number in range(count):
        file = rng.choice(files)
        data = file.read_bytes()
        changed = way(data, rng)
        if changed == data:
            continue
        file.write_bytes(changed)
        judgement = judge_run(run)
        assert judgement.ruling is not Ruling.KEPT, (file, number)
        assert judgement.partial
        json.dumps(asdict(judgement), allow_nan=False)
        if number % PAGES == 0:
            write_page([report_input(run)], run.parent / "page.html")
        file.write_bytes(data)
    assert judge_run(run).ruling is Ruling.KEPT


@pytest.mark.parametrize("compacted", [False, True], ids=["journal", "parquet"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_whatever_is_altered_is_never_kept(
    tmp_path: Path, way: Callable[[bytes, random.Random], bytes], compacted: bool
) -> None:
    fuzz(finished(tmp_path / "run", compacted=compacted), way, FLIPS)


@pytest.mark.parametrize("compacted", [False, True], ids=["journal", "parquet"])
def test_a_file_more_or_less_is_never_kept(tmp_path: Path, compacted: bool) -> None:
    run = finished(tmp_path / "run", compacted=compacted)
    for file in sorted(path for path in run.rglob("*") if path.is_file()):
        data = file.read_bytes()
        file.unlink()
        assert judge_run(run).ruling is not Ruling.KEPT, file
        file.write_bytes(data)
    (other, *_) = (run / "requests").iterdir()
    shutil.copy(other, run / "requests" / f"more{other.suffix}")
    assert judge_run(run).ruling is not Ruling.KEPT


def test_a_journal_beside_a_compacted_one_is_not_taken(tmp_path: Path) -> None:
    """A run that ended has one of the two; the other came later."""
    run = finished(tmp_path / "run", compacted=True)
    other = finished(tmp_path / "other", compacted=False)
    shutil.copy(other / "requests/fast.c1.r0.jsonl", run / "requests/fast.c1.r0.jsonl")
    judgement = judge_run(run)
    assert "requests/fast.c1.r0.jsonl: not as the run left it" in judgement.partial
    assert judgement.ruling is not Ruling.KEPT


def test_requests_of_a_compacted_run_stay_on_disk(tmp_path: Path) -> None:
    run = read_run(finished(tmp_path / "run", compacted=True))
    assert {type(cell.kept) for cell in run.cells.values()} == {StoredRequests}
    for cell in run.cells.values():
        loaded = cell.loaded()
        assert loaded.requests is loaded.requests
        assert loaded.requests.chunk_times_s.tolist() == cell.requests.chunk_times_s.tolist()
        assert len(cell.requests) == cell.record.concurrency
    assert read_run(run) is run


def test_a_compacted_run_is_judged_as_its_journals_were(tmp_path: Path) -> None:
    found = []
    for compacted in (False, True):
        judgement = asdict(judge_run(finished(tmp_path / str(compacted) / "run", compacted=compacted)))
        del judgement["manifest"]["records_sha256"]
        found.append(judgement)
    assert found[0] == found[1]


if __name__ == "__main__":
    import sys
    import tempfile

    for each in WAYS:
        for form in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                fuzz(finished(Path(folder) / "run", compacted=form), each, int(sys.argv[1]))
            print(each.__name__, "parquet" if form else "journal", "held")
