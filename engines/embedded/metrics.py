"""/metrics of the embedded engine: vLLM's names in Prometheus text, and what a model must say of itself."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engines.embedded.requests import StepResult
from engines.embedded.totals import Totals

ENGINE_LABEL = "embedded engine (model)"
LAG_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


@dataclass(frozen=True, slots=True)
class Gauges:
    """What the engine is like at the moment of a scrape."""

    running: int
    waiting: int
    kv_usage: float
    max_num_seqs: int
    governor_errors: int
    journal_errors: int


class EngineMetrics:
    """What the server counts beside the engine's Totals: lateness and cost of steps, how requests ended."""

    def __init__(self, profile: str, drafter_class: str, model: str) -> None:
        self._labels = {"engine": "0", "model_name": model}
        self._info = {"profile": profile, "drafter_class": drafter_class, "engine": ENGINE_LABEL}
        self._lag_counts = [0] * (len(LAG_BUCKETS_S) + 1)
        self._lag_sum_s = 0.0
        self._finished = {"length": 0, "stop": 0, "abort": 0}
        self.refused = 0
        self.lag_s = 0.0
        self.lag_max_s = 0.0
        self.own_s = 0.0
        self.modelled_s = 0.0

    def stepped(self, result: StepResult, lag_s: float, own_s: float) -> None:
        """Books one delivered step: `lag_s` late, at `own_s` of process time."""
        self.own_s += own_s
        self.modelled_s += result.record.end_s - result.record.start_s
        self.lag_s = lag_s
        self.lag_max_s = max(self.lag_max_s, lag_s)
        self._lag_sum_s += lag_s
        self._lag_counts[bisect_left(LAG_BUCKETS_S, lag_s)] += 1

    def ended(self, reason: str) -> None:
        """`reason`: "length", "stop", or "abort" (the client went away)."""
        self._finished[reason] += 1

    def text(self, totals: Totals, gauges: Gauges) -> str:
        """Prometheus exposition format 0.0.4."""
        families = (*self._vllm(totals, gauges), *self._speculation(totals), *self._own(totals, gauges))
        return "".join(_family(name, kind, what, samples) for name, kind, what, samples in families)

    def _vllm(self, totals: Totals, gauges: Gauges) -> Iterable[Family]:
        one = self._one
        yield "vllm:num_requests_running", "gauge", "Requests in the batch", one(gauges.running)
        yield "vllm:num_requests_waiting", "gauge", "Requests in the queue", one(gauges.waiting)
        yield "vllm:kv_cache_usage_perc", "gauge", "Share of KV blocks in use, 0..1", one(gauges.kv_usage)
        yield "vllm:num_preemptions_total", "counter", "Preemptions by recompute", one(totals.preemptions)
        yield (
            "vllm:prompt_tokens_total",
            "counter",
            "Prompt tokens computed, without recomputation",
            one(totals.prompt_tokens),
        )
        yield "vllm:generation_tokens_total", "counter", "Tokens emitted", one(totals.generation_tokens)
        reasons: list[Sample] = [
            ({**self._labels, "finished_reason": reason}, n) for reason, n in self._finished.items()
        ]
        yield "vllm:request_success_total", "counter", "Requests ended, by reason", reasons

    def _speculation(self, totals: Totals) -> Iterable[Family]:
        one, spec = self._one, "vllm:spec_decode_num_"
        yield f"{spec}drafts_total", "counter", "Verifications of at least one draft", one(totals.drafts)
        yield f"{spec}draft_tokens_total", "counter", "Draft tokens verified", one(totals.draft_tokens)
        yield f"{spec}accepted_tokens_total", "counter", "Draft tokens accepted", one(totals.accepted_tokens)
        yield (
            f"{spec}accepted_tokens_per_pos_total",
            "counter",
            "Draft tokens accepted, by position",
            self._by_position(totals.accepted_by_position),
        )
        yield (
            "depthgate:spec_decode_num_reached_tokens_per_pos_total",
            "counter",
            "Verifications that reached the position: all before it accepted, it in the window",
            self._by_position(totals.reached_by_position),
        )

    def _own(self, totals: Totals, gauges: Gauges) -> Iterable[Family]:
        one, own = self._one, "depthgate:"
        yield f"{own}model_info", "gauge", "This engine's timing is computed, not measured", [(self._info, 1)]
        yield f"{own}max_num_seqs", "gauge", "Requests that run at once", one(gauges.max_num_seqs)
        yield f"{own}engine_steps_total", "counter", "Steps", one(totals.steps)
        yield f"{own}engine_lag_seconds", "gauge", "Wall clock behind the model, last step", one(self.lag_s)
        yield f"{own}engine_lag_max_seconds", "gauge", "Worst since the server started", one(self.lag_max_s)
        yield f"{own}engine_lag", "histogram", "Seconds behind the model, every step", self._lag_samples()
        overhead = one(self.own_s / self.modelled_s) if self.modelled_s else []
        yield f"{own}own_overhead_ratio", "gauge", "Process time over modelled time, while busy", overhead
        yield f"{own}own_seconds_total", "counter", "Process time while busy", one(self.own_s)
        yield f"{own}modelled_seconds_total", "counter", "Modelled time of all steps", one(self.modelled_s)
        yield (
            f"{own}governor_errors_total",
            "counter",
            "Steps decided without it",
            one(gauges.governor_errors),
        )
        yield f"{own}journal_errors_total", "counter", "Failed writes of steps", one(gauges.journal_errors)
        yield f"{own}requests_refused_total", "counter", "Refused by refuse_above", one(self.refused)

    def _one(self, value: float) -> list[Sample]:
        return [(self._labels, value)]

    def _by_position(self, counts: list[int]) -> list[Sample]:
        return [({**self._labels, "position": str(at)}, count) for at, count in enumerate(counts)]

    def _lag_samples(self) -> list[Sample]:
        samples: list[Sample] = []
        below = 0
        for bound, count in zip((*LAG_BUCKETS_S, "+Inf"), self._lag_counts, strict=True):
            below += count
            samples.append(({"": "_bucket", **self._labels, "le": str(bound)}, below))
        return [
            *samples,
            ({"": "_sum", **self._labels}, self._lag_sum_s),
            ({"": "_count", **self._labels}, below),
        ]


Sample = tuple[Mapping[str, str], float]  # the label "" is a suffix of the name
Family = tuple[str, str, str, list[Sample]]


def _family(name: str, kind: str, what: str, samples: list[Sample]) -> str:
    """HELP, TYPE and the samples; in text format 0.0.4 a counter's family name carries _total too."""
    lines = [f"# HELP {name} {what}.", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items() if key)
        lines.append(f"{name}{labels.get('', '')}{{{pairs}}} {value!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
