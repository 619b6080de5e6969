"""True token counts and faults from a body's bytes, for every shape seen in the field."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.records import TokenSource
from loadgen.transcript import EXCERPT, MOST_TOKENS, Transcript, TranscriptReader, excerpt
from tests.shared_files import shared_file

DONE = "data: [DONE]\n\n"


def read(body: str | bytes, max_tokens: int | None = None) -> Transcript:
    reader = TranscriptReader()
    reader.feed(body.encode() if isinstance(body, str) else body)
    return reader.transcript(max_tokens)


def event(chunk: Any) -> str:
    return f"data: {json.dumps(chunk)}\n\n"


def delta(
    usage: int | None = None, finish: str | None = None, ids: list[int] | None = None, **fields: Any
) -> str:
    choice: dict[str, Any] = {"index": 0, "delta": fields, "finish_reason": finish}
    if ids is not None:
        choice["token_ids"] = ids
    return event({"choices": [choice], "usage": counts(usage)})


def counts(completion: int | None) -> dict[str, int] | None:
    return None if completion is None else {"prompt_tokens": 11, "completion_tokens": completion}


def total(completion: int) -> str:
    return event({"choices": [], "usage": counts(completion)})


def test_llamacpp_sends_24_tokens_in_8_chunks() -> None:
    answer = read(shared_file("cases/llamacpp_stream_24tok_8chunks.sse").read_bytes(), max_tokens=24)
    assert len(answer.chunk_ends) == 8
    assert (answer.output_tokens, answer.prompt_tokens, answer.chunk_tokens) == (24, 38, None)
    assert (answer.tokens_are, answer.terminated, answer.fault, answer.notes) == (
        TokenSource.USAGE,
        True,
        None,
        (),
    )


def test_continuous_usage_counts_each_chunk() -> None:
    body = delta(0, role="assistant", content="") + delta(3, content="a b c") + delta(5, content="d e")
    answer = read(body + delta(5, finish="length") + total(5) + DONE)
    assert (answer.chunk_tokens, answer.output_tokens) == ((3, 2), 5)
    assert answer.tokens_are is TokenSource.CONTINUOUS_USAGE
    assert answer.notes == ()


def test_a_token_whose_text_is_held_back_still_counts_when_it_came() -> None:
    answer = read(delta(1, content="") + delta(2, content="🌟") + delta(2, content="!") + total(2) + DONE)
    assert answer.chunk_tokens == (1, 1, 0)


def test_a_role_chunk_is_no_token() -> None:
    role = delta(role="assistant", content="")
    answer = read(role + delta(content="hi") + total(2) + DONE)
    assert answer.chunk_ends == (len(role) + len(delta(content="hi")),)


def reasoning(usage: int, field: str) -> str:
    return event({"choices": [{"delta": {field: "hm"}}], "usage": counts(usage)})


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_counts_and_stamps(field: str) -> None:
    answer = read(reasoning(2, field) + reasoning(4, field) + delta(4, finish="length") + DONE)
    assert (answer.chunk_tokens, answer.output_tokens) == ((2, 2), 4)


def test_token_ids() -> None:
    body = (
        delta(ids=[], role="assistant") + delta(ids=[1, 2], content="a") + delta(ids=[3], content="b") + DONE
    )
    answer = read(body)
    assert (answer.chunk_tokens, answer.output_tokens, answer.tokens_are) == (
        (2, 1),
        3,
        TokenSource.TOKEN_IDS,
    )


LAST_CHUNKS = {
    "choices empty": total(7),
    "usage beside a choice": delta(7, finish="length"),
    "choices missing": event({"usage": counts(7)}),
    "choices null": event({"choices": None, "usage": counts(7)}),
}


@pytest.mark.parametrize("last", LAST_CHUNKS.values(), ids=LAST_CHUNKS.keys())
def test_every_shape_of_the_last_chunk(last: str) -> None:
    answer = read(delta(content="a") + delta(content="b") + last + DONE)
    assert (answer.output_tokens, answer.chunk_tokens, len(answer.chunk_ends)) == (7, None, 2)
    assert answer.tokens_are is TokenSource.USAGE


def test_completions_route() -> None:
    body = "".join(event({"choices": [{"text": text, "index": 0}], "usage": None}) for text in ("a", "b", ""))
    assert len(read(body + total(9) + DONE).chunk_ends) == 2


def test_no_usage_is_unknown_and_not_the_number_of_chunks() -> None:
    answer = read(delta(content="a") * 3 + DONE)
    assert (answer.output_tokens, answer.tokens_are) == (None, TokenSource.UNKNOWN)


@pytest.mark.parametrize("usage", [0, True, -1, 1.5, "7", MOST_TOKENS + 1, 2**63])
def test_a_usage_that_counts_nothing_is_unknown(usage: Any) -> None:
    answer = read(delta(content="a") + event({"choices": [], "usage": {"completion_tokens": usage}}) + DONE)
    assert (answer.output_tokens, answer.tokens_are) == (None, TokenSource.UNKNOWN)


def test_zeros_on_every_chunk_are_not_continuous_usage() -> None:
    answer = read(delta(0, content="a") + delta(0, content="b") + total(4) + DONE)
    assert (answer.chunk_tokens, answer.output_tokens, answer.tokens_are) == (None, 4, TokenSource.USAGE)


def test_a_falling_total_is_not_trusted_by_chunk() -> None:
    answer = read(delta(5, content="a") + delta(3, content="b") + total(6) + DONE)
    assert (answer.chunk_tokens, answer.output_tokens) == (None, 6)


def with_total(completion: int, total_tokens: int, **fields: Any) -> str:
    usage = {"prompt_tokens": 11, "completion_tokens": completion, "total_tokens": total_tokens}
    return event({"choices": [{"index": 0, "delta": fields}], "usage": usage})


def test_a_usage_that_contradicts_itself_gives_no_count() -> None:
    """No ITL and no throughput of it: which of the three numbers is wrong is not ours to guess."""
    answer = read(with_total(2, 13, content="a") + with_total(4, 25, content="b") + DONE)
    assert (answer.chunk_tokens, answer.output_tokens, answer.prompt_tokens) == (None, None, None)
    assert answer.tokens_are is TokenSource.UNKNOWN
    assert answer.notes == ("usage contradicts itself: 11 prompt and 4 completion tokens, 25 in all",)
    assert len(answer.chunk_ends) == 2
    agreed = read(with_total(2, 13, content="a") + with_total(4, 15, content="b") + DONE)
    assert (agreed.chunk_tokens, agreed.output_tokens, agreed.notes) == ((2, 2), 4, ())


def test_token_ids_count_where_usage_contradicts_itself() -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 9, "total_tokens": 3}
    last = event({"choices": [], "usage": usage})
    answer = read(delta(ids=[1, 2], content="a") + delta(ids=[3], content="b") + last + DONE)
    assert (answer.chunk_tokens, answer.output_tokens) == ((2, 1), 3)
    assert answer.tokens_are is TokenSource.TOKEN_IDS
    assert answer.notes == ("usage contradicts itself: 11 prompt and 9 completion tokens, 3 in all",)


def test_an_accepted_block_that_crosses_max_tokens_is_noted() -> None:
    answer = read(delta(3, content="a") + delta(6, content="b") + total(8) + DONE, max_tokens=6)
    assert answer.notes == (
        "usage says 8 tokens, the chunks carried 6",
        "usage says 8 tokens, max_tokens was 6",
    )


def test_usage_without_any_text_is_noted() -> None:
    answer = read(total(4) + DONE)
    assert answer.notes == ("usage says 4 tokens, no chunk carried any text",)


ERRORS = {
    "object": (event({"error": {"message": "KV cache is full", "code": 500}}), "KV cache is full"),
    "text": (event({"error": "boom"}), "boom"),
    "old vLLM": (event({"object": "error", "message": "out of memory"}), "out of memory"),
    "event line": ('event: error\ndata: {"message": "gone"}\n\n', "gone"),
}


@pytest.mark.parametrize(("bad", "words"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_event_is_a_fault_even_before_done(bad: str, words: str) -> None:
    answer = read(delta(content="a") + bad + DONE)
    assert answer.fault == f"error event in a 200 stream: {words}"
    assert len(answer.chunk_ends) == 1


@pytest.mark.parametrize("bad", ["{oops", "[1]", "7", '"x"', "\ufffe{"])
def test_a_chunk_that_is_no_object_keeps_what_came_before(bad: str) -> None:
    answer = read(delta(2, content="a") + f"data: {bad}\n\n" + delta(4, content="b") + DONE)
    assert answer.fault is not None
    assert answer.fault.startswith("event 2 is")
    assert answer.output_tokens == 2


def test_bytes_that_are_no_utf8_are_a_fault_not_a_crash() -> None:
    assert "not JSON" in (read(b'data: {"a":"\xff\xfe"}\n\n').fault or "")


@pytest.mark.parametrize(
    "choices", [[None], ["x"], [{"delta": None}], [{"delta": "text"}], {"a": 1}, "abc", 3]
)
def test_odd_choices_are_no_tokens(choices: Any) -> None:
    answer = read(event({"choices": choices, "usage": None}) + DONE)
    assert (answer.chunk_ends, answer.fault) == ((), None)


def test_ends() -> None:
    assert not read(delta(content="a")).terminated
    assert read(delta(content="a") + "data: [DONE]").terminated
    assert read(DONE).events == 0
    assert read(delta(content="a") + DONE + delta(content="late")).events == 1


@given(st.lists(st.integers(0, 2000), max_size=8))
@settings(deadline=None)
def test_pieces_do_not_matter(cuts: list[int]) -> None:
    body = (delta(2, content="é🌟") + ": ping\n\n" + delta(5, content="x") + total(5) + DONE).encode()
    edges = [0, *sorted(cut % len(body) for cut in cuts), len(body)]
    reader = TranscriptReader()
    for a, b in itertools.pairwise(edges):
        reader.feed(body[a:b])
    assert reader.transcript() == read(body)


def test_excerpts_are_one_short_printable_line() -> None:
    assert excerpt(b"a\r\n\x1b[31mb\x00 \xff") == "a [31mb \ufffd"
    assert len(excerpt("x" * 10_000)) == EXCERPT


def test_excerpts_hold_no_key_however_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    assert excerpt(b"incorrect key Bearer sk-0123456789.") == "incorrect key Bearer [API key]."
    assert "sk-0" not in excerpt("x" * (EXCERPT - 6) + "sk-0123456789")


def test_a_key_that_is_no_secret_hides_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    assert excerpt("EMPTY body") == "EMPTY body"
