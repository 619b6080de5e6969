"""The suite: an experiment written down before it runs. TOML in, frozen dataclasses out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


class SuiteError(ValueError):
    """A fault in a suite: names the field, the value and the mend. A usage error (exit code 2)."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """`kind`: a name of engines.registry.ENGINES ("embedded", "openai"). The embedded engine takes a profile.

    `url`: for kind "openai", one server for all arms; an arm's own `url` wins. `options` go to the engine as
    they are (the embedded engine: `penalties = {...}`, `max_num_seqs`, `refuse_above`, ...).
    """

    kind: str = "embedded"
    profile: str | None = None
    url: str | None = None
    model: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """`source`: "offline" (generated here), "hub:ID" (through `datasets`) or "file:PATH" (JSONL,
    parquet, CSV).

    `column`: the prompt's column in a hub or file source. `weight` is relative.
    """

    name: str
    weight: float = 1.0
    source: str = "offline"
    column: str | None = None
    split: str = "test"
    max_tokens: int = 180
    ignore_eos: bool = True


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """`mode` "burst": C requests at once, `requests_per_stream` bursts of them; figures cover whole bursts.

    `mode` "closed": C streams, each sends its next request when the last one ended; `warmup_s` is cut off the
    front, and the window ends when the first stream runs out (after `requests_per_stream`, or `duration_s`).
    """

    concurrency: tuple[int, ...]
    mode: str = "closed"
    requests_per_stream: int | None = None
    duration_s: float | None = None
    warmup_s: float = 0.0
    warmup_requests: int = 0
    timeout_s: float = 300.0
    route: str = "chat"  # or "completions"


@dataclass(frozen=True, slots=True)
class Arm:
    """One setting under test. Exactly one arm of a suite is the baseline that the budgets compare with."""

    name: str
    governor: str
    options: Mapping[str, object] = field(default_factory=dict)
    url: str | None = None
    baseline: bool = False


@dataclass(frozen=True, slots=True)
class Budget:
    """A promise about every arm of `arms` (empty = all but the baseline) at every concurrency of the suite.

    `metric`: tokens_per_s | ttft_p50_s … e2e_p99_s (see reports.metrics). The ratio to the baseline must stay
    >= `min_ratio` (throughput) or <= `max_ratio` (latencies). `max_switches_per_1k_steps` bounds oscillation
    and needs step records.
    """

    metric: str
    min_ratio: float | None = None
    max_ratio: float | None = None
    max_value: float | None = None
    arms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suite:
    """`drafter_class` guards against mixing classes: an arm whose profile is of another class is refused."""

    name: str
    question: str
    engine: EngineSpec
    traffic: tuple[TrafficClass, ...]
    load: LoadSpec
    arms: tuple[Arm, ...]
    budgets: tuple[Budget, ...] = ()
    seed: int = 0
    repeats: int = 3
    drafter_class: str | None = None
    confidence: float = 0.95

    @property
    def baseline(self) -> Arm:
        """The arm that budgets compare with; validation made sure that there is exactly one."""
        return next(arm for arm in self.arms if arm.baseline)
