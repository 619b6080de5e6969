"""Which prompt each stream sends next: a weighted mix of classes, equal for every arm, fixed by one seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from pathlib import Path
from random import Random

from loadgen.offline_prompts import DEFAULT_GENERATOR, GENERATORS
from loadgen.records import CellKey
from suites.model import TrafficClass

GOLDEN = 0.6180339887498949  # the golden ratio's fraction: its multiples spread evenly over 0..1


class TrafficError(Exception):
    """Prompts cannot be had; the message names the source and the mend. A usage error (exit code 2)."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request. `seed` goes to the server; it fixes the embedded engine's text and acceptance draws."""

    text: str
    traffic_class: str
    max_tokens: int
    ignore_eos: bool
    seed: int


class TrafficMix:
    """`classes` with their weights. Raises TrafficError when a source cannot be read.

    Prompts of a hub or file source are drawn without repetition until all have been used.
    """

    def __init__(self, classes: Sequence[TrafficClass], seed: int) -> None:
        if not classes:
            raise TrafficError("no traffic class: give at least one, such as offline gsm8k")
        self._classes = tuple(classes)
        self._seed = seed
        self._texts = [_texts(item) for item in classes]

    def cell(self, key: CellKey) -> CellPrompts:
        """The prompts of one cell: they depend on seed, repeat and concurrency, never on the arm (pairs)."""
        name = f"{self._seed}/{key.repeat}/{key.concurrency}"
        weights = {item.name: item.weight for item in self._classes}
        return CellPrompts(self._classes, self._texts, name, key.concurrency, weights)


class CellPrompts:
    """`stream(i)`: the endless prompts of stream i; what other streams do does not change them.

    `name` is what all draws of the cell come from: its prompts, and the times at which they are due.
    """

    def __init__(
        self,
        classes: Sequence[TrafficClass],
        texts: Sequence[Sequence[str] | None],
        name: str,
        concurrency: int,
        weights: Mapping[str, float],
    ) -> None:
        self._classes = classes
        self.name = name
        self._all_texts = texts
        self._concurrency = concurrency
        rng = Random(name)
        self._phase = rng.random()
        shares = [weights.get(item.name, 0.0) for item in classes]
        self._edges = [edge / sum(shares) for edge in accumulate(shares)]
        self._texts = [None if known is None else _shuffled(known, rng) for known in texts]

    def stream(self, index: int) -> Iterator[Prompt]:
        for turn in count():
            yield self._prompt(turn * self._concurrency + index)

    def part(self, name: str, weights: Mapping[str, float] | None, streams: int) -> CellPrompts:
        """Other prompts of the same cell, for `streams` streams: of a phase's mix, or of a burst's."""
        if weights is None:
            weights = {item.name: item.weight for item in self._classes}
        return CellPrompts(self._classes, self._all_texts, f"{self.name}/{name}", streams, weights)

    def _prompt(self, number: int) -> Prompt:
        """Classes follow a low-discrepancy sequence: short runs of requests hold the mix too."""
        place = (self._phase + number * GOLDEN) % 1.0
        at = next((i for i, edge in enumerate(self._edges) if place < edge), len(self._edges) - 1)
        item, known = self._classes[at], self._texts[at]
        rng = Random(f"{self.name}/{number}")
        seed = int(rng.random() * 2**31)
        text = made(item, rng) if known is None else known[number % len(known)]
        return Prompt(text, item.name, item.max_tokens, item.ignore_eos, seed)


def made(item: TrafficClass, rng: Random) -> str:
    """An offline prompt of the class, as long as it says: texts one after another, cut to their words."""
    generate = GENERATORS.get(item.name, DEFAULT_GENERATOR)
    text = generate(rng)
    if item.prompt_words is None:
        return text
    words = text.split()
    while len(words) < item.prompt_words:
        words += generate(rng).split()
    return " ".join(words[: item.prompt_words])


def _shuffled(texts: Sequence[str], rng: Random) -> list[str]:
    """Fisher-Yates on `random()`, whose stream Python keeps across versions; `shuffle` may change."""
    order = list(texts)
    for last in range(len(order) - 1, 0, -1):
        other = int(rng.random() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return order


def _texts(item: TrafficClass) -> Sequence[str] | None:
    """All prompts of a source; None for the offline generator, which makes them as they are asked for."""
    kind, _, where = item.source.partition(":")
    if kind == "offline" and not where:
        return None
    if kind not in ("hub", "file") or not where:
        raise TrafficError(
            f"traffic {item.name}: source {item.source!r} is none of offline, hub:ID, file:PATH"
        )
    from loadgen.hub import file_prompts, hub_prompts

    if kind == "hub":
        return hub_prompts(where, item.split, item.column)
    return file_prompts(Path(where), item.column)
