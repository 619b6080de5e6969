"""Which prompt each stream sends next: a weighted mix of classes, equal for every arm, fixed by one seed."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from random import Random
from statistics import fmean

from engines.embedded.text import BYTES_PER_TOKEN
from loadgen.lengths import drawn
from loadgen.offline_prompts import DEFAULT_GENERATOR, GENERATORS, of_bytes, of_words
from loadgen.records import CellKey
from loadgen.rows import Row
from suites.model import Lengths, TrafficClass

GOLDEN = 0.6180339887498949  # the golden ratio's fraction: its multiples spread evenly over 0..1
SAMPLE = 100  # of requests, for how many tokens they ask on average


class TrafficError(Exception):
    """Prompts cannot be had; the message names the source and the mend. A usage error (exit code 2)."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request. `seed` goes to the server; it fixes the embedded engine's text and acceptance draws.

    min_tokens, body      sent as they are; None = not sent
    conversation, turn    of a request that is a turn of several: whose, and its number from 0; None = alone
    last                  no turn of the conversation follows
    """

    text: str
    traffic_class: str
    max_tokens: int
    ignore_eos: bool
    seed: int
    min_tokens: int | None = None
    body: Mapping[str, object] | None = None
    conversation: str | None = None
    turn: int = 0
    last: bool = True

    @property
    def least_tokens(self) -> int | None:
        """What the server was asked for at least; None = it may stop when it likes."""
        return self.max_tokens if self.ignore_eos else self.min_tokens


class TrafficMix:
    """`classes` with their weights. Raises TrafficError when a source cannot be read.

    Prompts of a hub or file source are drawn without repetition until all have been used.
    """

    def __init__(self, classes: Sequence[TrafficClass], seed: int) -> None:
        if not classes:
            raise TrafficError("no traffic class: give at least one, such as offline gsm8k")
        self._classes = tuple(classes)
        self._seed = seed
        self._rows = [_rows(item, seed) for item in classes]

    def rows_sha256(self) -> dict[str, str]:
        """Of each class with a hub or file source: over the rows that it takes, in order."""
        named = zip(self._classes, self._rows, strict=True)
        return {item.name: _sha256(rows) for item, rows in named if rows is not None}

    def cell(self, key: CellKey) -> CellPrompts:
        """The prompts of one cell: they depend on seed, repeat and concurrency, never on the arm (pairs)."""
        name = f"{self._seed}/{key.repeat}/{key.concurrency}"
        weights = {item.name: item.weight for item in self._classes}
        return CellPrompts(self._classes, self._rows, name, key.concurrency, weights)


class CellPrompts:
    """`stream(i)`: the endless prompts of stream i; what other streams do does not change them. Turns of a

    conversation follow one another in one stream: whoever sends them waits for the answer in between.

    `name` is what all draws of the cell come from: its prompts, and the times at which they are due.
    """

    def __init__(
        self,
        classes: Sequence[TrafficClass],
        rows: Sequence[Sequence[Row] | None],
        name: str,
        concurrency: int,
        weights: Mapping[str, float],
    ) -> None:
        self._classes = classes
        self.name = name
        self._all_rows = rows
        self._concurrency = concurrency
        rng = Random(name)
        self._phase = rng.random()
        shares = [weights.get(item.name, 0.0) for item in classes]
        self._edges = [edge / sum(shares) for edge in accumulate(shares)]
        self._rows = [None if known is None else _shuffled(known, rng) for known in rows]
        self._ranks = array("q")  # of each conversation among those of its class
        self._counts = [0] * len(classes)

    @property
    def mean_tokens(self) -> float:
        """What a request asks for, about: of a few of them, a first turn each."""
        rng = Random(f"{self.name}/mean")
        return fmean(self._tokens(number, rng) for number in range(SAMPLE))

    def _tokens(self, number: int, rng: Random) -> int:
        at = self._class(number)
        rows = self._rows[at]
        own = None if rows is None else rows[number % len(rows)].max_tokens
        return own or drawn(self._classes[at].max_tokens, rng)

    def stream(self, index: int) -> Iterator[Prompt]:
        for turn in count():
            yield from self._conversation(turn * self._concurrency + index)

    def part(self, name: str, weights: Mapping[str, float] | None, streams: int) -> CellPrompts:
        """Other prompts of the same cell, for `streams` streams: of a phase's mix, or of a burst's."""
        if weights is None:
            weights = {item.name: item.weight for item in self._classes}
        return CellPrompts(self._classes, self._all_rows, f"{self.name}/{name}", streams, weights)

    def _class(self, number: int) -> int:
        """Classes follow a low-discrepancy sequence: short runs of requests hold the mix too."""
        place = (self._phase + number * GOLDEN) % 1.0
        return next((i for i, edge in enumerate(self._edges) if place < edge), len(self._edges) - 1)

    def _rank(self, number: int) -> int:
        """How many conversations of the same class the cell has before this one."""
        for known in range(len(self._ranks), number + 1):
            at = self._class(known)
            self._ranks.append(self._counts[at])
            self._counts[at] += 1
        return self._ranks[number]

    def _conversation(self, number: int) -> Iterator[Prompt]:
        at = self._class(number)
        item, rows, name = self._classes[at], self._rows[at], f"{self.name}/{number}"
        row = None if rows is None else rows[self._rank(number) % len(rows)]
        turns = (item.turns or 1) if row is None else min(item.turns or 1, len(row.turns))
        rng = Random(name)
        lengths = Random(f"{name}/lengths") if varies(item) else rng
        for turn in range(turns):
            seed = int(rng.random() * 2**31)
            text = made(item, rng, lengths) if row is None else row.turns[turn]
            tokens = (row and row.max_tokens) or drawn(item.max_tokens, lengths)
            yield Prompt(
                text,
                item.name,
                tokens,
                item.ignore_eos,
                seed,
                None if item.min_tokens is None else min(item.min_tokens, tokens),
                item.body,
                conversation=name if turns > 1 else None,
                turn=turn,
                last=turn == turns - 1,
            )


def varies(item: TrafficClass) -> bool:
    """Whether a length of the class is drawn anew for each request."""
    return isinstance(item.max_tokens, Lengths) or isinstance(item.prompt_tokens, Lengths)


def made(item: TrafficClass, rng: Random, lengths: Random) -> str:
    """An offline prompt of the class, as long as it says."""
    generate = GENERATORS.get(item.name, DEFAULT_GENERATOR)
    if item.prompt_tokens is not None:
        return of_bytes(generate, rng, BYTES_PER_TOKEN * drawn(item.prompt_tokens, lengths))
    return generate(rng) if item.prompt_words is None else of_words(generate, rng, item.prompt_words)


def _shuffled(rows: Sequence[Row], rng: Random) -> list[Row]:
    """Fisher-Yates on `random()`, whose stream Python keeps across versions; `shuffle` may change."""
    order = list(rows)
    for last in range(len(order) - 1, 0, -1):
        other = int(rng.random() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


def _sha256(rows: Sequence[Row]) -> str:
    made = hashlib.sha256()
    for row in rows:
        made.update(repr((row.turns, row.max_tokens)).encode("utf-8", "surrogatepass"))
    return made.hexdigest()


def _rows(item: TrafficClass, seed: int) -> Sequence[Row] | None:
    """What a source has; None for the offline generator, which makes prompts as they are asked for."""
    kind, _, where = item.source.partition(":")
    if kind == "offline" and not where:
        return None
    if kind not in ("hub", "file") or not where:
        raise TrafficError(
            f"traffic {item.name}: source {item.source!r} is none of offline, hub:ID, file:PATH"
        )
    from loadgen.hub import set_rows

    return set_rows(item, seed)
