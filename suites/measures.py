"""What a budget may bound: the metric names that suites and reports share, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass

PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
# Five values beyond a tail percentile: with one, a nominal 95 % interval covered 82 % in simulation, from
# five on it covers as the median's does (docs/decisions/0004-rulings.md).
SAMPLES_NEEDED = {"p50": 2, "p95": 100, "p99": 500}


@dataclass(frozen=True, slots=True)
class Measure:
    """`higher_is_better` picks min_ratio or max_ratio; `has_ratio` False: only max_value makes sense."""

    unit: str
    higher_is_better: bool
    has_ratio: bool


def _latencies() -> dict[str, Measure]:
    families = ("ttft", "itl", "chunk_gap", "tpot", "e2e")
    lower = Measure(unit="s", higher_is_better=False, has_ratio=True)
    return {f"{family}_{name}_s": lower for family in families for name in PERCENTILES}


MEASURES: dict[str, Measure] = {
    "tokens_per_s": Measure(unit="tokens/s", higher_is_better=True, has_ratio=True),
    **_latencies(),
    "switches_per_1k_steps": Measure(unit="per 1,000 steps", higher_is_better=False, has_ratio=False),
    "verified_per_emitted": Measure(unit="tokens/token", higher_is_better=False, has_ratio=False),
    "refusal_rate": Measure(unit="of requests", higher_is_better=False, has_ratio=False),
    "failure_rate": Measure(unit="of requests", higher_is_better=False, has_ratio=False),
}
