"""A judged run to show: vllm#49548 with throughputs measured on an H200 with made-up intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from reports.judgement import BudgetVerdict, CellFigures, Interval, Judgement, Ruling
from reports.page_input import ReferenceSeries, ReportInput
from reports.reproduction import ReproductionSummary, ReproductionVerdict

CONCURRENCIES = (1, 2, 4, 5, 6, 8, 16)
# vLLM 0.26.0 on an H200, V1 runner; c=5 was not measured: the mean of c=4 and c=6 stands in.
TOKENS_PER_S = {
    "off": (296, 576, 1130, 1390, 1651, 2199, 4149),
    "fixed_2": (408, 711, 1228, 1696, 2165, 2254, 4845),
    "schedule": (230, 288, 555, 505, 455, 782, 1732),
}
WIDTH = {"off": 0.03, "fixed_2": 0.04, "schedule": 0.16}
BOUND = 0.97


@dataclass(frozen=True, slots=True)
class Trace:
    """A DepthTrace."""

    arm: str
    concurrency: int
    repeat: int
    time_s: tuple[float, ...]
    depth_chosen: tuple[int, ...]
    depth_executed: tuple[int, ...]
    batch: tuple[int, ...]
    reason: tuple[str, ...]


def around(point: float, width: float) -> Interval:
    """An interval of +-width, relative."""
    return Interval(point * (1 - width), point, point * (1 + width))


def cell(arm: str, concurrency: int, tokens_per_s: float) -> CellFigures:
    """A cell whose other figures follow from its throughput."""
    width = WIDTH.get(arm, 0.05)
    per_token_s = concurrency / tokens_per_s
    latencies = {
        "ttft": 0.02 + 0.004 * concurrency,
        "itl": per_token_s,
        "tpot": per_token_s,
        "e2e": 180 * per_token_s,
    }
    figures: dict[str, Interval | None] = {"tokens_per_s": around(tokens_per_s, width)}
    for name, median_s in latencies.items():
        for percentile, factor in (("p50", 1.0), ("p95", 1.3), ("p99", 1.9)):
            figures[f"{name}_{percentile}_s"] = around(median_s * factor, width)
    drafts = arm == "fixed_2" or (arm == "schedule" and concurrency <= 4)
    figures["acceptance_length"] = Interval(2.28, 2.36, 2.42) if drafts else None
    figures["verified_per_emitted"] = Interval(1.2, 1.27, 1.3) if drafts else None
    figures["refusal_rate"] = figures["failure_rate"] = Interval(0.0, 0.0, 0.0)
    baseline = (
        TOKENS_PER_S["off"][CONCURRENCIES.index(concurrency)]
        if concurrency in CONCURRENCIES
        else tokens_per_s
    )
    return CellFigures(
        arm=arm,
        concurrency=concurrency,
        repeats=3,
        requests={"done": 3 * concurrency, "refused": 0, "failed": 0},
        figures=figures,
        ratios={} if arm == "off" else {"tokens_per_s": around(tokens_per_s / baseline, width)},
        acceptance_by_class={"gsm8k": 2.45, "chat": 2.31} if drafts else {"gsm8k": 1.0, "chat": 1.0},
        acceptance_by_position=(0.8, 0.6) if drafts else (),
        switches_per_1k_steps=None if arm == "off" else 6.0 if arm == "schedule" and concurrency > 4 else 0.0,
    )


def ruling_of(ratio: Interval) -> Ruling:
    """Against BOUND."""
    if ratio.low >= BOUND:
        return Ruling.KEPT
    return Ruling.BROKEN if ratio.high < BOUND else Ruling.INCONCLUSIVE


def verdicts(cells: tuple[CellFigures, ...]) -> tuple[BudgetVerdict, ...]:
    """One throughput budget for each cell that has a ratio."""
    found = []
    for each in cells:
        ratio = each.ratios.get("tokens_per_s")
        if ratio is None:
            continue
        ruling = ruling_of(ratio)
        sentence = (
            f"{each.arm} at c={each.concurrency}: {ratio.point:.2f} of off, budget {BOUND}: {ruling.value}"
        )
        bound = f"ratio >= {BOUND}"
        found.append(
            BudgetVerdict(each.arm, each.concurrency, "tokens_per_s", bound, ratio, ruling, sentence)
        )
    return tuple(found)


def judgement(**changes: object) -> Judgement:
    """The whole run: three arms, seven concurrencies, broken by the schedule."""
    cells = tuple(
        cell(arm, c, tokens)
        for arm, row in TOKENS_PER_S.items()
        for c, tokens in zip(CONCURRENCIES, row, strict=True)
    )
    whole = Judgement(
        run="threshold-collapse-20261130-101500-ab12",
        suite="threshold-collapse",
        question="Does a schedule that switches speculation off ever lose to never having it?",
        ruling=Ruling.BROKEN,
        gated=True,
        seal="sealed 2026-11-29T18:00:00Z at commit 0be5591, unaltered",
        partial=(),
        headline="schedule loses to off at every concurrency from 1 to 16; worst 0.28 at c=6",
        engine="embedded engine (model)",
        profile="h200-qwen3-4b-eagle",
        is_model=True,
        clock="wall",
        baseline="off",
        cells=cells,
        verdicts=verdicts(cells),
        manifest=manifest(),
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def manifest() -> dict[str, object]:
    """As depthgate writes it."""
    return {
        "suite": {"name": "threshold-collapse", "confidence": 0.95, "seed": 7, "drafter_class": None},
        "suite_sha256": "9f2c" * 16,
        "seal": {"state": "sealed", "sentence": "sealed", "seal": None},
        "overrides": [],
        "seed": 7,
        "commit": "0be5591c1b2a3948576a",
        "started_utc": "2026-11-30T10:15:00Z",
        "finished_utc": None,
        "machine": {
            "cpu": "AMD EPYC 9B14",
            "cores": 2,
            "memory_bytes": 8 * 2**30,
            "accelerators": None,
            "system": "Linux 6.1.0 x86_64",
            "python": "3.11.2",
        },
        "versions": {"depthgate": "0.1.0", "numpy": "2.4.0", "aiohttp": "3.14.5", "uvloop": None},
        "command": ["depthgate", "reproduce", "threshold-collapse"],
    }


def trace(arm: str, concurrency: int, repeat: int = 0) -> Trace:
    """80 steps; requests drain one by one at the end; the schedule drafts up to a batch of 4."""
    batch = [concurrency - max(0, at - 80 + concurrency) for at in range(80)]
    depth = [{"off": 0, "fixed_2": 2}.get(arm, 2 if each <= 4 else 0) for each in batch]
    reasons = ["steady"] + [
        "raised" if b > a else "backed-off" if b < a else "steady" for a, b in pairwise(depth)
    ]
    step_s = 0.008 if arm == "schedule" else 0.004
    return Trace(
        arm=arm,
        concurrency=concurrency,
        repeat=repeat,
        time_s=tuple(at * step_s for at in range(80)),
        depth_chosen=tuple(depth),
        depth_executed=tuple(depth),
        batch=tuple(batch),
        reason=tuple(reasons),
    )


def reproduction(**changes: object) -> ReproductionSummary:
    """Reproduced."""
    whole = ReproductionSummary(
        name="threshold-collapse",
        report="vllm#49548",
        title="Throughput collapses as soon as the batch crosses the schedule's threshold.",
        verdict=ReproductionVerdict.REPRODUCED,
        ratio=Interval(0.23, 0.27, 0.32),
        published="fixed K=2 232 tok/s; schedule 24-157 tok/s (8 requests, GB10)",
        evidence=(
            "met: schedule / fixed K=2 at c > 4: 0.27 (0.23 to 0.32), bar < 0.75",
            "met: schedule / no speculation at c > 4, where K=0 too: 0.31 (0.27 to 0.35), bar < 0.9",
            "met: loss above the threshold / loss at c <= 4: 0.63 (0.55 to 0.70), bar < 1",
        ),
        ratio_of="tokens/s of schedule over fixed K=2, c > 4",
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def report_input(**changes: object) -> ReportInput:
    """Everything that a page can show of the run."""
    whole = ReportInput(
        judgement=judgement(),
        reproduction=reproduction(),
        title="threshold-collapse on h200-qwen3-4b-eagle",
        traces=tuple(trace(arm, c) for arm in TOKENS_PER_S for c in CONCURRENCIES),
        commands=(
            "depthgate reproduce threshold-collapse",
            "depthgate judge out/threshold-collapse-20261130-101500-ab12",
        ),
        model_notes=("PIECEWISE cells drift by half: read their ratios as ±50 %.",),
        references=(
            ReferenceSeries(
                "schedule", "vLLM 0.26.0 on an H200", {1: 230.0, 2: 288.0, 4: 555.0, 6: 455.0, 16: 1732.0}
            ),
        ),
    )
    return replace(whole, **changes)  # type: ignore[arg-type]
