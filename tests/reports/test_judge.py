"""The judge on hand-made run folders: each ruling, and what may not be ruled."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from loadgen.records import Outcome
from reports.judge import judge_run, overall
from reports.judgement import BudgetVerdict, Interval, Judgement, Ruling
from reports.steps import depth_traces
from reports.throughputs import read_throughputs
from suites.model import Budget, LoadSpec, Suite
from tests.reports.hand_made import (
    burst,
    cell,
    failure,
    request,
    step,
    suite,
    write_lines,
    write_manifest,
    write_run,
)

FAST = {"off": 10.0, "fast": 8.0}
SLOW = {"off": 10.0, "fast": 20.0}
EQUAL = {"off": 10.0, "fast": 10.25}


def _numbers(value: object) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item)


def _judged(path: Path) -> Judgement:
    """Judge, and hold every judgement to what all promise: strict JSON, nothing that is not finite."""
    judgement = judge_run(path)
    table = dataclasses.asdict(judgement)
    json.dumps(table, allow_nan=False)
    assert all(math.isfinite(number) for number in _numbers(table))
    return judgement


def _rulings(judgement: Judgement) -> set[Ruling]:
    return {verdict.ruling for verdict in judgement.verdicts}


def test_a_faster_arm_keeps_its_budgets(tmp_path: Path) -> None:
    judgement = _judged(write_run(tmp_path / "run", suite(), FAST))
    assert judgement.ruling is Ruling.KEPT
    assert judgement.gated
    assert judgement.partial == ()
    assert [(verdict.arm, verdict.concurrency) for verdict in judgement.verdicts] == [
        ("fast", 1),
        ("fast", 2),
    ] * 2
    fast = next(cell for cell in judgement.cells if (cell.arm, cell.concurrency) == ("fast", 2))
    # 20 tokens in 8, 8.08 and 8.16 s; off takes 10, 10.1, 10.2 s: paired, the ratio is always 1.25.
    assert fast.points["tokens_per_s"] == pytest.approx(60 / (8 + 8.08 + 8.16))
    ratio = fast.ratios["tokens_per_s"]
    assert ratio is not None
    assert (ratio.low, ratio.point, ratio.high) == pytest.approx((1.25, 1.25, 1.25))
    assert judgement.headline == "Kept: all 4 budget checks hold with their whole interval"
    assert judgement.is_model


def test_a_slower_arm_breaks_them_and_the_headline_says_where(tmp_path: Path) -> None:
    judgement = _judged(write_run(tmp_path / "run", suite(), SLOW))
    assert judgement.ruling is Ruling.BROKEN
    assert _rulings(judgement) == {Ruling.BROKEN}
    first = judgement.verdicts[0]
    assert first.bound == "ratio >= 0.97"
    assert first.sentence == "fast at c=1: Throughput 0.5 of off (0.5 to 0.5), bound ratio >= 0.97: broken"
    assert judgement.headline.startswith("Broken: 4 of 4 budget checks; first to look at: fast at c=")


def test_an_interval_across_the_bound_is_inconclusive(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", suite(points=(1,)), EQUAL)
    slower = burst("fast", 1, 1, 10.9)
    write_lines(run / "requests/fast.c1.r1.jsonl", slower)
    judgement = _judged(run)
    assert judgement.verdicts[0].ruling is Ruling.INCONCLUSIVE
    assert judgement.ruling is Ruling.INCONCLUSIVE


def test_an_unsealed_run_is_exploratory(tmp_path: Path) -> None:
    judgement = _judged(write_run(tmp_path / "run", suite(), FAST, sealed=False))
    assert not judgement.gated
    assert judgement.headline.startswith("Kept (exploratory, not gated)")
    assert judgement.seal == "exploratory: not sealed"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seal": {"state": "sealed", "sentence": "x", "seal": None}}, "holds no seal"),
        ({"suite_sha256": "0" * 64}, "not the one that was sealed"),
        ({"started_utc": "2025-12-31T00:00:00Z"}, "not older than the run"),
        ({"started_utc": None}, "not older than the run"),
        ({"started_utc": "2026-01-02T00:00:00"}, "not older than the run"),
        ({"seal": 5}, "says nothing of a seal"),
    ],
)
def test_a_manifest_that_only_claims_a_seal_is_not_gated(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    run = write_run(tmp_path / "run", suite(), FAST)
    write_manifest(run, suite(), **change)  # type: ignore[arg-type]
    judgement = _judged(run)
    assert not judgement.gated
    assert said in judgement.seal


def test_a_suite_altered_after_sealing_is_not_gated(tmp_path: Path) -> None:
    """The manifest's own suite is hashed again: looser budgets under the old seal are seen."""
    run = write_run(tmp_path / "run", suite(), SLOW)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["suite"]["budgets"][0]["min_ratio"] = 0.1
    (run / "manifest.json").write_text(json.dumps(manifest))
    judgement = _judged(run)
    assert not judgement.gated
    assert "not the one that was sealed" in judgement.seal


def _replace_cell(run: Path, of: Suite, arm: str, repeat: int | None = None, **change: object) -> None:
    """Rewrite cells.jsonl with every cell of `arm` changed, or those of one repeat."""
    rows = [json.loads(line) for line in (run / "cells.jsonl").read_text().splitlines()]
    for row in rows:
        if row["arm"] == arm and repeat in (None, row["repeat"]):
            row.update(change)
    (run / "cells.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_an_invalid_cell_is_invalid_not_slow(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", suite(), SLOW)
    _replace_cell(run, suite(), "fast", invalid=["the engine fell 1.2 s behind"])
    judgement = _judged(run)
    assert _rulings(judgement) == {Ruling.INVALID}
    assert judgement.ruling is Ruling.INVALID
    assert "the engine fell 1.2 s behind" in judgement.verdicts[0].sentence


def test_an_invalid_baseline_spoils_ratios(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", suite(), FAST)
    _replace_cell(run, suite(), "off", invalid=["throttled"])
    judgement = _judged(run)
    assert _rulings(judgement) == {Ruling.INVALID}
    assert "baseline off: repeat 0: throttled" in judgement.verdicts[0].sentence


def test_a_missing_baseline_is_invalid_and_partial(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", suite(), FAST)
    rows = (run / "cells.jsonl").read_text().splitlines(keepends=True)
    (run / "cells.jsonl").write_text("".join(row for row in rows if '"off"' not in row))
    judgement = _judged(run)
    assert judgement.ruling is Ruling.INVALID
    assert "baseline off was not measured" in judgement.verdicts[0].sentence
    assert judgement.partial == ("off: 6 of 6 cells missing (c=1, 2)",)


def test_zero_successful_requests_are_invalid_without_nan(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", suite(), FAST)
    for concurrency in (1, 2):
        for repeat in range(3):
            none = [
                failure(Outcome.FAILED, arm="fast", concurrency=concurrency, repeat=repeat)
                for _ in range(concurrency)
            ]
            write_lines(run / f"requests/fast.c{concurrency}.r{repeat}.jsonl", none)
    judgement = _judged(run)
    assert judgement.ruling is Ruling.INVALID
    spoiled = next(cell for cell in judgement.cells if cell.arm == "fast")
    assert spoiled.invalid[0] == (
        "repeat 0: no request succeeded (1 failed; first reason: HTTP 500: out of memory)"
    )
    assert spoiled.points["failure_rate"] == 1.0
    assert "tokens_per_s" not in spoiled.points


def test_nothing_measured_at_all_has_no_nan(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", suite(), FAST)
    for file in (run / "requests").iterdir():
        file.write_text("")
    _replace_cell(run, suite(), "off", requests=0)
    _replace_cell(run, suite(), "fast", requests=0)
    judgement = _judged(run)
    assert judgement.ruling is Ruling.INVALID
    assert "none was sent" in judgement.cells[0].invalid[0]


def test_a_tail_of_few_samples_is_not_gated(tmp_path: Path) -> None:
    of = suite(budgets=(Budget("e2e_p95_s", max_ratio=1.5),))
    judgement = _judged(write_run(tmp_path / "run", of, FAST))
    assert _rulings(judgement) == {Ruling.INCONCLUSIVE}
    assert "fast has 3 samples, 100 are needed" in judgement.verdicts[0].sentence
    assert any("e2e p95 and p99" in note for note in judgement.cells[0].notes)


def test_refusing_requests_does_not_keep_a_latency_budget(tmp_path: Path) -> None:
    """Two of three requests refused: the served third is fast, the median of all has no bound."""
    of = suite(budgets=(Budget("e2e_p50_s", max_ratio=1.5),), points=(3,))
    run = write_run(tmp_path / "run", of, FAST)
    for repeat in range(3):
        kept = burst("fast", 3, repeat, 8.0)[:1]
        refused = [failure(Outcome.REFUSED, arm="fast", concurrency=3, repeat=repeat) for _ in range(2)]
        write_lines(run / f"requests/fast.c3.r{repeat}.jsonl", kept + refused)
    judgement = _judged(run)
    assert judgement.verdicts[0].ruling is Ruling.INCONCLUSIVE
    assert "66.7% of fast's requests were not done" in judgement.verdicts[0].sentence
    fast = next(cell for cell in judgement.cells if cell.arm == "fast")
    assert fast.points["refusal_rate"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(("bound_s", "ruling"), [(5.0, Ruling.INCONCLUSIVE), (6.0, Ruling.KEPT)])
def test_a_few_failures_are_counted_as_never_ended(tmp_path: Path, bound_s: float, ruling: Ruling) -> None:
    """Ten requests, of which 1, 2 .. 8 s and two failures: a median of 4.5 s, of all ten one of 5.4 s."""
    of = suite(budgets=(Budget("e2e_p50_s", max_value=bound_s),), points=(10,))
    run = write_run(tmp_path / "run", of, FAST)
    for repeat in range(3):
        done = [burst("fast", 1, repeat, float(seconds))[0] for seconds in range(1, 9)]
        lost = [failure(Outcome.FAILED, arm="fast", concurrency=10, repeat=repeat) for _ in range(2)]
        records = [replace(record, concurrency=10, request=str(n)) for n, record in enumerate(done + lost)]
        write_lines(run / f"requests/fast.c10.r{repeat}.jsonl", records)
    verdict = _judged(run).verdicts[0]
    assert verdict.ruling is ruling
    assert ("counted as never ended" in verdict.sentence) is (ruling is Ruling.INCONCLUSIVE)


def test_one_repeat_of_one_burst_shows_no_spread(tmp_path: Path) -> None:
    judgement = _judged(write_run(tmp_path / "run", suite(repeats=1), FAST))
    throughput = judgement.verdicts[0]
    assert throughput.ruling is Ruling.INCONCLUSIVE
    assert "raise repeats" in throughput.sentence
    assert judgement.cells[0].figures["tokens_per_s"] is None
    assert judgement.cells[0].points["tokens_per_s"] == 1.0
    assert any(note.startswith("one repeat") for note in judgement.cells[0].notes)


def test_one_repeat_of_a_closed_loop_is_drawn_from_slices_of_its_window(tmp_path: Path) -> None:
    """10 tokens a second for 10 s, then 10 s with 12.5: 11.25 on the whole, and an interval about it."""
    of = replace(suite(repeats=1, points=(1,)), load=LoadSpec((1,), duration_s=20.0))
    run = write_run(tmp_path / "run", of, FAST)
    times = [index / 10 for index in range(100)] + [10 + index / 12.5 for index in range(125)]
    for arm in ("off", "fast"):
        record = request(times_s=times, tokens=[1] * 225, arm=arm)
        write_lines(run / f"requests/{arm}.c1.r0.jsonl", [record])
    write_lines(run / "cells.jsonl", [cell(0.0, 20.0, arm=arm, requests=1) for arm in ("off", "fast")])
    judgement = _judged(run)
    found = judgement.cells[0].figures["tokens_per_s"]
    assert found is not None
    assert found.point == 11.25
    assert 10.0 < found.low < 11.25 < found.high < 12.5
    assert judgement.cells[1].ratios["tokens_per_s"] is not None


def test_a_suite_without_budgets_is_not_kept(tmp_path: Path) -> None:
    judgement = _judged(write_run(tmp_path / "run", suite(budgets=()), FAST))
    assert judgement.ruling is Ruling.INCONCLUSIVE
    assert "nothing was promised" in judgement.headline


def _with_steps(run: Path, of: Suite, depths: list[int]) -> Path:
    """Every burst of every arm gets ten steps a second that run `depths`, each cell on its own clock."""
    for arm in of.arms:
        for repeat in range(of.repeats):
            steps = [
                step(index, index / 10, depth)
                for _ in of.load.concurrency
                for index, depth in enumerate(depths)
            ]
            write_lines(run / f"steps/{arm.name}.r{repeat}.jsonl", steps)
    return run


def test_switches_are_counted_after_the_load_settled(tmp_path: Path) -> None:
    of = suite(budgets=(Budget("switches_per_1k_steps", max_value=600.0),))
    judgement = _judged(_with_steps(write_run(tmp_path / "run", of, FAST), of, [2, 2, 0, 0, 2] * 10))
    # 20 changes among 50 steps, in each of three repeats.
    assert [cell.switches_per_1k_steps for cell in judgement.cells] == [pytest.approx(400.0)] * 4
    value = judgement.verdicts[0].value
    assert value is not None
    assert value.low < 400.0 < value.high
    assert judgement.verdicts[0].ruling is Ruling.KEPT


def test_without_steps_switches_are_unknown(tmp_path: Path) -> None:
    of = suite(budgets=(Budget("switches_per_1k_steps", max_value=500.0),))
    judgement = _judged(write_run(tmp_path / "run", of, FAST))
    assert judgement.cells[0].switches_per_1k_steps is None
    assert judgement.verdicts[0].ruling is Ruling.INCONCLUSIVE
    assert "no step records" in judgement.verdicts[0].sentence


def test_a_policy_that_is_not_applied_is_never_gated_as_applied(tmp_path: Path) -> None:
    """vllm#51510: the scheduler says 0, the drafter always runs 2."""
    of = suite()
    run = _with_steps(write_run(tmp_path / "run", of, FAST), of, [0] * 50)
    steps = [step(index, index / 10, 0, depth_executed=2) for _ in range(2) for index in range(50)]
    write_lines(run / "steps/fast.r1.jsonl", steps)
    judgement = _judged(run)
    assert judgement.ruling is Ruling.INVALID
    assert (
        "policy not applied: chosen and executed depth differ in 50 of 50 steps"
        in judgement.verdicts[0].sentence
    )
    fast = next(cell for cell in judgement.cells if cell.arm == "fast")
    assert any("policy not applied" in fault for fault in fast.invalid)


def test_verified_per_emitted_over_the_window(tmp_path: Path) -> None:
    """2,083 verified for 420 emitted is 4.96; here 8 for 1."""
    of = suite()
    judgement = _judged(_with_steps(write_run(tmp_path / "run", of, FAST), of, [8] * 20))
    assert judgement.cells[0].points["verified_per_emitted"] == 8.0


def test_depth_traces_split_restarted_clocks_by_cell(tmp_path: Path) -> None:
    of = suite()
    run = _with_steps(write_run(tmp_path / "run", of, FAST), of, [2, 0, 2])
    traces = depth_traces(run)
    assert [(trace.arm, trace.concurrency, trace.repeat) for trace in traces] == [
        ("off", 1, 0),
        ("off", 2, 0),
        ("fast", 1, 0),
        ("fast", 2, 0),
    ]
    assert traces[1].depth_executed == (2, 0, 2)
    assert traces[1].time_s == pytest.approx((0.0, 0.1, 0.2))


def test_depth_traces_split_one_engine_by_windows(tmp_path: Path) -> None:
    of = suite(repeats=1)
    run = write_run(tmp_path / "run", of, FAST)
    cells = [
        cell(100.0, 101.0, arm="off", concurrency=1, requests=1),
        cell(102.0, 103.0, arm="off", concurrency=2, requests=2),
    ]
    write_lines(run / "cells.jsonl", cells)
    write_lines(run / "steps/off.r0.jsonl", [step(index, 99.95 + index / 2, index) for index in range(8)])
    traces = depth_traces(run)
    assert [trace.depth_executed for trace in traces] == [(1, 2), (5, 6)]


def test_throughputs_leave_repeats_with_an_invalid_cell_out_whole(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", suite(points=(2,)), FAST)
    found = read_throughputs(run)
    assert len(found.tokens_per_s) == 6
    _replace_cell(run, suite(), "fast", invalid=["throttled"], repeat=1)
    left = read_throughputs(run).tokens_per_s
    assert {(key.arm, key.repeat) for key in left} == {(a, r) for a in ("off", "fast") for r in (0, 2)}


@pytest.mark.parametrize(
    ("rulings", "partial", "expected"),
    [
        ("KK", (), Ruling.KEPT),
        ("KK", ("x",), Ruling.INCONCLUSIVE),
        ("KI", (), Ruling.INCONCLUSIVE),
        ("KV", (), Ruling.INVALID),
        ("VI", (), Ruling.INVALID),
        ("VB", (), Ruling.BROKEN),
        ("KB", ("x",), Ruling.BROKEN),
        ("", (), Ruling.INCONCLUSIVE),
    ],
)
def test_precedence(rulings: str, partial: tuple[str, ...], expected: Ruling) -> None:
    letters = {"K": Ruling.KEPT, "I": Ruling.INCONCLUSIVE, "V": Ruling.INVALID, "B": Ruling.BROKEN}
    interval = Interval(1.0, 1.0, 1.0)
    verdicts = [
        BudgetVerdict("a", 1, "tokens_per_s", "ratio >= 1", interval, letters[name], "") for name in rulings
    ]
    assert overall(verdicts, partial) is expected


def test_answers_that_contradict_themselves_are_said(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", suite(points=(2,)), FAST)
    records = burst("fast", 2, 0, 8.0)
    odd = replace(records[0], why="usage says 9 tokens, the chunks carried 10")
    write_lines(run / "requests/fast.c2.r0.jsonl", [odd, records[1]])
    (fast,) = (cell for cell in _judged(run).cells if cell.arm == "fast")
    said = "1 of 6 answers contradict themselves; the first: usage says 9 tokens, the chunks carried 10"
    assert said in fast.notes
