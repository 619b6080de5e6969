"""Raw answers cut at every byte: between the bytes of a character, of CRLF, of a chunk's size, of a head."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.reads import Reads
from loadgen.transcript import Transcript
from tests.loadgen.servers import DONE, STREAM, chunk, event

MAX_TOKENS = 9


def raw(crlf: bool, chunked: bool) -> bytes:
    body = event("é🌟", 2) + b": ping\n\n" + event("x\r\ny", 5) + DONE
    body = body.replace(b"\\u00e9\\ud83c\\udf1f", "é🌟".encode())
    body = body.replace(b"\n", b"\r\n") if crlf else body
    if not chunked:
        return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + body
    return STREAM + b"".join(chunk(body[at : at + 23]) for at in range(0, len(body), 23)) + chunk(b"")


def answer(pieces: list[bytes]) -> tuple[Transcript, tuple[float, ...], int | None]:
    reads = Reads()
    for number, piece in enumerate(pieces, start=1):
        reads.keep(float(number), piece)
    reads.ended(None)
    transcript = reads.transcript(MAX_TOKENS)
    return transcript, reads.arrivals(transcript.chunk_ends), reads.status


SHAPES = [(crlf, chunked) for crlf in (False, True) for chunked in (False, True)]


@pytest.mark.parametrize(("crlf", "chunked"), SHAPES)
def test_two_reads_whatever_lies_between(crlf: bool, chunked: bool) -> None:
    """Content is stamped with the read that made it whole, and never with an earlier one."""
    data = raw(crlf, chunked)
    whole, _, status = answer([data])
    assert (status, whole.terminated, whole.fault) == (200, True, None)
    assert (whole.chunk_tokens, whole.output_tokens) == ((2, 3), 5)
    seen = set()
    for cut in range(1, len(data)):
        transcript, arrivals, _ = answer([data[:cut], data[cut:]])
        assert transcript == whole, cut
        seen.add(arrivals)
    assert seen == {(1.0, 1.0), (1.0, 2.0), (2.0, 2.0)}


@pytest.mark.parametrize(("crlf", "chunked"), SHAPES)
def test_a_byte_a_read(crlf: bool, chunked: bool) -> None:
    data = raw(crlf, chunked)
    assert answer([data[at : at + 1] for at in range(len(data))])[0] == answer([data])[0]


@pytest.mark.parametrize(("crlf", "chunked"), SHAPES)
def test_an_answer_that_ends_anywhere_is_whole_or_not_and_never_a_crash(crlf: bool, chunked: bool) -> None:
    data = raw(crlf, chunked)
    ends = [answer([data[:cut]])[0].terminated for cut in range(1, len(data) + 1)]
    assert ends == sorted(ends)
    assert ends[-1]
    assert not ends[data.index(b"[DONE]") + 4]


TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)


@given(st.lists(TEXTS, min_size=1, max_size=4), st.lists(st.integers(0, 4000), max_size=10), st.booleans())
@settings(deadline=None, max_examples=150)
def test_any_text_in_any_pieces(texts: list[str], cuts: list[int], escaped: bool) -> None:
    """What is said comes through, as \\u escapes or as UTF-8."""
    events = [
        {"choices": [{"delta": {"content": text}}], "usage": {"completion_tokens": n}}
        for n, text in enumerate(texts, start=1)
    ]
    lines = [f"data: {json.dumps(each, ensure_ascii=escaped)}\n\n".encode() for each in events]
    data = STREAM + b"".join(map(chunk, [*lines, DONE])) + chunk(b"")
    edges = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    transcript, arrivals, _ = answer([data[a:b] for a, b in pairwise(edges)])
    assert (transcript, transcript.fault) == (answer([data])[0], None)
    assert transcript.output_tokens == len(texts)
    assert list(arrivals) == sorted(arrivals)


@given(st.binary(max_size=200), st.lists(st.integers(0, 400), max_size=6))
@settings(deadline=None, max_examples=200)
def test_garbage_after_a_good_head_is_judged_and_never_raises(garbage: bytes, cuts: list[int]) -> None:
    data = STREAM + chunk(event("a", 1)) + garbage
    edges = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    transcript, _, status = answer([data[a:b] for a, b in pairwise(edges)])
    assert status == 200
    assert transcript.chunk_tokens is None or transcript.chunk_tokens[0] == 1
