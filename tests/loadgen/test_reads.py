"""Reads: stamps by raw bytes, an end that is seen by its last bytes, and a body that only looks like one."""

from __future__ import annotations

from array import array

import pytest

from loadgen.reads import Reads
from loadgen.records import TokenSource
from tests.loadgen.servers import DONE, STREAM, chunk, event, whole


def read(*pieces: bytes) -> tuple[Reads, list[bool]]:
    reads = Reads()
    return reads, [reads.keep(float(at), piece) for at, piece in enumerate(pieces)]


def test_each_chunk_has_the_stamp_of_the_read_that_made_it_whole() -> None:
    first, second = chunk(event("a", 1)), chunk(event("b", 3))
    reads, over = read(STREAM + first[:10], first[10:], second[:-1], second[-1:] + chunk(DONE), chunk(b""))
    assert over == [False, False, False, False, True]
    transcript = reads.transcript(8)
    assert reads.arrivals(transcript.chunk_ends) == (1.0, 2.0)
    assert (transcript.chunk_tokens, transcript.tokens_are) == ((1, 2), TokenSource.CONTINUOUS_USAGE)
    assert (reads.first_s, reads.last_s, reads.reusable) == (0.0, 3.0, True)
    assert reads.ends == array("q", [len(STREAM) + 10, *reads.ends[1:]])


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11])
def test_the_end_is_seen_however_it_is_split(size: int) -> None:
    raw = whole(event("a", 1), event("b", 2))
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
    _, over = read(*pieces)
    assert over == [False] * (len(pieces) - 1) + [True]


def test_a_body_of_carriage_returns_is_looked_at_and_not_taken_for_an_end() -> None:
    events = [event("a", 1).replace(b"\n", b"\r\n"), event("b", 2).replace(b"\n", b"\r\n")]
    raw = [STREAM, *map(chunk, events), chunk(DONE), chunk(b"")]
    assert read(*raw)[1] == [False, False, False, False, True]


def test_trailers_end_an_answer_too() -> None:
    assert read(STREAM, chunk(DONE), b"0\r\nX: y\r\n\r\n")[1] == [False, False, True]


def test_a_chunk_that_ends_as_an_answer_does_is_no_whole_answer() -> None:
    """Nobody sends that; whoever does gets a truncated answer on record and a connection that is dropped."""
    reads, over = read(STREAM, chunk(event("a", 1)), chunk(b": x\r\n0\r\n")[:-2] + b"\r\n")
    assert over == [False, False, True]
    assert not reads.transcript(8).terminated


def test_no_http_ends_the_wait() -> None:
    reads, over = read(STREAM, b"zz\r\n")
    assert over == [False, True]
    assert reads.fault is not None
    assert reads.fault.startswith("the answer is not HTTP: a chunk begins")
    assert not reads.reusable
