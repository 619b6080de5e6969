"""Hand-made records and run folders, with numbers that can be checked on paper."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from governors.telemetry import StepRecord
from loadgen.records import CellRecord, Outcome, RequestRecord, TokenSource
from suites.canonical import content, suite_sha256
from suites.model import Arm, Budget, EngineSpec, LoadSpec, Suite, TrafficClass


def request(
    due_s: float = 0.0,
    times_s: Sequence[float] = (1.0, 2.0, 4.0),
    tokens: Sequence[int] | None = (1, 2, 4),
    output_tokens: int | None = None,
    outcome: Outcome = Outcome.DONE,
    done_s: float | None = None,
    **more: object,
) -> RequestRecord:
    """A done request whose last chunk ends it, unless told otherwise."""
    total = sum(tokens) if tokens is not None and output_tokens is None else output_tokens
    record = RequestRecord(
        request="r",
        arm="off",
        concurrency=1,
        repeat=0,
        traffic_class="gsm8k",
        due_s=due_s,
        sent_s=due_s,
        first_byte_s=times_s[0] if times_s else None,
        first_token_s=times_s[0] if times_s else None,
        done_s=done_s if done_s is not None else (times_s[-1] if times_s else None),
        chunk_times_s=tuple(times_s),
        chunk_tokens=None if tokens is None else tuple(tokens),
        prompt_tokens=8,
        output_tokens=total,
        max_tokens=64,
        tokens_are=TokenSource.CONTINUOUS_USAGE,
        outcome=outcome,
    )
    return replace(record, **more)  # type: ignore[arg-type]


def failure(outcome: Outcome = Outcome.FAILED, **more: object) -> RequestRecord:
    """A request that brought no token."""
    return request(times_s=(), tokens=None, outcome=outcome, why="HTTP 500: out of memory", **more)  # type: ignore[arg-type]


def cell(start_s: float = 0.0, end_s: float = 10.0, **more: object) -> CellRecord:
    """A valid cell of arm "off" at c=1."""
    plain = CellRecord("off", 1, 0, start_s, end_s, clock="virtual")
    return replace(plain, **more)  # type: ignore[arg-type]


def step(number: int, start_s: float, depth: int, batch: int = 1, **more: object) -> StepRecord:
    """A decoding step of 0.1 s that applied what was chosen."""
    plain = StepRecord(
        step=number,
        start_s=start_s,
        end_s=start_s + 0.1,
        batch=batch,
        prefill_requests=0,
        prefill_tokens=0,
        waiting=0,
        depth_in_force=depth,
        depth_chosen=depth,
        depth_executed=depth,
        window_mean=float(depth),
        verified=batch * depth,
        accepted=0,
        emitted=batch,
        reached_by_position=(),
        accepted_by_position=(),
        target_s=None,
        draft_s=None,
        step_s=0.1,
        graph_mode="full",
        kv_blocks_free=None,
        kv_blocks_total=None,
        preempted=0,
        reason="steady",
    )
    return replace(plain, **more)  # type: ignore[arg-type]


BUDGETS = (Budget("tokens_per_s", min_ratio=0.97), Budget("itl_p50_s", max_ratio=1.5))


def suite(budgets: tuple[Budget, ...] = BUDGETS, repeats: int = 3, points: tuple[int, ...] = (1, 2)) -> Suite:
    """Arms off (baseline) and fast, in bursts."""
    return Suite(
        name="hand-made",
        question="Is fast faster?",
        engine=EngineSpec(profile="paper"),
        traffic=(TrafficClass("gsm8k"),),
        load=LoadSpec(points, mode="burst", requests_per_stream=1),
        arms=(Arm("off", "off", baseline=True), Arm("fast", "fixed", {"depth": 2})),
        budgets=budgets,
        repeats=repeats,
    )


def write_lines(path: Path, records: Iterable[object]) -> None:
    """JSONL as the journals write it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(asdict(record)) + "\n" for record in records))  # type: ignore[call-overload]


def burst(arm: str, concurrency: int, repeat: int, seconds: float) -> list[RequestRecord]:
    """`concurrency` requests of 10 tokens, one a chunk, evenly over `seconds`."""
    times = [seconds * (index + 1) / 10 for index in range(10)]
    plain = request(times_s=times, tokens=[1] * 10, arm=arm, concurrency=concurrency, repeat=repeat)
    return [replace(plain, request=f"{index}") for index in range(concurrency)]


def write_run(path: Path, of: Suite, seconds: dict[str, float], sealed: bool = True) -> Path:
    """A whole run: every burst of an arm takes `seconds[arm]`, 1 % longer in each repeat."""
    cells = []
    for arm in of.arms:
        for concurrency in of.load.concurrency:
            for repeat in range(of.repeats):
                took = seconds[arm.name] * (1 + 0.01 * repeat)
                records = burst(arm.name, concurrency, repeat, took)
                write_lines(path / f"requests/{arm.name}.c{concurrency}.r{repeat}.jsonl", records)
                record = cell(0.0, took, arm=arm.name, concurrency=concurrency, repeat=repeat)
                cells.append(replace(record, requests=len(records)))
    write_lines(path / "cells.jsonl", cells)
    write_manifest(path, of, sealed)
    return path


def write_manifest(path: Path, of: Suite, sealed: bool = True, **more: object) -> None:
    """The manifest of a run that ended well."""
    digest = suite_sha256(of)
    seal = {"suite": of.name, "sha256": digest, "sealed_utc": "2026-01-01T00:00:00+00:00"}
    status = {"state": "sealed", "sentence": "sealed at noon", "seal": seal}
    manifest = {
        "run": path.name,
        "suite": content(of),
        "suite_sha256": digest,
        "seal": status if sealed else {"state": "unsealed", "sentence": "not sealed", "seal": None},
        "engine": "embedded engine (model)",
        "profile": "paper",
        "is_model": True,
        "clock": "virtual",
        "started_utc": "2026-01-02T00:00:00Z",
        "finished_utc": "2026-01-02T00:01:00Z",
        **more,
    }
    (path / "manifest.json").write_text(json.dumps(manifest))
