"""Where the bytes are split never changes the events."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loadgen.sse import SseEvent, SseParser


def parse(pieces: list[bytes]) -> list[SseEvent]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def split(text: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]


def by_the_standard(text: bytes) -> list[tuple[bytes, bytes]]:
    """The standard's algorithm, read aloud: whole text, one line at a time, no fast path."""
    text = text.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events: list[tuple[bytes, bytes]] = []
    kind, data = b"", list[bytes]()
    for line in text.split(b"\n")[:-1]:
        if line == b"":
            if data:
                events.append((kind, b"\n".join(data)))
            kind, data = b"", []
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if field == b"data":
            data.append(value)
        elif field == b"event":
            kind = value
    return events


LINE_ENDS = (b"\n", b"\r", b"\r\n", b"\n\n", b"data: one\n\n", b"data: two\r\n\r\n")
FIELDS = (b"data: ", b"data:", b"data", b": ping", b"event: error", b"id: 7")
TEXTS = (b"{}", b"x", b" ", b"[DONE]", "🌟".encode(), b"\xef\xbb\xbf")
PIECES = st.sampled_from((*LINE_ENDS, *FIELDS, *TEXTS))
STREAMS = st.lists(PIECES, max_size=30).map(b"".join)


@given(STREAMS, st.lists(st.integers(0, 10_000), max_size=12))
@example(b"data: a\r\n\r\ndata: b\r\n\r\n", [8, 9, 10])
@example(b"data: a\r\n\r\n\n", [9])
@settings(deadline=None, max_examples=400)
def test_events_and_their_ends_do_not_depend_on_the_split(text: bytes, cuts: list[int]) -> None:
    whole = parse([text])
    assert [(e.kind, e.data) for e in whole] == by_the_standard(text)
    assert parse(split(text, cuts)) == whole
    assert parse([text[i : i + 1] for i in range(len(text))]) == whole


@given(STREAMS)
@settings(deadline=None)
def test_an_event_is_whole_at_its_end_and_not_a_byte_before(text: bytes) -> None:
    for index, event in enumerate(parse([text])):
        assert len(parse([text[: event.end]])) == index + 1
        assert len(parse([text[: event.end - 1]])) == index


def test_comments_kinds_and_lines_of_one_event() -> None:
    text = b": hello\n\nevent: error\ndata: a\ndata:b\nid: 3\nretry: 10\n\ndata\n\nevent: lost\n\ndata: z\n\n"
    assert [(e.kind, e.data) for e in parse([text])] == [(b"error", b"a\nb"), (b"", b""), (b"", b"z")]


def test_a_character_split_between_reads_is_whole_again() -> None:
    text = b'data: {"c":"' + b"\xf0\x9f\x8c\x9f" + b'"}\n\n'
    assert parse([text[:13], text[13:]])[0].data.decode() == '{"c":"🌟"}'


def test_big_events() -> None:
    for size in (1 << 20, 10 << 20):
        text = b"data: " + b"x" * size + b"\n\n"
        (event,) = parse([text[i : i + 65_536] for i in range(0, len(text), 65_536)])
        assert (len(event.data), event.end) == (size, len(text))


def test_a_byte_at_a_time_of_a_big_event_keeps_no_copy_per_byte() -> None:
    text = b"data: " + b"y" * 200_000 + b"\n\n"
    assert len(parse([text[i : i + 1] for i in range(len(text))])[0].data) == 200_000


@pytest.mark.parametrize(
    ("text", "left"),
    [(b"data: [DONE]", b"[DONE]"), (b"data: [DONE]\n", b"[DONE]"), (b"data: x\n\n", b""), (b"", b"")],
)
def test_what_the_end_of_the_stream_cut_off(text: bytes, left: bytes) -> None:
    parser = SseParser()
    parser.feed(text)
    assert parser.unfinished() == left
