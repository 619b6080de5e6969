"""Records in another clock, lines that are none, and who gets which streams."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from loadgen.records import Outcome, RequestRecord, TokenSource
from loadgen.swarm.figures import Row, rows
from loadgen.swarm.merge import deal, in_our_clock, read_lines

RECORD = RequestRecord(
    request="a/c1/r0/s0/0",
    arm="a",
    concurrency=1,
    repeat=0,
    traffic_class="chat",
    due_s=1000.0,
    sent_s=1000.5,
    first_byte_s=1001.0,
    first_token_s=1001.0,
    done_s=1004.0,
    chunk_times_s=(1001.0, 1003.0, 1004.0),
    chunk_tokens=(1, 2, 1),
    prompt_tokens=5,
    output_tokens=4,
    max_tokens=4,
    tokens_are=TokenSource.CONTINUOUS_USAGE,
    outcome=Outcome.DONE,
)


def test_every_time_moves_and_nothing_else() -> None:
    moved = in_our_clock(RECORD, 900.0)
    assert (moved.due_s, moved.sent_s, moved.first_byte_s) == (100.0, 100.5, 101.0)
    assert (moved.first_token_s, moved.done_s, moved.chunk_times_s) == (101.0, 104.0, (101.0, 103.0, 104.0))
    times = {
        name: getattr(RECORD, name) for name in ("due_s", "sent_s", "first_byte_s", "first_token_s", "done_s")
    }
    assert replace(moved, **times, chunk_times_s=RECORD.chunk_times_s) == RECORD


def test_what_never_happened_stays_unknown() -> None:
    unsent = replace(RECORD, sent_s=None, first_byte_s=None, first_token_s=None, done_s=None)
    moved = in_our_clock(unsent, 900.0)
    assert (moved.sent_s, moved.first_byte_s, moved.first_token_s, moved.done_s) == (None,) * 4


def test_lines_that_are_no_records_are_counted() -> None:
    line = json.dumps(asdict(RECORD))
    assert read_lines([line, "{", '{"request": 1}', line], 0.0) == ([RECORD, RECORD], 2)


def test_streams_are_dealt_one_after_another() -> None:
    assert deal({"a": 2, "b": 1, "c": 2}) == {"a": (0, 1), "b": (2,), "c": (3, 4)}


def test_a_chunk_of_two_tokens_is_two_gaps() -> None:
    assert list(rows(RECORD)) == [
        Row("E2E", "chat", 4000.0, 4),
        Row("TTFT", "chat", 1000.0),
        Row("tokens", "chat: output tokens, not ms", 4),
        Row("TPOT", "chat", 1000.0),
        Row("ITL", "chat, per token", 1000.0),
        Row("ITL", "chat, per token", 1000.0),
        Row("ITL", "chat, per token", 1000.0),
    ]


def test_a_failure_has_no_figures_and_a_cancelled_request_is_no_row() -> None:
    failed = replace(RECORD, outcome=Outcome.REFUSED, why="HTTP 503: full", done_s=None)
    assert list(rows(failed)) == [Row("E2E", "chat", 4000.0, 4, "refused: HTTP 503: full")]
    assert list(rows(replace(RECORD, outcome=Outcome.CANCELLED))) == []
