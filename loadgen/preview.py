"""What a suite would send, looked at before it is sent: shares, lengths and samples of its first requests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import orjson

from engines.embedded.text import count_tokens
from loadgen.known_sets import licence_of
from loadgen.records import CellKey
from loadgen.traffic import Prompt, TrafficMix
from loadgen.transcript import excerpt
from suites.model import Suite, TrafficClass

SHOWN = 110  # characters of a sample


@dataclass(frozen=True, slots=True)
class Spread:
    """Least, 5th, 50th, 95th percentile (nearest rank) and most, in tokens."""

    least: int
    p5: int
    p50: int
    p95: int
    most: int

    @classmethod
    def of(cls, values: Sequence[int]) -> Spread | None:
        """None of nothing."""
        order = sorted(values)
        if not order:
            return None
        p5, p50, p95 = (order[max(0, -(-len(order) * percent // 100) - 1)] for percent in (5, 50, 95))
        return cls(order[0], p5, p50, p95, order[-1])


@dataclass(frozen=True, slots=True)
class ClassPreview:
    """`share`: by the weights. `turns`: most of one conversation.

    prompt_tokens   of a turn's own text, 4 bytes each, as the embedded engine counts; what was said before
                    comes on top
    """

    name: str
    source: str
    licence: str
    share: float
    requests: int
    turns: int
    prompt_tokens: Spread | None
    max_tokens: Spread | None
    samples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """`shares_by_phase`: of each class, in the order of the phases; () = no phase has a mix of its own.

    digest   SHA-256 over all that is sent of these requests: equal on any machine
    """

    suite: str
    seed: int
    concurrency: int
    requests: int
    digest: str
    classes: tuple[ClassPreview, ...]
    shares_by_phase: tuple[dict[str, float], ...]


def preview(suite: Suite, requests: int, samples: int) -> Preview:
    """The first `requests` of the suite's smallest point, first repeat. Raises TrafficError for a source."""
    concurrency = suite.load.concurrency[0]
    prompts = list(_first(suite, concurrency, requests))
    weights = {item.name: item.weight for item in suite.traffic}
    shares = _shares(suite, weights)
    phases = [phase.weights for phase in suite.load.phases or ()]
    mixed = any(mix is not None for mix in phases)
    return Preview(
        suite=suite.name,
        seed=suite.seed,
        concurrency=concurrency,
        requests=len(prompts),
        digest=hashlib.sha256(b"\n".join(map(orjson.dumps, prompts))).hexdigest(),
        classes=tuple(_of_class(item, shares[item.name], prompts, samples) for item in suite.traffic),
        shares_by_phase=tuple(_shares(suite, dict(mix or weights)) for mix in phases) if mixed else (),
    )


def _first(suite: Suite, concurrency: int, requests: int) -> Iterator[Prompt]:
    """As a load that keeps its streams in step would send them."""
    cell = TrafficMix(suite.traffic, suite.seed).cell(CellKey(suite.baseline.name, concurrency, 0))
    streams = [cell.stream(index) for index in range(concurrency)]
    return islice((next(stream) for _ in range(requests) for stream in streams), requests)


def _shares(suite: Suite, weights: dict[str, float]) -> dict[str, float]:
    total = sum(weights.values())
    return {item.name: weights.get(item.name, 0.0) / total for item in suite.traffic}


def _of_class(item: TrafficClass, share: float, prompts: Sequence[Prompt], samples: int) -> ClassPreview:
    own = [prompt for prompt in prompts if prompt.traffic_class == item.name]
    return ClassPreview(
        name=item.name,
        source=item.source,
        licence=licence_of(item.source),
        share=share,
        requests=len(own),
        turns=max((prompt.turn + 1 for prompt in own), default=0),
        prompt_tokens=Spread.of([count_tokens(prompt.text) for prompt in own]),
        max_tokens=Spread.of([prompt.max_tokens for prompt in own]),
        samples=tuple(_cut(excerpt(prompt.text)) for prompt in own[:samples]),
    )


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
