"""How a request ended, in one word and one sentence: status, bytes and faults in, outcome and reason out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

import orjson

from loadgen.reads import Reads
from loadgen.records import Outcome
from loadgen.transcript import Transcript, error_words, excerpt

REFUSALS = (429, 503)
EVENT_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")  # what an event stream begins with
LEAVE_OUT = {  # fields that not every server takes -> how to leave them out
    "continuous_usage_stats": "leave it out with --no-continuous-usage (tokens by chunk are then unknown)",
    "stream_options": "leave it out with --no-usage (token counts are then unknown)",
    "min_tokens": "leave it out of the suite's traffic class",
    "ignore_eos": "leave it out: ignore_eos = false in the suite, or no --ignore-eos",
}


class End(Enum):
    """What ended the exchange."""

    EOF = auto()  # the response ended by itself, or the connection did
    DEADLINE = auto()
    CANCEL = auto()
    FAULT = auto()  # before or while reading; the text says what


@dataclass(frozen=True, slots=True)
class Ending:
    """`text`: a plain sentence for a fault or a deadline, else empty."""

    end: End
    text: str = ""


def ending_of(reads: Reads) -> Ending:
    """A plain sentence. An end without a reset is an end: what the stream lacks then decides."""
    if reads.fault is not None:
        return Ending(End.FAULT, reads.fault)
    if reads.lost is None:
        return Ending(End.EOF)
    if isinstance(reads.lost, OSError):
        return Ending(End.FAULT, "connection reset in mid-stream" if reads.total else "connection reset")
    if reads.status is None:
        return Ending(End.FAULT, "the server closed the connection without an answer")
    return Ending(End.EOF)


def judge(
    status: int | None, headers: Mapping[str, str], reads: Reads, ending: Ending, transcript: Transcript
) -> tuple[Outcome, str | None]:
    """(outcome, why). For `done`, why holds contradictions worth a look."""
    if status in REFUSALS:
        return Outcome.REFUSED, _refusal(status, headers, reads)
    if status is not None and status != 200 and ending.end is not End.CANCEL:
        return Outcome.FAILED, _bad_status(status, reads)
    if transcript.fault is not None:
        return Outcome.FAILED, transcript.fault
    if transcript.terminated:
        if not transcript.events:
            return Outcome.FAILED, "[DONE] with no event before it"
        return Outcome.DONE, "; ".join(transcript.notes) or None
    return _unfinished(status, headers, reads, ending, transcript)


def _unfinished(
    status: int | None, headers: Mapping[str, str], reads: Reads, ending: Ending, transcript: Transcript
) -> tuple[Outcome, str]:
    got = (
        f"after {len(transcript.chunk_ends)} content chunks"
        if transcript.chunk_ends
        else "before any content"
    )
    if ending.end is End.DEADLINE:
        return Outcome.TIMED_OUT, f"{ending.text} {got}"
    if ending.end is End.CANCEL:
        return Outcome.CANCELLED, f"cancelled {got}"
    if ending.end is End.FAULT:
        return Outcome.FAILED, ending.text if status is None else f"{ending.text} {got}"
    if not transcript.events and reads.total and not reads.head().lstrip().startswith(EVENT_FIELDS):
        kind = headers.get("content-type", "no content type")
        return Outcome.FAILED, f"200, but no event stream ({excerpt(kind)}): {excerpt(reads.head())}"
    return Outcome.TRUNCATED, f"the stream ended without [DONE], {got}"


def _refusal(status: int | None, headers: Mapping[str, str], reads: Reads) -> str:
    wait = headers.get("retry-after")
    after = f" (Retry-After: {excerpt(wait)})" if wait is not None else ""
    return f"HTTP {status}{after}: {_words(reads)}"


def _bad_status(status: int, reads: Reads) -> str:
    words = _words(reads)
    for name, mend in LEAVE_OUT.items():
        if 400 <= status < 500 and name in words:
            return f"HTTP {status}: the server does not take {name}; {mend}: {words}"
    return f"HTTP {status}: {words}"


def _words(reads: Reads) -> str:
    body = reads.head()
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return excerpt(body) or "empty body"
    return error_words(parsed) if isinstance(parsed, dict) else excerpt(body)
