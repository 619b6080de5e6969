"""A worker's records in our clock, and how its part of a cell is dealt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson

from loadgen.decode import DecodeError, decode
from loadgen.records import RequestRecord


def in_our_clock(record: RequestRecord, offset_s: float) -> RequestRecord:
    """`offset_s`: the worker's clock - ours. Latencies stay as they are."""
    if not offset_s:
        return record

    def moved(at_s: float | None) -> float | None:
        return None if at_s is None else at_s - offset_s

    return replace(
        record,
        due_s=record.due_s - offset_s,
        sent_s=moved(record.sent_s),
        first_byte_s=moved(record.first_byte_s),
        first_token_s=moved(record.first_token_s),
        done_s=moved(record.done_s),
        chunk_times_s=tuple(at_s - offset_s for at_s in record.chunk_times_s),
    )


def read_lines(lines: Sequence[str], offset_s: float) -> tuple[list[RequestRecord], int]:
    """(records in our clock, lines that are none)."""
    records, bad = [], 0
    for line in lines:
        try:
            records.append(in_our_clock(decode(RequestRecord, orjson.loads(line)), offset_s))
        except (orjson.JSONDecodeError, DecodeError):
            bad += 1
    return records, bad


def deal(users: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Which streams a worker has: as many as it has users, one after another from 0."""
    dealt, first = {}, 0
    for worker, count in users.items():
        dealt[worker] = tuple(range(first, first + count))
        first += count
    return dealt
