"""HTTP/1.1 framing: whatever the splits, the same body; and bytes that are no answer."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.framing import Framing, FramingError
from tests.loadgen.servers import STREAM, chunk, response

BODY = st.lists(st.binary(min_size=1, max_size=40), max_size=6)


def fed(raw: bytes, cuts: list[int]) -> Framing:
    framing, edges = Framing(), sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    for start, end in pairwise(edges):
        framing.feed(raw[start:end])
    return framing


@given(BODY, st.lists(st.integers(0, 500), max_size=8))
def test_chunked_bodies_do_not_depend_on_the_reads(pieces: list[bytes], cuts: list[int]) -> None:
    raw = STREAM + b"".join(map(chunk, pieces)) + chunk(b"")
    framing = fed(raw, cuts)
    assert (framing.status, framing.over, framing.reusable) == (200, True, True)
    assert b"".join(framing.pieces) == b"".join(pieces)
    assert framing.total == sum(map(len, pieces))


@given(BODY, st.lists(st.integers(0, 500), max_size=8))
def test_raw_ends_are_where_the_bytes_stood(pieces: list[bytes], cuts: list[int]) -> None:
    raw, expected = STREAM, list[int]()
    for piece in pieces:
        start = len(raw) + len(f"{len(piece):x}\r\n")
        expected += range(start + 1, start + len(piece) + 1)
        raw += chunk(piece)
    framing = fed(raw, cuts)
    if expected:
        assert framing.raw_ends(np.arange(1, framing.total + 1)).tolist() == expected


@given(st.binary(max_size=50), st.lists(st.integers(0, 200), max_size=6))
def test_bodies_with_a_length(body: bytes, cuts: list[int]) -> None:
    framing = fed(response(404, body), cuts)
    assert (framing.status, framing.over, framing.reusable) == (404, True, True)
    assert b"".join(framing.pieces) == body


def test_an_interim_answer_is_passed_over() -> None:
    framing = fed(b"HTTP/1.1 100 Continue\r\n\r\n" + response(200, b"ok"), [5, 30])
    assert (framing.status, b"".join(framing.pieces)) == (200, b"ok")


def test_extensions_and_trailers_are_dropped() -> None:
    framing = fed(STREAM + b"2;a=b\r\nok\r\n0\r\nX: y\r\nZ: w\r\n\r\n", [])
    assert (framing.over, framing.pieces) == (True, [b"ok"])


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    framing = fed(b"HTTP/1.0 200 OK\r\n\r\nabc", [])
    assert (framing.over, framing.reusable) == (False, False)
    framing.closed()
    assert (framing.over, b"".join(framing.pieces)) == (True, b"abc")


@pytest.mark.parametrize(
    ("head", "reusable"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", True),
        (b"HTTP/1.1 204 No Content\r\n", True),
    ],
)
def test_which_connections_go_on(head: bytes, reusable: bool) -> None:
    length = b"" if b"204" in head else b"Content-Length: 0\r\n"
    framing = fed(head + length + b"\r\n", [])
    assert (framing.over, framing.reusable) == (True, reusable)


def test_bytes_after_the_end_spoil_the_connection() -> None:
    assert not fed(response(200, b"ok") + b"HTTP/1.1 200", []).reusable


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 twohundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000,
        STREAM + b"0x2\r\nok\r\n",
        STREAM + b"+2\r\nok\r\n",
        STREAM + b"2\r\nokay\r\n",
        STREAM + b"a" * 5000,
        STREAM + b"0\r\n" + b"X" * 70_000,
    ],
)
def test_what_is_no_answer_is_refused(raw: bytes) -> None:
    with pytest.raises(FramingError):
        fed(raw, [])
