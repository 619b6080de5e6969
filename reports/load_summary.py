"""What `depthgate load` prints: one flat object of figures as `vllm bench serve` gives, unknown = null."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from loadgen.records import Outcome, TokenSource
from reports.metrics import LATENCIES, Records, failed, measured, outcome_counts, refused
from reports.samples import percentiles

LEVELS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def load_summary(records: Records) -> dict[str, object]:
    """Figures over all requests but the warm-up; duration = last done - first due, seconds throughout."""
    counts = outcome_counts(records)
    done = measured(records)
    tokens = output_tokens(records)
    duration_s = _duration_s(records)
    return {
        "completed": len(done),
        "failed": failed(counts),
        "refused": refused(counts),
        "cancelled": counts.get(Outcome.CANCELLED, 0),
        "output_tokens": tokens,
        "duration_s": duration_s,
        "output_tokens_per_s": tokens / duration_s if tokens is not None and duration_s else None,
        "requests_per_s": len(done) / duration_s if duration_s else None,
        **dict(_percentiles(records)),
        "tokens_are": str(tokens_are(records)),
        "failures": _reasons(records),
    }


def output_tokens(records: Records) -> int | None:
    """Tokens of the requests that are done; None when the server did not say for one of them."""
    counts = [record.output_tokens for record in measured(records)]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def tokens_are(records: Records) -> TokenSource:
    """The weakest source among the requests that are done: what every figure can rely on."""
    weakest_first = (
        TokenSource.UNKNOWN,
        TokenSource.USAGE,
        TokenSource.TOKEN_IDS,
        TokenSource.CONTINUOUS_USAGE,
    )
    found = {record.tokens_are for record in measured(records)} or {TokenSource.UNKNOWN}
    return next(source for source in weakest_first if source in found)


def _duration_s(records: Records) -> float | None:
    kept = [record for record in records if not record.warmup and record.done_s is not None]
    if not kept:
        return None
    return max(record.done_s or 0.0 for record in kept) - min(record.due_s for record in kept)


def _percentiles(records: Records) -> Iterator[tuple[str, float | None]]:
    for metric, of in LATENCIES.items():
        taken = of(records)
        values = percentiles(taken, list(LEVELS.values())) if taken else (None, None, None)
        for level, value in zip(LEVELS, values, strict=True):
            yield f"{metric}_{level}_s", None if value is None else float(value)


def _reasons(records: Records) -> dict[str, int]:
    """Why requests did not end well, most frequent first, ten at most."""
    reasons = Counter(
        record.why or str(record.outcome) for record in records if record.outcome is not Outcome.DONE
    )
    return dict(reasons.most_common(10))
