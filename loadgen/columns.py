"""Request records as columns: some 80 bytes a request and 9 a chunk; a record takes two kilobytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadgen.records import CellKey, Outcome, RequestRecord

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

OUTCOMES = tuple(Outcome)


class Times(NamedTuple):
    """`values` float64 (R,), anything where `known` bool (R,) is False: it never happened."""

    values: FloatArray
    known: BoolArray


class Counts(NamedTuple):
    """`values` int64 (R,), 0 where `known` bool (R,) is False."""

    values: IntArray
    known: BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class RequestColumns:
    """R requests in the order of their file, their N chunks end to end. Times as RequestRecord has them.

    cells          whose they are
    outcome        number in OUTCOMES; traffic_class: number in `classes`
    chunk_ends     int64 (R + 1,): chunks of request r are chunk_ends[r] .. chunk_ends[r + 1]
    chunk_tokens   integers (N,), as narrow as they allow; 0 where `by_chunk` (R,) is False: nobody said
    aligned        False: some request has more or fewer counts than chunks, and no counts are here
    has_why        a reason was given; first_why: the first, first_contradiction: the first of a measured one
    """

    cells: frozenset[CellKey]
    due_s: FloatArray
    sent_s: Times
    first_byte_s: Times
    first_token_s: Times
    done_s: Times
    prompt_tokens: Counts
    output_tokens: Counts
    outcome: NDArray[np.uint8]
    warmup: BoolArray
    traffic_class: NDArray[np.int32]
    classes: tuple[str, ...]
    chunk_ends: IntArray
    chunk_times_s: FloatArray
    chunk_tokens: NDArray[np.integer[Any]]
    by_chunk: BoolArray
    aligned: bool
    has_why: BoolArray
    first_why: str | None
    first_contradiction: str | None

    def __len__(self) -> int:
        return len(self.due_s)

    @property
    def chunks(self) -> IntArray:
        """Of each request: int64 (R,)."""
        lengths: IntArray = np.diff(self.chunk_ends)
        return lengths

    @property
    def measured(self) -> BoolArray:
        """Requests that enter latencies: done, not warm-up."""
        return measured(self.outcome, self.warmup)


def measured(outcome: NDArray[np.uint8], warmup: BoolArray) -> BoolArray:
    """Done, not warm-up: bool (R,)."""
    found: BoolArray = (outcome == OUTCOMES.index(Outcome.DONE)) & ~warmup
    return found


def request_columns(records: Iterable[RequestRecord]) -> RequestColumns:
    """Columns of records that are all held at once: a large file is read in parts, and those are joined."""
    kept = list(records)
    classes = {name: number for number, name in enumerate(dict.fromkeys(r.traffic_class for r in kept))}
    whys = [record.why for record in kept]
    outcome = np.array([OUTCOMES.index(record.outcome) for record in kept], dtype=np.uint8)
    warmup = np.array([record.warmup for record in kept], dtype=np.bool_)
    lengths = np.array([len(record.chunk_times_s) for record in kept], dtype=np.int64)
    tokens = [record.chunk_tokens for record in kept]
    counts = Counts(
        np.array([len(each or ()) for each in tokens], dtype=np.int64),
        np.array([each is not None for each in tokens], dtype=np.bool_),
    )
    chunk_tokens, aligned = laid(
        lengths, counts, integers(list(chain.from_iterable(t or () for t in tokens)))
    )
    return RequestColumns(
        cells=frozenset(CellKey(record.arm, record.concurrency, record.repeat) for record in kept),
        due_s=np.array([record.due_s for record in kept], dtype=np.float64),
        sent_s=_times([record.sent_s for record in kept]),
        first_byte_s=_times([record.first_byte_s for record in kept]),
        first_token_s=_times([record.first_token_s for record in kept]),
        done_s=_times([record.done_s for record in kept]),
        prompt_tokens=_counts([record.prompt_tokens for record in kept]),
        output_tokens=_counts([record.output_tokens for record in kept]),
        outcome=outcome,
        warmup=warmup,
        traffic_class=np.array([classes[record.traffic_class] for record in kept], dtype=np.int32),
        classes=tuple(classes),
        chunk_ends=ends(lengths),
        chunk_times_s=np.fromiter(chain.from_iterable(r.chunk_times_s for r in kept), np.float64),
        chunk_tokens=chunk_tokens,
        by_chunk=counts.known,
        aligned=aligned,
        has_why=np.array([bool(why) for why in whys], dtype=np.bool_),
        first_why=next(filter(None, whys), None),
        first_contradiction=first_of(whys, measured(outcome, warmup)),
    )


def joined(parts: Sequence[RequestColumns]) -> RequestColumns:
    """All of them in one, in their order; one column at a time, so that little is there twice."""
    parts = parts or [request_columns(())]
    classes = {name: number for number, name in enumerate(dict.fromkeys(n for p in parts for n in p.classes))}
    numbers = [np.array([classes[name] for name in part.classes], dtype=np.int32) for part in parts]

    def column(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    def pair(name: str) -> tuple[Any, Any]:
        columns = [getattr(part, name) for part in parts]
        return np.concatenate([each.values for each in columns]), np.concatenate(
            [each.known for each in columns]
        )

    return RequestColumns(
        cells=frozenset().union(*(part.cells for part in parts)),
        due_s=column("due_s"),
        sent_s=Times(*pair("sent_s")),
        first_byte_s=Times(*pair("first_byte_s")),
        first_token_s=Times(*pair("first_token_s")),
        done_s=Times(*pair("done_s")),
        prompt_tokens=Counts(*pair("prompt_tokens")),
        output_tokens=Counts(*pair("output_tokens")),
        outcome=column("outcome"),
        warmup=column("warmup"),
        traffic_class=np.concatenate([own[p.traffic_class] for own, p in zip(numbers, parts, strict=True)]),
        classes=tuple(classes),
        chunk_ends=ends(np.concatenate([part.chunks for part in parts])),
        chunk_times_s=column("chunk_times_s"),
        chunk_tokens=column("chunk_tokens"),
        by_chunk=column("by_chunk"),
        aligned=all(part.aligned for part in parts),
        has_why=column("has_why"),
        first_why=next((part.first_why for part in parts if part.first_why), None),
        first_contradiction=next((p.first_contradiction for p in parts if p.first_contradiction), None),
    )


def ends(lengths: IntArray) -> IntArray:
    """Where each of some lists laid end to end begins, and last where the last one ends: int64 (R + 1,)."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])


def laid(lengths: IntArray, counts: Counts, tokens: IntArray) -> tuple[NDArray[np.integer[Any]], bool]:
    """(chunk_tokens, aligned), of requests with `lengths` chunks and lists of `counts` tokens, end to end."""
    if not np.array_equal(counts.values[counts.known], lengths[counts.known]):
        return np.zeros(int(lengths.sum()), dtype=np.int8), False
    least = min(int(tokens.min(initial=0)), -1 - int(tokens.max(initial=0)))
    found = np.zeros(int(lengths.sum()), np.min_scalar_type(least))  # signed: it holds the largest too
    found[np.repeat(counts.known, lengths)] = tokens
    return found, True


def integers(values: Sequence[int]) -> IntArray:
    """int64 (N,); one that does not fit is cut off where no count of a request comes near."""
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array([max(-(2**62), min(value, 2**62)) for value in values], dtype=np.int64)


def first_of(whys: Sequence[str | None], chosen: BoolArray) -> str | None:
    """The first reason that one of the chosen has."""
    return next((why for why, wanted in zip(whys, chosen, strict=True) if why and wanted), None)


def _times(values: Sequence[float | None]) -> Times:
    known = np.array([value is not None for value in values], dtype=np.bool_)
    return Times(np.array(values, dtype=np.float64), known)  # None becomes NaN


def _counts(values: Sequence[int | None]) -> Counts:
    known = np.array([value is not None for value in values], dtype=np.bool_)
    return Counts(integers([value or 0 for value in values]), known)
