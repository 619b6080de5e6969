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
class Lengths:
    """Tokens that are drawn anew for each request, whole numbers within `min`..`max` (inclusive).

    `distribution`: "uniform" (between both), "normal" or "lognormal" of `mean` and `sd`: those of the lengths
    themselves, before what lies outside `min`..`max` is left out. `min` None = 1, `max` None = no end.
    """

    distribution: str
    mean: float | None = None
    sd: float | None = None
    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """`source`: "offline" (generated here), "hub:ID" (through `datasets`) or "file:PATH" (JSONL,
    parquet, CSV). `weight` is relative.

    Of a hub or file source:
    column             the prompt's; a dotted path reaches into nested fields; None = found by name and shape
    max_tokens_column  the row's own max_tokens
    config, split      of a hub set
    rows               as many are kept; `sample` "first" (default) or "reservoir" (of all rows, by the seed)
    streaming          rows are read one by one and never held all at once; needs `rows`

    prompt_words, prompt_tokens   offline prompts are made that long, out of as many texts of the class as it
        takes (a token: 4 bytes, as the embedded engine counts); both None = as they come, 17 to 120 words
    turns              of a conversation, each carrying the answers before it; None = its first turn alone
    min_tokens         sent as it is; None = not sent
    body               fields added to each request's body
    """

    name: str
    weight: float = 1.0
    source: str = "offline"
    column: str | None = None
    split: str = "test"
    max_tokens: int | Lengths = 180
    ignore_eos: bool = True
    prompt_words: int | None = None
    prompt_tokens: int | Lengths | None = None
    min_tokens: int | None = None
    max_tokens_column: str | None = None
    config: str | None = None
    rows: int | None = None
    sample: str | None = None
    streaming: bool | None = None
    turns: int | None = None
    body: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of a load: `duration_s`, or `requests_per_stream` (it ends when the last of them has ended).

    concurrency   streams of a closed loop, None = the cell's; rate_per_s  of an open loop, None = the load's
    ramp_s        streams come or go (the rate changes) evenly over so many seconds from the phase's start,
                  from where the phase before left it (the first: from 0); None = at once
    weights       of the traffic classes; a class that is not named gets none; None = the suite's
    warmup        what begins here enters no figure
    """

    concurrency: int | None = None
    rate_per_s: float | None = None
    duration_s: float | None = None
    requests_per_stream: int | None = None
    ramp_s: float | None = None
    weights: Mapping[str, float] | None = None
    warmup: bool = False


@dataclass(frozen=True, slots=True)
class Burst:
    """`requests` at once on top of the load, `at_s` after its start; `times` in all, `every_s` apart.

    `traffic`: the class that they are of; None = the suite's mix.
    """

    at_s: float
    requests: int
    times: int = 1
    every_s: float | None = None
    traffic: str | None = None


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """`mode` "burst": C requests at once, `requests_per_stream` bursts of them; figures cover whole bursts.

    `mode` "closed": C streams, each sends its next request when the last one ended; `warmup_s` is cut off the
    front, and the window ends when the first stream runs out (after `requests_per_stream`, or `duration_s`).
    `think_s`: mean pause before each further request, `think` "fixed" (default) or "exponential";
    `stagger_s`: first requests spread evenly over so many seconds; `phases` take the place of the length.

    `mode` "open": requests come whether or not others ended: `arrivals` "poisson" (default), "gamma" (`cv` =
    sd / mean of the gaps), "constant", or "trace" (`trace`: a file of due seconds). C multiplies the rate:
    C x `rate_per_s` requests a second, or the trace C times as fast (docs/decisions/0008). `max_in_flight`:
    what comes beyond it waits at the client, and its latency counts all the same; None = no limit.

    `bursts`: requests at once on top of a closed or an open load. `body`: fields added to every request's.
    `workers`: processes of this machine that drive the load; None = as many as it needs
    (loadgen.worker_count).
    """

    concurrency: tuple[int, ...]
    mode: str = "closed"
    requests_per_stream: int | None = None
    duration_s: float | None = None
    warmup_s: float = 0.0
    warmup_requests: int = 0
    timeout_s: float = 300.0
    route: str = "chat"  # or "completions"
    think_s: float | None = None
    think: str | None = None
    stagger_s: float | None = None
    arrivals: str | None = None
    rate_per_s: float | None = None
    cv: float | None = None
    trace: str | None = None
    max_in_flight: int | None = None
    phases: tuple[Phase, ...] | None = None
    bursts: tuple[Burst, ...] | None = None
    workers: int | None = None
    body: Mapping[str, object] | None = None

    def most_in_flight(self, concurrency: int) -> int | None:
        """Most requests under way at once at a point of the sweep; None = an open loop without a limit."""
        base = self.max_in_flight if self.mode == "open" else concurrency
        return None if base is None else base + sum(burst.requests for burst in self.bursts or ())


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
