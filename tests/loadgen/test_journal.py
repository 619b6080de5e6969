"""Records come back as they went in, whatever happened to the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from governors.telemetry import StepRecord
from loadgen.decode import DecodeError, decode
from loadgen.journal import Journal, JournalError, read_cells, read_requests, read_steps
from loadgen.records import CellRecord, Outcome, RequestRecord, TokenSource

REQUEST = RequestRecord(
    request="off/c2/r0/s1/0",
    arm="off",
    concurrency=2,
    repeat=0,
    traffic_class="gsm8k",
    due_s=1.5,
    sent_s=1.25e-7,
    first_byte_s=None,
    first_token_s=2.0,
    done_s=3.1,
    chunk_times_s=(2.0, 2.1, 0.1 + 0.2),
    chunk_tokens=(1, 3, 0),
    prompt_tokens=None,
    output_tokens=4,
    max_tokens=8,
    tokens_are=TokenSource.CONTINUOUS_USAGE,
    outcome=Outcome.DONE,
    why='line\nbreak "quote" \u2028 🌟',
    warmup=True,
)
CELL = CellRecord("off", 2, 0, 1.0, 2.0, "wall", ("a", "b"), (), accepted_by_position=(3, 1), requests=7)
STEP = StepRecord(
    *(1, 0.5, 0.6, 2, 0, 0, 1, 2, 2, 2, 1.5, 3, 2, 4, (2, 1), (2, 0)),
    *(0.01, 0.002, 0.013, "full", None, None, 0, "steady", None),
)

NUMBERS = st.floats(0, 1e9, allow_nan=False)
REQUESTS = st.builds(
    replace,
    st.just(REQUEST),
    request=st.text(st.characters(codec="utf-8"), max_size=20),
    due_s=NUMBERS,
    sent_s=st.none() | NUMBERS,
    chunk_times_s=st.lists(NUMBERS, max_size=5).map(tuple),
    chunk_tokens=st.none() | st.lists(st.integers(0, 9), max_size=5).map(tuple),
    outcome=st.sampled_from(Outcome),
    why=st.none() | st.text(st.characters(codec="utf-8"), max_size=20),
    warmup=st.booleans(),
)


def write(path: Path, *records: RequestRecord | CellRecord | StepRecord) -> Path:
    with Journal(path) as journal:
        for record in records:
            journal.append(record)
    return path


@given(st.lists(REQUESTS, max_size=5))
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip_exactly(tmp_path: Path, records: list[RequestRecord]) -> None:
    path = tmp_path / "r.jsonl"
    path.unlink(missing_ok=True)
    assert read_requests(write(path, *records)) == (records, None)


def test_cells_and_steps_round_trip(tmp_path: Path) -> None:
    assert read_cells(write(tmp_path / "cells.jsonl", CELL)) == ([CELL], None)
    assert read_steps(write(tmp_path / "steps" / "off.r0.jsonl", STEP, STEP)) == ([STEP, STEP], None)


def test_truncation_at_any_byte_keeps_every_whole_line(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", REQUEST, replace(REQUEST, request="two"), replace(REQUEST, why=None))
    whole = path.read_bytes()
    ends = [at for at, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        records, partial = read_requests(path)
        assert len(records) == sum(end <= cut for end in ends)
        clean = cut == 0 or cut in ends or cut - 1 in ends
        assert partial == (None if clean else "r.jsonl: its last line is cut off")


@given(st.lists(st.binary(max_size=40), max_size=6))
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_garbage_lines_are_counted_and_the_rest_is_kept(tmp_path: Path, garbage: list[bytes]) -> None:
    path = tmp_path / "r.jsonl"
    path.unlink(missing_ok=True)
    write(path, REQUEST)
    good = path.read_bytes()
    bad = [line.replace(b"\n", b"") for line in garbage]
    path.write_bytes(good + b"".join(line + b"\n" for line in bad) + good)
    records, partial = read_requests(path)
    assert records == [REQUEST, REQUEST]
    count = sum(1 for line in bad if line)
    assert (partial is None) == (count == 0)
    if count:
        assert partial == f"r.jsonl: {count} of {len(bad) + 2} lines cannot be read"


def test_a_line_of_another_kind_is_garbage(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", CELL, REQUEST)
    assert read_requests(path) == ([REQUEST], "r.jsonl: 1 of 2 lines cannot be read")


def test_a_run_that_goes_on_does_not_glue_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", REQUEST)
    path.write_bytes(path.read_bytes()[:-20])
    records, partial = read_requests(write(path, REQUEST))
    assert (records, partial) == ([REQUEST], "r.jsonl: 1 of 2 lines cannot be read")


def test_appended_lines_are_in_the_file_at_once(tmp_path: Path) -> None:
    with Journal(tmp_path / "r.jsonl") as journal:
        journal.append(REQUEST)
        assert read_requests(journal.path) == ([REQUEST], None)


def test_a_full_disk_is_a_plain_error() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    journal = Journal(Path("/dev/full"))
    with pytest.raises(JournalError, match="cannot write /dev/full: No space left on device; free space"):
        journal.append(REQUEST)


def test_a_path_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(JournalError, match="cannot write"):
        Journal(tmp_path / "file" / "r.jsonl")


def test_closing_twice_is_fine(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "r.jsonl")
    journal.close()
    journal.close()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("due_s", "1"),
        ("due_s", True),
        ("concurrency", 2.0),
        ("outcome", "fine"),
        ("chunk_times_s", "abc"),
        ("chunk_times_s", [1.0, None]),
        ("warmup", 1),
        ("why", 3),
        ("arm", None),
    ],
)
def test_values_of_the_wrong_kind_are_refused(field: str, value: object) -> None:
    fields = {name: getattr(REQUEST, name) for name in RequestRecord.__dataclass_fields__}
    fields |= {"chunk_times_s": [1, 2.5], "chunk_tokens": None, field: value}
    with pytest.raises(DecodeError, match=f"RequestRecord.{field}: "):
        decode(RequestRecord, fields)


def test_newer_fields_are_passed_over_and_missing_ones_named() -> None:
    fields = {name: getattr(CELL, name) for name in ("arm", "concurrency", "repeat", "clock")}
    fields |= {"window_start_s": 1, "window_end_s": 2, "from_the_future": 3}
    assert decode(CellRecord, fields).window_start_s == 1.0
    del fields["clock"]
    with pytest.raises(DecodeError, match=r"CellRecord\.clock: missing"):
        decode(CellRecord, fields)
