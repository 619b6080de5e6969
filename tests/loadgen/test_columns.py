"""Columns are what the records were: from a journal, from Parquet, in parts."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loadgen.columns import Counts, RequestColumns, Times, joined, request_columns
from loadgen.journal import read_columns
from loadgen.parquet import ROWS, write_parquet
from loadgen.parquet_columns import scan_columns
from loadgen.records import RequestRecord
from tests.loadgen.test_compaction import many
from tests.loadgen.test_journal import REQUEST, REQUESTS, write


def plain(of: RequestColumns) -> dict[str, object]:
    """Everything that columns hold, to be compared; what is not known is None."""

    def values(column: object) -> object:
        if isinstance(column, Times | Counts):
            return [
                value if known else None for value, known in zip(*map(np.ndarray.tolist, column), strict=True)
            ]
        return column.tolist() if isinstance(column, np.ndarray) else column

    found = {field.name: values(getattr(of, field.name)) for field in fields(of)}
    numbers, names = of.traffic_class.tolist(), of.classes
    return found | {"traffic_class": [names[number] for number in numbers], "classes": set(names)}


def read(path: Path) -> dict[str, object]:
    parts: list[RequestColumns] = []
    assert read_columns(path, parts.append) is None
    return plain(joined(parts))


@given(st.lists(REQUESTS, max_size=5))
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_from_every_kind_of_file(tmp_path: Path, records: list[RequestRecord]) -> None:
    (tmp_path / "r.jsonl").unlink(missing_ok=True)
    write_parquet(tmp_path / "r.parquet", records)
    wanted = plain(request_columns(records))
    assert read(tmp_path / "r.parquet") == wanted
    assert read(write(tmp_path / "r.jsonl", *records)) == wanted


def test_more_than_one_part(tmp_path: Path) -> None:
    records = many(2 * ROWS + 1)
    write_parquet(tmp_path / "r.parquet", records)
    wanted = plain(request_columns(records))
    assert read(tmp_path / "r.parquet") == wanted
    assert read(write(tmp_path / "r.jsonl", *records)) == wanted


def test_unknown_tokens_hold_no_count() -> None:
    records = [replace(REQUEST, chunk_tokens=None), REQUEST]
    of = request_columns(records)
    assert of.chunk_tokens.tolist() == [0, 0, 0, 1, 3, 0]
    assert of.by_chunk.tolist() == [False, True]
    assert of.chunk_tokens.dtype == np.int8
    wide = request_columns([replace(REQUEST, chunk_tokens=(1, 200, 3))])
    assert joined([of, wide]).chunk_tokens.tolist() == [0, 0, 0, 1, 3, 0, 1, 200, 3]


@pytest.mark.parametrize("tokens", [(1, 3), (1, 3, 0, 0), ()])
def test_counts_that_are_not_one_a_chunk_are_none(tokens: tuple[int, ...]) -> None:
    of = request_columns([REQUEST, replace(REQUEST, chunk_tokens=tokens)])
    assert (of.aligned, of.chunk_tokens.tolist()) == (False, [0] * 6)


def test_flipped_bits_of_a_parquet_file_are_said_or_change_no_column(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    records = many(50)
    write_parquet(path, records)
    data, wanted, rng = path.read_bytes(), plain(request_columns(records)), random.Random(6)
    said = 0
    for _ in range(500):
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        parts: list[RequestColumns] = []
        fault = read_columns(path, parts.append)
        said += fault is not None
        assert fault is not None or plain(joined(parts)) == wanted
    assert said > 250


def test_a_hole_where_there_must_be_a_value_is_said(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "r.parquet"
    write_parquet(path, many(3))
    table = pyarrow.parquet.read_table(path)
    whole = table.schema.names.index("max_tokens")
    hole = pyarrow.array([1, None, 2], pyarrow.int64())
    pyarrow.parquet.write_table(table.set_column(whole, "max_tokens", hole), path)
    assert read_columns(path, lambda part: None) == (
        "r.parquet: cannot be read (a value is missing where there must be one)"
    )
    pyarrow.parquet.write_table(table.drop_columns(["warmup", "why"]), path)  # they have defaults
    (part,) = scan_columns(path)
    assert (part.warmup.tolist(), part.has_why.tolist(), part.first_why) == ([False] * 3, [False] * 3, None)
