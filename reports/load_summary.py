"""What `depthgate load` prints: one flat object of figures as `vllm bench serve` gives, unknown = null.

Records are added as they come and not kept: a million requests take some 60 MB, whatever their length.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from loadgen.records import CellRecord, Outcome, RequestRecord, TokenSource
from reports.chunk_tally import ChunkTally
from reports.metrics import failed, refused
from reports.samples import FloatArray

NONE = float("nan")  # in place of a value that a request does not have: it never leaves here
LEVELS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
MOST_REASONS = 100  # different ones that are counted
SHOWN_REASONS = 10
WEAKEST_FIRST = (
    TokenSource.UNKNOWN,
    TokenSource.USAGE,
    TokenSource.TOKEN_IDS,
    TokenSource.CONTINUOUS_USAGE,
)


class LoadSummary:
    """`add` every record, then `figures`; formulas as in reports.metrics. Warm-up enters none."""

    def __init__(self) -> None:
        self._outcomes: Counter[Outcome] = Counter()
        self._reasons: Counter[str] = Counter()
        self._sources: Counter[TokenSource] = Counter()
        self._due_s, self._done_s, self._tokens = array("d"), array("d"), array("q")
        self._ttft_s, self._tpot_s = array("d"), array("d")
        self._chunks = ChunkTally()

    def add(self, record: RequestRecord) -> None:
        """The next record, in any order."""
        if record.outcome is not Outcome.DONE:
            reason = record.why or str(record.outcome)
            if reason in self._reasons or len(self._reasons) < MOST_REASONS:
                self._reasons[reason] += 1
        if record.warmup:
            return
        self._outcomes[record.outcome] += 1
        if record.outcome is Outcome.DONE and record.done_s is not None:
            self._add_done(record, record.done_s)

    def figures(self, cell: CellRecord | None = None) -> dict[str, object]:
        """Over the whole load, its start burst included; `steady_*` over the cell's window alone.

        duration = last done - first due, seconds throughout.
        """
        self._chunks.flush()
        tokens, duration_s = self._output_tokens(), self._duration_s()
        return {
            "completed": self.completed,
            "failed": failed(self._counts()),
            "refused": refused(self._counts()),
            "cancelled": self._outcomes[Outcome.CANCELLED],
            "output_tokens": tokens,
            "duration_s": duration_s,
            "output_tokens_per_s": tokens / duration_s if tokens is not None and duration_s else None,
            "peak_output_tokens_per_s": self._chunks.tokens.peak_per_s() if self._chunks.by_chunk else None,
            "requests_per_s": len(self._done_s) / duration_s if duration_s else None,
            **self._latencies(),
            **({} if cell is None else self._steady(cell)),
            "tokens_are": str(next((s for s in WEAKEST_FIRST if self._sources[s]), TokenSource.UNKNOWN)),
            "failures": dict(self._reasons.most_common(SHOWN_REASONS)),
        }

    @property
    def completed(self) -> int:
        """Requests that ended well so far."""
        return len(self._done_s)

    def _add_done(self, record: RequestRecord, done_s: float) -> None:
        times, tokens, first_s = record.chunk_times_s, record.output_tokens, record.first_token_s
        self._sources[record.tokens_are] += 1
        self._due_s.append(record.due_s)
        self._done_s.append(done_s)
        self._tokens.append(-1 if tokens is None else tokens)
        self._ttft_s.append(NONE if first_s is None else first_s - record.due_s)
        paced = tokens is not None and tokens > 1 and len(times) > 0
        self._tpot_s.append((times[-1] - times[0]) / (tokens - 1) if paced and tokens else NONE)
        self._chunks.add(times, record.chunk_tokens)

    def _counts(self) -> dict[str, int]:
        return {str(outcome): count for outcome, count in self._outcomes.items()}

    def _output_tokens(self) -> int | None:
        """Of the requests that are done; None when the server did not say for one of them."""
        tokens = np.asarray(self._tokens)
        return None if (tokens < 0).any() else int(tokens.sum())

    def _duration_s(self) -> float | None:
        return max(self._done_s) - min(self._due_s) if self._done_s else None

    def _latencies(self) -> dict[str, float | None]:
        due_s, done_s = np.asarray(self._due_s), np.asarray(self._done_s)
        levels = list(LEVELS.values())
        return {
            **_named("ttft", _percentiles(np.asarray(self._ttft_s))),
            **_named("itl", self._chunks.itl.percentiles(levels) if self._chunks.by_chunk else None),
            **_named("chunk_gap", self._chunks.gaps.percentiles(levels)),
            **_named("tpot", _percentiles(np.asarray(self._tpot_s))),
            **_named("e2e", _percentiles(done_s - due_s)),
        }

    def _steady(self, cell: CellRecord) -> dict[str, object]:
        """Requests that began and ended inside the window, and tokens that came in it; null without one."""
        start_s, end_s = cell.window_start_s, cell.window_end_s
        inside = (np.asarray(self._due_s) >= start_s) & (np.asarray(self._done_s) <= end_s)
        known = self._chunks.by_chunk and inside.any()
        rate = self._chunks.tokens.per_s(start_s, end_s) if known else None
        return {
            "steady_completed": int(inside.sum()),
            "steady_output_tokens_per_s": rate,
            **_named("steady_ttft", _percentiles(np.asarray(self._ttft_s)[inside])),
            **_named("steady_tpot", _percentiles(np.asarray(self._tpot_s)[inside])),
        }


def load_summary(records: Iterable[RequestRecord], cell: CellRecord | None = None) -> dict[str, object]:
    """Figures of records that are at hand."""
    summary = LoadSummary()
    for record in records:
        summary.add(record)
    return summary.figures(cell)


def _percentiles(values: FloatArray) -> list[float] | None:
    known = values[~np.isnan(values)]
    return [float(v) for v in np.quantile(known, list(LEVELS.values()))] if len(known) else None


def _named(metric: str, values: list[float] | None) -> dict[str, float | None]:
    return dict(_pairs(metric, values))


def _pairs(metric: str, values: list[float] | None) -> Iterator[tuple[str, float | None]]:
    for at, level in enumerate(LEVELS):
        yield f"{metric}_{level}_s", None if values is None else values[at]
