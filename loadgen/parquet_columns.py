"""Request columns straight from a Parquet file: numpy's arrays out of Arrow's, no object a request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from loadgen.columns import (
    OUTCOMES,
    BoolArray,
    Counts,
    IntArray,
    RequestColumns,
    Times,
    ends,
    laid,
    measured,
)
from loadgen.parquet import checked, scan_groups
from loadgen.records import CellKey, TokenSource


def scan_columns(path: Path) -> Iterator[RequestColumns]:
    """Its columns, a row group at a time. Raises ParquetFault for whatever is wrong with it."""
    return scan_groups(path, lambda table, hints: _columns(_Group(table, hints)))


class _Words(NamedTuple):
    """`numbers` int64 (R,): a row's place in `words`, which ends with None for rows without one."""

    numbers: IntArray
    words: Sequence[str | None]

    def each(self) -> list[str | None]:
        return [self.words[number] for number in self.numbers]


class _Group(NamedTuple):
    """A row group, every column of which is looked at, wanted or not: what is torn is no record."""

    table: Any
    hints: dict[str, Any]

    def array(self, name: str) -> Any:
        array = checked(self.table.column(name), self.hints[name])
        array.validate(full=True)
        return array

    def plain(self, name: str) -> Any:
        return self.array(name).to_numpy(zero_copy_only=False)

    def known(self, name: str) -> tuple[Any, BoolArray]:
        """(values, 0 where there is none; where there is one)."""
        array = self.array(name)
        return array.fill_null(0).to_numpy(zero_copy_only=False), array.is_valid().to_numpy(
            zero_copy_only=False
        )

    def lists(self, name: str) -> tuple[Counts, Any]:
        """(length of each, None for one that is not there; the values of all, end to end)."""
        array = self.array(name)
        flat = array.flatten()
        if flat.null_count:
            raise ValueError("a list has a hole")
        lengths = array.value_lengths()
        known = lengths.is_valid().to_numpy(zero_copy_only=False)
        counts = Counts(lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), known)
        return counts, flat.to_numpy(zero_copy_only=False)

    def words(self, name: str) -> _Words:
        if name not in self.hints:
            return _Words(np.zeros(len(self.table), dtype=np.int64), [None])
        coded = self.array(name).dictionary_encode()
        words = coded.dictionary.to_pylist()
        return _Words(coded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False), [*words, None])


def _columns(of: _Group) -> RequestColumns:
    codes = {str(outcome): number for number, outcome in enumerate(OUTCOMES)}
    whys, outcomes, names = of.words("why"), of.words("outcome"), of.words("traffic_class")
    outcome = np.array([codes[str(word)] for word in outcomes.words[:-1]], dtype=np.uint8)[outcomes.numbers]
    warmup = of.plain("warmup") if "warmup" in of.hints else np.zeros(len(of.table), dtype=np.bool_)
    lengths, times = of.lists("chunk_times_s")
    counts, tokens = of.lists("chunk_tokens")
    chunk_tokens, aligned = laid(lengths.values, counts, tokens)
    given = np.array([bool(word) for word in whys.words])[whys.numbers]
    _check_the_rest(of)
    return RequestColumns(
        cells=_cells(of),
        due_s=of.plain("due_s"),
        sent_s=Times(*of.known("sent_s")),
        first_byte_s=Times(*of.known("first_byte_s")),
        first_token_s=Times(*of.known("first_token_s")),
        done_s=Times(*of.known("done_s")),
        prompt_tokens=Counts(*of.known("prompt_tokens")),
        output_tokens=Counts(*of.known("output_tokens")),
        outcome=outcome,
        warmup=warmup,
        traffic_class=names.numbers.astype(np.int32),
        classes=tuple(map(str, names.words[:-1])),
        chunk_ends=ends(lengths.values),
        chunk_times_s=times,
        chunk_tokens=chunk_tokens,
        by_chunk=counts.known,
        aligned=aligned,
        has_why=given,
        first_why=_first(whys, given),
        first_contradiction=_first(whys, given & measured(outcome, warmup)),
    )


def _first(whys: _Words, chosen: BoolArray) -> str | None:
    return whys.words[whys.numbers[int(np.argmax(chosen))]] if chosen.any() else None


def _cells(of: _Group) -> frozenset[CellKey]:
    rows = zip(
        of.words("arm").each(), of.plain("concurrency").tolist(), of.plain("repeat").tolist(), strict=True
    )
    return frozenset(CellKey(str(arm), concurrency, repeat) for arm, concurrency, repeat in set(rows))


def _check_the_rest(of: _Group) -> None:
    """Columns that no figure is made of are still to be what the schema says."""
    for word in of.words("tokens_are").words[:-1]:
        TokenSource(str(word))
    for name in ("request", "max_tokens", "conversation", "turn"):
        if name in of.hints:
            of.array(name)
