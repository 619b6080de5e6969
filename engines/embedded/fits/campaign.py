"""The measured H200 campaigns as rows: median step times by shape, and single steps of the traces."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from governors.contract import GraphMode


@dataclass(frozen=True, slots=True)
class StepRow:
    """Median of the steady decoding steps of a burst, or one step of a trace. Seconds and tokens.

    `period_s` schedule to schedule; `forward_s`, `draft_s` CUDA-event times, waiting for launches included;
    `exec_s`, `sample_s` CPU time in execute_model and sample_tokens (drafting included).
    """

    campaign: int
    arm: str
    concurrency: int
    prompt_tokens: int
    requests: int
    tokens: int
    drafts: int
    depth_next: int
    mode: GraphMode
    period_s: float
    forward_s: float
    draft_s: float
    exec_s: float
    sample_s: float
    context_tokens: int

    @property
    def forwards(self) -> int:
        """Drafter passes: with a drafter loaded one runs even at depth 0."""
        return 0 if self.arm.startswith("nospec") else max(1, self.depth_next)

    @property
    def host_s(self) -> float:
        """CPU seconds that were timed; the rest of the period is scheduling and output handling."""
        return self.exec_s + self.sample_s


def step_rows(measured: Path) -> list[StepRow]:
    """Both campaigns, full bursts of the 4B shape only (every request of the burst still decoding)."""
    rows = []
    for campaign, name in ((1, "step_times.csv"), (2, "second_step_times.csv")):
        with (measured / name).open(newline="") as file:
            table = [row for row in csv.DictReader(file) if row.get("model", "q4b") == "q4b"]
        rows += [
            _median_row(campaign, row) for row in table if row["kind"] == "burst" and row["nreq"] == row["c"]
        ]
    return rows


def _median_row(campaign: int, row: dict[str, str]) -> StepRow:
    requests = int(row["nreq"])
    return StepRow(
        campaign=campaign,
        arm=row.get("arm") or row["name"],
        concurrency=int(row["c"]),
        prompt_tokens=int(row["plen"]),
        requests=requests,
        tokens=int(row["ntok"]),
        drafts=int(row["nspec"]),
        depth_next=int(row["knext"]),
        mode=GraphMode(row["mode"].lower() or "unknown"),
        period_s=float(row["period_ms"]) * 1e-3,
        forward_s=float(row["gpu_fwd_ms"]) * 1e-3,
        draft_s=float(row["gpu_sample_draft_ms"]) * 1e-3,
        exec_s=float(row["cpu_exec_ms"]) * 1e-3,
        sample_s=float(row["cpu_sample_ms"]) * 1e-3,
        context_tokens=round(float(row["ctx_mean"]) * requests),
    )


def trace_steps(measured: Path, arm: str, concurrency: int) -> list[StepRow]:
    """The decoding steps of the first round at 128 prompt tokens, in order, none beside a prefill."""
    (path,) = (measured / "steps").glob(f"steps_{arm}_burst_c{concurrency}_p128_*.csv.gz")
    with gzip.open(path, "rt", newline="") as file:
        table = list(csv.DictReader(file))
    steps = (pair for pair in pairwise(table) if pair[0]["npre"] == pair[1]["npre"] == "0")
    return [_trace_row(arm, concurrency, *pair) for pair in steps]


def prefill_steps(measured: Path) -> Iterator[tuple[int, int, float]]:
    """(tokens, requests, device seconds) of long prefills that kept the device busy; arms without drafter."""
    for path in sorted((measured / "steps").glob("steps_nospec*.csv.gz")):
        with gzip.open(path, "rt", newline="") as file:
            for row in csv.DictReader(file):
                forward_s, exec_s = float(row["gpu_fwd_ms"]) * 1e-3, float(row["cpu_exec_ms"]) * 1e-3
                if int(row["pretok"]) >= 2000 and forward_s > 1.3 * exec_s:
                    yield int(row["ntok"]), int(row["nreq"]), forward_s


def _trace_row(arm: str, concurrency: int, row: dict[str, str], after: dict[str, str]) -> StepRow:
    return StepRow(
        campaign=1,
        arm=arm,
        concurrency=concurrency,
        prompt_tokens=128,
        requests=int(row["nreq"]),
        tokens=int(row["ntok"]),
        drafts=int(row["nspec"]),
        depth_next=int(row["knext"]),
        mode=GraphMode(row["mode"].split(":")[0].lower() or "unknown"),
        period_s=float(after["gpu_period_ms"]) * 1e-3,
        forward_s=float(row["gpu_fwd_ms"]) * 1e-3,
        draft_s=float(row["gpu_sample_ms"]) * 1e-3,
        exec_s=float(row["cpu_exec_ms"]) * 1e-3,
        sample_s=float(row["cpu_sample_ms"]) * 1e-3,
        context_tokens=int(row["ctx"]),
    )
