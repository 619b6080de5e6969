"""Journals become Parquet and come back as they were; what is torn or altered is said and never believed."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import loadgen.compaction as compaction
from loadgen.compaction import compact, compact_run, request_file
from loadgen.journal import read_requests
from loadgen.parquet import ROWS, ParquetFault, scan_parquet, write_parquet
from loadgen.records import Outcome, RequestRecord, TokenSource
from tests.loadgen.test_journal import REQUEST, REQUESTS, write


def many(count: int) -> list[RequestRecord]:
    """Of every kind: known and unknown tokens, no chunk at all, every outcome."""
    rng = random.Random(3)
    return [
        replace(
            REQUEST,
            request=f"off/c2/r0/s1/{index}",
            sent_s=None if index % 7 == 0 else rng.random(),
            chunk_times_s=tuple(rng.random() for _ in range(index % 5)),
            chunk_tokens=None if index % 3 == 0 else tuple(rng.randrange(9) for _ in range(index % 5)),
            outcome=list(Outcome)[index % len(Outcome)],
            tokens_are=list(TokenSource)[index % len(TokenSource)],
            why=None if index % 2 else REQUEST.why,
            warmup=index % 4 == 0,
        )
        for index in range(count)
    ]


@given(st.lists(REQUESTS, max_size=5))
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip_exactly(tmp_path: Path, records: list[RequestRecord]) -> None:
    path = tmp_path / "r.parquet"
    write_parquet(path, records)
    assert read_requests(path) == (records, None)


def test_more_than_a_row_group(tmp_path: Path) -> None:
    records = many(2 * ROWS + 1)
    write_parquet(tmp_path / "r.parquet", records)
    assert [len(group) for group in scan_parquet(tmp_path / "r.parquet")] == [ROWS, ROWS, 1]
    found, fault = read_requests(tmp_path / "r.parquet")
    assert fault is None
    assert found == records
    assert {type(record.outcome) for record in found} == {Outcome}


def test_a_journal_is_removed_once_its_copy_reads_back(tmp_path: Path) -> None:
    records = many(300)
    journal = write(tmp_path / "off.c2.r0.jsonl", *records)
    copy = compact(journal)
    assert [path.name for path in tmp_path.iterdir()] == ["off.c2.r0.parquet"]
    assert request_file(journal) == copy
    assert read_requests(copy) == (records, None)


def test_a_copy_that_reads_back_otherwise_leaves_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = write(tmp_path / "off.c2.r0.jsonl", *many(20))
    monkeypatch.setattr(compaction, "scan_parquet", lambda path: [many(19)])
    with pytest.raises(ParquetFault, match="does not read back as it was written"):
        compact(journal)
    assert [path.name for path in tmp_path.iterdir()] == ["off.c2.r0.jsonl"]


def test_a_torn_journal_stays_one_and_is_said(tmp_path: Path) -> None:
    journal = write(tmp_path / "off.c2.r0.jsonl", *many(20))
    journal.write_bytes(journal.read_bytes()[:-9])
    whole = write(tmp_path / "off.c4.r0.jsonl", *many(20))
    assert compact_run(tmp_path, small_bytes=0) == (
        "off.c2.r0.jsonl stays a journal: off.c2.r0.jsonl: line 20 cannot be read",
    )
    assert request_file(journal) == journal
    assert request_file(whole) == whole.with_suffix(".parquet")


def test_what_does_not_fit_a_column_stays_a_journal(tmp_path: Path) -> None:
    write(tmp_path / "off.c2.r0.jsonl", replace(REQUEST, prompt_tokens=2**63))
    (said,) = compact_run(tmp_path, small_bytes=0)
    assert said.startswith("off.c2.r0.jsonl stays a journal: ")
    assert [path.name for path in tmp_path.iterdir()] == ["off.c2.r0.jsonl"]


def test_a_small_run_stays_readable(tmp_path: Path) -> None:
    journal = write(tmp_path / "off.c2.r0.jsonl", *many(20))
    assert compact_run(tmp_path, small_bytes=journal.stat().st_size) == ()
    assert request_file(journal) == journal
    assert compact_run(tmp_path, small_bytes=journal.stat().st_size - 1) == ()
    assert request_file(journal) == journal.with_suffix(".parquet")


def test_a_kill_between_copy_and_removal_leaves_the_journal_to_be_read(tmp_path: Path) -> None:
    journal = write(tmp_path / "off.c2.r0.jsonl", *many(20))
    line = journal.read_bytes()
    copy = compact(journal)
    journal.write_bytes(line)
    assert request_file(journal) == journal
    assert compact(journal) == copy  # and the next end of the run does it again


def test_every_truncation_of_a_parquet_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    write_parquet(path, many(50))
    data = path.read_bytes()
    for cut in range(0, len(data), 97):
        path.write_bytes(data[:cut])
        _, fault = read_requests(path)
        assert fault is not None
        assert fault.startswith("r.parquet: cannot be read (")
        assert "\n" not in fault


def test_flipped_bits_of_a_parquet_file_are_said_or_change_no_record(tmp_path: Path) -> None:
    """Pages carry checksums; what has none (names, statistics) cannot change a record unseen."""
    path = tmp_path / "r.parquet"
    records = many(50)
    write_parquet(path, records)
    data = path.read_bytes()
    rng = random.Random(5)
    said = 0
    for _ in range(1500):
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        found, fault = read_requests(path)
        said += fault is not None
        assert fault is not None or found == records
    assert said > 750


def test_other_columns_are_no_records(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "r.parquet"
    write_parquet(path, many(3))
    table = pyarrow.parquet.read_table(path)
    pyarrow.parquet.write_table(table.drop_columns(["due_s"]), path)
    assert read_requests(path) == ([], "r.parquet: cannot be read (no column due_s)")
    pyarrow.parquet.write_table(table.drop_columns(["warmup", "why"]), path)  # they have defaults
    assert [record.warmup for record in read_requests(path)[0]] == [False] * 3
    path.write_bytes(b"no parquet")
    assert read_requests(path)[0] == []
