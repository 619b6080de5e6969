"""The quick way through a stream ends where the JSON parser's does, whatever the stream is made of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from unittest.mock import patch

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loadgen.transcript
from loadgen.shape import Shape, shape_of
from loadgen.transcript import Transcript, TranscriptReader
from tests.loadgen.servers import DONE

MAX_TOKENS = 9


def chat(text: str = " w", completion: int | None = 1, prompt: int = 40, **more: object) -> dict[str, object]:
    usage = {
        "prompt_tokens": prompt,
        "total_tokens": prompt + (completion or 0),
        "completion_tokens": completion,
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "choices": [{"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None}],
        **({} if completion is None else {"usage": usage}),
        **more,
    }


def event(chunk: object, spaces: bool = False) -> bytes:
    return b"data: " + (json.dumps(chunk).encode() if spaces else orjson.dumps(chunk)) + b"\n\n"


def completions(text: str) -> dict[str, object]:
    return {"id": "cmpl-1", "choices": [{"index": 0, "text": text, "finish_reason": None}], "usage": None}


@contextmanager
def eager() -> Iterator[None]:
    """A shape from the second piece on, so that short streams take the quick way."""
    with (
        patch.object(loadgen.transcript, "WORTH_A_SHAPE", 2),
        patch.object(loadgen.transcript, "SHAPED_BY", 1),
    ):
        yield


def slow(pieces: list[bytes]) -> Transcript:
    reader = TranscriptReader()
    reader.feed(b"".join(pieces))
    return reader.transcript(MAX_TOKENS)


def quick(*parts: list[bytes]) -> Transcript:
    reader = TranscriptReader()
    with eager():
        for pieces in parts:
            reader.read(pieces)
    return reader.transcript(MAX_TOKENS)


def shape(chunk: object) -> Shape:
    found = shape_of(event(chunk))
    assert found is not None
    return found


@pytest.mark.parametrize("spaces", [False, True])
@pytest.mark.parametrize(
    "chunks",
    [
        [chat(f" w{n}", n) for n in range(1, 40)],
        [chat(f" w{n}", None, created=n) for n in range(1, 40)],
        [completions('é\n🌟\t\\ "quoted"'[n % 8 :]) for n in range(1, 40)],
    ],
    ids=["usage on each", "no usage", "completions"],
)
def test_a_steady_stream_needs_the_parser_once(
    chunks: list[dict[str, object]], spaces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = [*(event(chunk) for chunk in chunks), DONE]
    parsed: list[bytes] = []
    by_parser = TranscriptReader._event

    def counted(reader: TranscriptReader, kind: bytes, data: bytes, end: int) -> None:
        parsed.append(data)
        by_parser(reader, kind, data, end)

    monkeypatch.setattr(TranscriptReader, "_event", counted)
    found = quick(pieces)
    assert len(parsed) == 2  # the first, and [DONE]
    assert found == slow(pieces)
    assert len(found.chunk_ends) == 39


def test_a_stream_as_it_comes() -> None:
    """Enough pieces for a shape, without a change of when one is taken."""
    pieces = [*(event(chat(f" w{n}", n)) for n in range(1, 100)), DONE]
    reader = TranscriptReader()
    reader.read(pieces)
    assert reader.transcript(MAX_TOKENS) == slow(pieces)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=4) | st.sampled_from(("", "\n", '"', "é", "🌟", "\\"))
COUNTS = st.integers(0, 12) | st.sampled_from((10**9 - 1, 10**9, 10**9 + 1))
LAST = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
ODD = (
    DONE,
    event(LAST),
    event(chat(error={"message": "no"})),
    event(chat(object="error")),
    event({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 49}}),
    event({"choices": [{"delta": {"role": "assistant", "content": ""}}]}),
    event({"choices": [{"delta": {"content": "x"}, "token_ids": [1, 2]}]}),
    event({"choices": [{"delta": {"content": "x"}}, {"delta": {"content": "y"}}]}),
    event({"choices": [{"delta": {"content": "x"}}], "usage": {"completion_tokens": 3.0}}),
    event(chat()).replace(b'"total_tokens":41', b'"total_tokens":40'),
    event(chat()).replace(b" w", b"\xff"),
    event(chat()).replace(b" w", b"\xc3"),
    event(chat()).replace(b" w", b"\\u00e9\\ud800"),
    event(chat()).replace(b" w", b"a\tb"),
    event(chat()).replace(b":1,", b":01,"),
    event(chat()).replace(b'"completion_tokens":1', b'"completion_tokens":true'),
    event(chat()).replace(b'"content":" w"', b'"content":" w","content":null'),
    event(chat())[:-3] + b"\n\n",
    event(chat())[:-1],
    event(chat()) + event(chat()),
    event(chat()).replace(b"\n", b"\r\n"),
    b"event: error\n",
    b": ping\n\n",
    b"data: x\n",
    b"foo",
    b"\r",
    b"\n",
    b"\xef\xbb\xbf",
    b"",
)
STEADY = st.one_of(
    st.builds(chat, TEXTS, st.none() | COUNTS, st.sampled_from((40, 40, 41))),
    st.builds(completions, TEXTS),
).map(event)
PIECES = st.lists(
    st.one_of(STEADY, STEADY, st.lists(STEADY, min_size=2, max_size=6).map(b"".join), st.sampled_from(ODD)),
    max_size=12,
)
RUNS = st.integers(1, 9).flatmap(
    lambda first: st.lists(TEXTS.filter(bool), max_size=12).map(
        lambda texts: [event(chat(text, first + n)) for n, text in enumerate(texts)]
    )
)


@pytest.mark.parametrize("odd", ODD)
def test_one_odd_piece_between_steady_ones(odd: bytes) -> None:
    steady = [event(chat(f" w{n}", n)) for n in range(1, 9)]
    for at in range(1, 9):
        pieces = [*steady[:at], odd, *steady[at:], DONE]
        assert quick(pieces) == slow(pieces), at


@given(RUNS, PIECES, RUNS, st.integers(0, 40))
@settings(deadline=None, max_examples=600)
def test_any_stream(first: list[bytes], odd: list[bytes], then: list[bytes], cut: int) -> None:
    pieces = [*first, *odd, *then]
    assert quick(pieces[:cut], pieces[cut:]) == slow(pieces)


@given(RUNS, st.lists(st.tuples(st.integers(0, 4000), st.binary(max_size=2)), min_size=1, max_size=3))
@settings(deadline=None, max_examples=600)
def test_any_bytes_altered(pieces: list[bytes], changes: list[tuple[int, bytes]]) -> None:
    """Two bytes at any place become others: fewer, more, anything."""
    altered = list(pieces)
    for place, by in changes:
        if altered:
            number = place % len(altered)
            at = place % max(1, len(altered[number]))
            altered[number] = altered[number][:at] + by + altered[number][at + 2 :]
    assert quick(altered) == slow(altered)


@given(RUNS, PIECES, st.lists(st.integers(0, 6000), max_size=12))
@settings(deadline=None, max_examples=300)
def test_pieces_that_are_no_events(first: list[bytes], odd: list[bytes], cuts: list[int]) -> None:
    body = b"".join((*first, *odd))
    edges = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    pieces = [body[start:end] for start, end in pairwise(edges)]
    assert quick(pieces) == slow(pieces)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        DONE,
        event(LAST),
        event(chat(error={"message": "no"})),
        event(chat(object="error")),
        event(chat())[:-1],
        event(chat())[6:],
        event(chat()) + event(chat()),
        event(chat()).replace(b"\n", b"\r\n"),
        event(chat()).replace(b":1}", b":01}"),
        event(chat()).replace(b'"content":" w"', b'"content":" w","content":null'),
        event(chat(usage={"prompt_tokens": 1, "completion_tokens": 1.0, "total_tokens": 2})),
        event(chat(usage={"prompt_tokens": 1, "completion_tokens": 1})),
        event(chat(usage={})),
        event([chat()]),
        event(chat(choices="x")),
        event(chat(choices=[])),
        event(chat(choices={"content": "x"})),
        event(chat(choices=[{"delta": "content"}])),
        event(chat(choices=[{"delta": {"x": {"content": "y"}}}])),
        event(chat(choices=[{"delta": {"content": "x", "reasoning": "y"}}])),
        event(chat(choices=[{"delta": {"content": "x"}, "token_ids": [1]}])),
        event(chat(" w" * 1100)),
        event(chat(x={"completion_tokens": 9})).replace(b'"completion_tokens":1', b'"completion_tokens" : 3'),
    ],
)
def test_of_what_no_shape_is_taken(data: bytes) -> None:
    assert shape_of(data) is None


def test_a_shape_is_of_every_stream_of_its_server() -> None:
    found = shape(chat("x", 1))
    assert shape_of(event(chat("another", 7, 99))) is found
    assert found.run([event(chat("y", 2)), event(chat("z", 3)), DONE], 0) == (2, [2, 3], 40)
    assert found.run([event(chat("y", 2, 41)), event(chat("z", 3))], 0) == (0, (), 0)
    assert found.run([event(LAST)], 0) == (0, (), 0)
