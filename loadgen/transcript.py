"""What a streamed answer said, read from its bytes: tokens with their source, faults, and whether it ended.

A chunk is never taken for a token. Counts come, in this order, from `usage` on every content chunk (vLLM's
`continuous_usage_stats`), from `token_ids`, or as a total from the last `usage`; else they are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, repeat
from typing import Any

import orjson

from engines.api_key import without_key
from loadgen.records import TokenSource
from loadgen.shape import Shape, shape_of
from loadgen.sse import SseParser
from suites.grammar import counted

DONE = b"[DONE]"
TEXT_FIELDS = ("content", "reasoning_content", "reasoning", "tool_calls", "refusal")
MOST_TOKENS = 10**9  # of an answer or a prompt; what says more counts nothing, and sums would overflow
WORTH_A_SHAPE = 32  # pieces at once
SHAPED_BY = 8  # of them are read as any others; the last is taken for one like those that follow
MOST_UNLIKE = 8  # pieces in a row that are not of the shape: it is no longer the stream's
EXCERPT = 200  # characters of a server's words that a record keeps


@dataclass(frozen=True, slots=True)
class Transcript:
    """One answer.

    chunk_ends     stream offset at which each content chunk was whole; a role or usage alone is no content
    chunk_tokens   tokens in each, None where the server did not say; held-back text set free counts 0
    output_tokens, prompt_tokens   totals, None = unknown
    events         SSE events before [DONE]
    terminated     [DONE] came
    fault          an error event, or an event that is not a JSON object: the answer failed
    notes          contradictions that do not spoil the answer
    """

    chunk_ends: tuple[int, ...]
    chunk_tokens: tuple[int, ...] | None
    output_tokens: int | None
    prompt_tokens: int | None
    tokens_are: TokenSource
    events: int
    terminated: bool
    fault: str | None
    notes: tuple[str, ...]


def excerpt(text: object) -> str:
    """A server's words, shortened and on one line: they are untrusted and end up in records and pages."""
    line = without_key(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text))
    line = " ".join("".join(c if c.isprintable() else " " for c in line[: 4 * EXCERPT]).split())
    return line if len(line) <= EXCERPT else line[: EXCERPT - 1] + "…"


class TranscriptReader:
    """Feed it the body's bytes in any pieces, then take `transcript()`."""

    def __init__(self) -> None:
        self._parser = SseParser()
        self._events = 0
        self._terminated = False
        self._fault: str | None = None
        self._ends: list[int] = []
        self._has_text: list[bool] = []
        self._so_far: list[int | None] = []  # usage.completion_tokens on the chunk
        self._ids: list[int | None] = []
        self._usage_total: int | None = None
        self._prompt_tokens: int | None = None
        self._shape: Shape | None = None
        self._odd_usage: str | None = None  # the first that contradicts itself: none of it is believed

    def feed(self, piece: bytes) -> None:
        for kind, data, end in self._parser.feed(piece):
            self._event(kind, data, end)

    def read(self, pieces: Sequence[bytes]) -> None:
        """As `feed` of each: quicker where a piece is an event, and most of them are of one shape."""
        at = unlike = 0
        if self._shape is None and len(pieces) >= WORTH_A_SHAPE:
            at = SHAPED_BY
            self.feed(b"".join(pieces[:at]))
            self._shape = shape_of(pieces[at - 1])
        while self._shape is not None and at < len(pieces):
            taken = self._take_alike(self._shape, pieces, at)
            at += taken
            self.feed(b"".join(pieces[at : at + 1]))
            at += 1
            unlike = 0 if taken else unlike + 1
            if unlike > MOST_UNLIKE:
                self._shape = None
        self.feed(b"".join(pieces[at:]))

    def _take_alike(self, shape: Shape, pieces: Sequence[bytes], at: int) -> int:
        """Takes events from `at` on as `feed` would, until one is not of the shape; how many it took."""
        if self._terminated or self._fault is not None or not self._parser.between_events:
            return 0
        taken, so_far, prompt = shape.run(pieces, at)
        start = self._parser.offset
        self._parser.pass_over(sum(map(len, pieces[at : at + taken])))
        self._events += taken
        self._ends += islice(accumulate(map(len, pieces[at : at + taken]), initial=start), 1, None)
        self._has_text += repeat(True, taken)
        self._ids += repeat(None, taken)
        self._so_far += so_far or repeat(None, taken)
        if so_far:
            self._usage_total, self._prompt_tokens = so_far[-1], prompt
        return taken

    def transcript(self, max_tokens: int | None = None) -> Transcript:
        """The answer so far; with `max_tokens`, a usage beyond it is noted."""
        terminated = self._terminated or self._parser.unfinished() == DONE
        chunks = self._chunks()
        usage = output = self._usage()
        if output is None and chunks.source is TokenSource.TOKEN_IDS:
            output = sum(chunks.tokens or ())
        return Transcript(
            chunk_ends=chunks.ends,
            chunk_tokens=chunks.tokens,
            output_tokens=output,
            prompt_tokens=None if self._odd_usage else self._prompt_tokens,
            tokens_are=chunks.source,
            events=self._events,
            terminated=terminated,
            fault=self._fault,
            notes=self._notes(chunks, usage, max_tokens) if terminated else (),
        )

    def _notes(self, chunks: _Chunks, usage: int | None, max_tokens: int | None) -> tuple[str, ...]:
        odd = () if self._odd_usage is None else (self._odd_usage,)
        return (*odd, *_contradictions(chunks, usage, max_tokens))

    def _event(self, kind: bytes, data: bytes, end: int) -> None:
        if self._terminated or self._fault is not None:
            return
        if data == DONE:
            self._terminated = True
            return
        self._events += 1
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            self._fault = f"event {self._events} is not JSON ({error}): {excerpt(data)}"
            return
        if type(chunk) is not dict:
            self._fault = f"event {self._events} is no JSON object: {excerpt(data)}"
        elif kind == b"error" or chunk.get("error") is not None or chunk.get("object") == "error":
            self._fault = f"error event in a 200 stream: {error_words(chunk)}"
        else:
            self._chunk(chunk, end)

    def _chunk(self, chunk: dict[str, Any], end: int) -> None:
        usage = chunk.get("usage")
        so_far = None if usage is None else self._count_usage(usage)
        choices = chunk.get("choices")
        if type(choices) is not list or not choices:
            return
        has_text, ids = _delivered(choices[0]) if len(choices) == 1 else _delivered_by(choices)
        if has_text or ids or so_far is not None:
            self._ends.append(end)
            self._has_text.append(has_text)
            self._so_far.append(so_far)
            self._ids.append(ids)

    def _count_usage(self, usage: object) -> int | None:
        """completion_tokens so far, noted as the total; None = it does not say."""
        if type(usage) is not dict:
            return None
        so_far, prompt = usage.get("completion_tokens"), usage.get("prompt_tokens")
        if type(prompt) is not int or not 0 <= prompt <= MOST_TOKENS:
            prompt = None
        else:
            self._prompt_tokens = prompt
        if type(so_far) is not int or not 0 <= so_far <= MOST_TOKENS:
            return None
        self._usage_total = so_far
        total = usage.get("total_tokens")
        if prompt is not None and type(total) is int and prompt + so_far != total >= 0:
            said = f"usage contradicts itself: {prompt} prompt and {so_far} completion tokens, {total} in all"
            self._odd_usage = self._odd_usage or said
        return so_far

    def _usage(self) -> int | None:
        """The last total; a 0 beside delivered text is a server that does not count."""
        if self._odd_usage is not None:
            return None
        return None if self._usage_total == 0 and any(self._has_text) else self._usage_total

    def _chunks(self) -> _Chunks:
        """Which chunks delivered, and how many tokens each: only known once all of them are seen."""
        counted = [so_far for so_far, text in zip(self._so_far, self._has_text, strict=True) if text]
        if counted and None not in counted and self._odd_usage is None:
            steps = _rises(self._so_far)
            if sum(steps) > 0 and min(steps) >= 0:
                kept = [i for i, step in enumerate(steps) if step > 0 or self._has_text[i]]
                return _Chunks.of(self._ends, kept, steps, TokenSource.CONTINUOUS_USAGE)
        kept = [i for i, text in enumerate(self._has_text) if text or self._ids[i]]
        if kept and all(self._ids[i] is not None for i in kept):
            return _Chunks.of(self._ends, kept, [n or 0 for n in self._ids], TokenSource.TOKEN_IDS)
        source = TokenSource.UNKNOWN if self._usage() is None else TokenSource.USAGE
        return _Chunks.of(self._ends, kept, None, source)


@dataclass(frozen=True, slots=True)
class _Chunks:
    ends: tuple[int, ...]
    tokens: tuple[int, ...] | None
    source: TokenSource

    @classmethod
    def of(
        cls, ends: Sequence[int], kept: Sequence[int], tokens: Sequence[int] | None, source: TokenSource
    ) -> _Chunks:
        picked = None if tokens is None else tuple(tokens[i] for i in kept)
        return cls(tuple(ends[i] for i in kept), picked, source)


def _delivered(choice: Any) -> tuple[bool, int | None]:
    """(some text came, how many token ids came or None when the server lists none)."""
    if type(choice) is not dict:
        return False, None
    delta, listed = choice.get("delta"), choice.get("token_ids")
    text = bool(choice.get("text"))
    if not text and type(delta) is dict:
        text = bool(delta.get("content")) or any(delta.get(field) for field in TEXT_FIELDS)
    return text, len(listed) if type(listed) is list else None


def _delivered_by(choices: Sequence[Any]) -> tuple[bool, int | None]:
    """As `_delivered`, over all of them."""
    each = [_delivered(choice) for choice in choices]
    listed = [ids for _, ids in each if ids is not None]
    return any(text for text, _ in each), sum(listed) if listed else None


def _rises(totals: Sequence[int | None]) -> list[int]:
    """Tokens that each chunk added to a running total; a chunk without one added nothing that we know of."""
    rises, before = [], 0
    for total in totals:
        now = before if total is None else total
        rises.append(now - before)
        before = now
    return rises


def _contradictions(chunks: _Chunks, usage: int | None, max_tokens: int | None) -> tuple[str, ...]:
    notes = []
    if usage is not None and chunks.tokens is not None and sum(chunks.tokens) != usage:
        notes.append(f"usage says {counted(usage, 'token')}, the chunks carried {sum(chunks.tokens)}")
    if usage and not chunks.ends:
        notes.append(f"usage says {counted(usage, 'token')}, no chunk carried any text")
    if usage is not None and max_tokens is not None and usage > max_tokens:
        notes.append(f"usage says {counted(usage, 'token')}, max_tokens was {max_tokens}")
    return tuple(notes)


def error_words(body: Mapping[str, Any]) -> str:
    """The message of an OpenAI-style error object, else an excerpt of the whole."""
    error = body.get("error", body)
    message = error.get("message") if isinstance(error, dict) else error
    return excerpt(message if isinstance(message, str) and message else orjson.dumps(body))
