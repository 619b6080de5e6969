"""What an engine's /metrics says a cell did: speculation counters, and how an embedded engine kept up.

Names of vLLM and of llama.cpp. `_created` gauges are no counters. A metric that is missing is None, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

PREFIXES = ("vllm:", "llamacpp:")
SPECULATION = {
    "drafts": "spec_decode_num_drafts_total",
    "draft_tokens": "spec_decode_num_draft_tokens_total",
    "accepted_tokens": "spec_decode_num_accepted_tokens_total",
}
ACCEPTED_BY_POSITION = "spec_decode_num_accepted_tokens_per_pos_total"
REACHED_BY_POSITION = "depthgate:spec_decode_num_reached_tokens_per_pos_total"
LAG = "depthgate:engine_lag"
MOST = 2.0**53  # beyond it a float does not count by one
MOST_POSITIONS = 256  # no engine drafts deeper; a server's labels are not trusted with our memory
SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*$")
SPLIT = re.compile(r'(?:^|,)\s*(?:position="(?=\d+")|le=")(\d+(?:\.\d+)?|\+Inf)"')


class CounterReset(Exception):
    """A counter fell: the engine restarted between two scrapes, and the cell is invalid."""


@dataclass(frozen=True, slots=True)
class EngineCounters:
    """Lifetime counts at one scrape, or the difference of two. None = the engine does not publish it."""

    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_by_position: tuple[int, ...] | None = None
    reached_by_position: tuple[int, ...] | None = None

    @property
    def possible(self) -> bool:
        """Nothing is accepted that was not drafted, as far as is known."""
        accepted, at_a_position = self.accepted_tokens or 0, max(self.accepted_by_position or (), default=0)
        fits = self.draft_tokens is None or accepted <= self.draft_tokens
        return fits and (self.drafts is None or at_a_position <= self.drafts)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted of all drafted tokens; None when nothing was drafted."""
        if self.accepted_tokens is None or not self.draft_tokens:
            return None
        return self.accepted_tokens / self.draft_tokens

    @property
    def acceptance_length(self) -> float | None:
        """Tokens a verification emits, bonus token included: 1 + accepted / drafts; 1 without drafts."""
        if self.drafts is None or self.accepted_tokens is None:
            return None
        return 1.0 + (self.accepted_tokens / self.drafts if self.drafts else 0.0)

    @property
    def rate_by_position(self) -> tuple[float, ...] | None:
        """Unconditional acceptance at each position, over all drafts; None when nothing was drafted."""
        if self.accepted_by_position is None or not self.drafts:
            return None
        return tuple(count / self.drafts for count in self.accepted_by_position)


@dataclass(frozen=True, slots=True)
class EngineLag:
    """How an embedded engine kept up with its model; a lifetime so far, or the difference of two scrapes.

    `late_s` and `modelled_s` are sums over `steps`. `within[bound_s]`: steps at most that late (a histogram).
    """

    steps: float
    late_s: float
    modelled_s: float
    max_s: float
    within: Mapping[float, float]


@dataclass(frozen=True, slots=True)
class Scrape:
    """One reading of /metrics. None = the engine does not say.

    max_num_seqs: what it runs at once. governor_errors: calls of its governor that failed so far.
    """

    counters: EngineCounters = EngineCounters()
    lag: EngineLag | None = None
    max_num_seqs: int | None = None
    governor_errors: int | None = None


def read_metrics(text: str | None) -> Scrape:
    """Parses Prometheus text; lines that are none are passed over. None (no /metrics): an empty scrape."""
    totals: dict[str, float] = {}
    split: dict[str, dict[float, float]] = {}  # by draft position, or by a bucket's bound
    for name, labels, value in _samples(text or ""):
        place = SPLIT.search(labels)
        if place is None:
            totals[name] = totals.get(name, 0.0) + value  # data parallel: one line an engine
        else:
            at, cells = float(place[1]), split.setdefault(name, {})
            cells[at] = cells.get(at, 0.0) + value
    return Scrape(
        counters=_counters(totals, split),
        lag=_lag(totals, split),
        max_num_seqs=_whole(totals.get("depthgate:max_num_seqs")),
        governor_errors=_whole(totals.get("depthgate:governor_errors_total")),
    )


def counters_between(before: EngineCounters, after: EngineCounters) -> EngineCounters:
    """What was counted in between. Raises CounterReset when a counter fell."""
    totals = {}
    for name in SPECULATION:
        totals[name] = _rise(name, getattr(before, name), getattr(after, name))
    return EngineCounters(
        **totals,
        accepted_by_position=_rises(
            ACCEPTED_BY_POSITION, before.accepted_by_position, after.accepted_by_position
        ),
        reached_by_position=_rises(
            REACHED_BY_POSITION, before.reached_by_position, after.reached_by_position
        ),
    )


def lag_between(before: EngineLag | None, after: EngineLag | None) -> EngineLag | None:
    """The cell's own lag; None when the engine does not report any."""
    if after is None:
        return None
    if before is None:
        return after
    within = {bound: count - before.within.get(bound, 0.0) for bound, count in after.within.items()}
    return EngineLag(
        steps=after.steps - before.steps,
        late_s=after.late_s - before.late_s,
        modelled_s=after.modelled_s - before.modelled_s,
        max_s=min(after.max_s, _bound(within)) if after.max_s <= before.max_s else after.max_s,
        within=within,
    )


def _bound(within: Mapping[float, float]) -> float:
    """The smallest bucket that holds every step: the worst lag, rounded up."""
    most = max(within.values(), default=0.0)
    return min((bound for bound, count in within.items() if count == most), default=float("inf"))


def _samples(text: str) -> Iterator[tuple[str, str, float]]:
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        if abs(value) < MOST:  # False for NaN too
            yield match[1], match[2] or "", value


def _counters(totals: Mapping[str, float], split: Mapping[str, Mapping[float, float]]) -> EngineCounters:
    prefix = next((p for p in PREFIXES if p + SPECULATION["draft_tokens"] in totals), PREFIXES[0])
    values = {field: _whole(totals.get(prefix + name)) for field, name in SPECULATION.items()}
    return EngineCounters(
        **values,
        accepted_by_position=_by_position(split.get(prefix + ACCEPTED_BY_POSITION)),
        reached_by_position=_by_position(split.get(REACHED_BY_POSITION)),
    )


def _lag(totals: Mapping[str, float], split: Mapping[str, Mapping[float, float]]) -> EngineLag | None:
    steps, late_s = totals.get(f"{LAG}_count"), totals.get(f"{LAG}_sum")
    modelled_s, max_s = totals.get("depthgate:modelled_seconds_total"), totals.get(f"{LAG}_max_seconds")
    if steps is None or late_s is None or modelled_s is None or max_s is None:
        return None
    return EngineLag(steps, late_s, modelled_s, max_s, split.get(f"{LAG}_bucket", {}))


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _by_position(counts: Mapping[float, float] | None) -> tuple[int, ...] | None:
    if not counts:
        return None
    return tuple(round(counts.get(at, 0.0)) for at in range(int(min(max(counts), MOST_POSITIONS - 1)) + 1))


def _rise(name: str, before: int | None, after: int | None) -> int | None:
    if after is None:
        return None
    if before is not None and after < before:
        raise CounterReset(f"engine restarted during the cell: {name} fell from {before} to {after}")
    return after - (before or 0)


def _rises(
    name: str, before: tuple[int, ...] | None, after: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    if after is None:
        return None
    base = (before or ()) + (0,) * len(after)
    rises = [_rise(f"{name} at position {at}", base[at], now) for at, now in enumerate(after)]
    return tuple(rise for rise in rises if rise is not None)
