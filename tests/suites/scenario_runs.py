"""What a scenario's first repeat comes to, in whole numbers.

`python -m tests.suites.scenario_runs [NAME ...]` writes tests/golden/scenarios: the diff is the review.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from depthgate.usage import OneLineParser
from governors.telemetry import StepRecord
from loadgen.records import CellKey, Outcome, RequestRecord
from loadgen.traffic import TrafficMix
from loadgen.virtual import simulate_cell
from suites.canonical import suite_sha256
from suites.fields import nearest, shown
from suites.locate import suite_names
from suites.model import Arm, Suite
from suites.parse import load_suite

GOLDEN = Path(__file__).parents[1] / "golden" / "scenarios"
PARTS = 8
SCENARIOS = tuple(name for name in suite_names() if name.startswith("scenario-"))


def golden_path(name: str) -> Path:
    return GOLDEN / f"{name}.json"


def fingerprint(suite: Suite) -> dict[str, object]:
    """Every arm and concurrency in repeat 0."""
    cells = {
        f"{arm.name}/c{concurrency}": cell(suite, arm, concurrency)
        for arm in suite.arms
        for concurrency in suite.load.concurrency
    }
    return {"suite_sha256": suite_sha256(suite), "cells": cells}


def cell(suite: Suite, arm: Arm, concurrency: int) -> dict[str, object]:
    """One cell in virtual time, as `depthgate run --clock virtual` runs it."""
    key = CellKey(arm.name, concurrency, 0)
    records, steps, record = simulate_cell(
        suite.engine.profile or "",
        arm,
        suite.engine.options,
        key,
        suite.load,
        TrafficMix(suite.traffic, suite.seed).cell(key),
        suite.seed,
    )
    assert record.invalid == (), f"{suite.name} {arm.name} c={concurrency}: {record.invalid}"
    return {**_requests(records), **_steps(steps), "phases": len(record.phase_starts_s or ()) - 1}


def _requests(records: Sequence[RequestRecord]) -> dict[str, int]:
    return {
        "requests": len(records),
        "done": sum(record.outcome is Outcome.DONE for record in records),
        "prompt_tokens": sum(record.prompt_tokens or 0 for record in records),
        "output_tokens": sum(record.output_tokens or 0 for record in records),
    }


def _steps(steps: Sequence[StepRecord]) -> dict[str, object]:
    """`depths`: K executed -> decoding steps; `switches`: changes of it from one decoding step to the next;

    `course`: the K that ran most in each eighth of them.
    """
    decoding = [step.depth_executed for step in steps if step.batch]
    return {
        "steps": len(steps),
        "preemptions": sum(step.preempted for step in steps),
        "verified": sum(step.verified for step in steps),
        "accepted": sum(step.accepted for step in steps),
        "depths": {str(depth): count for depth, count in sorted(Counter(decoding).items())},
        "switches": sum(before != after for before, after in pairwise(decoding)),
        "course": [_most(decoding[start:end]) for start, end in pairwise(_edges(len(decoding)))],
        "graph_modes": dict(sorted(Counter(step.graph_mode for step in steps).items())),
    }


def _edges(count: int) -> list[int]:
    return [count * part // PARTS for part in range(PARTS + 1)]


def _most(depths: Sequence[int]) -> int:
    """The deepest of the most frequent ones."""
    counts = Counter(depths)
    return max(counts, key=lambda depth: (counts[depth], depth))


def remake(names: Sequence[str]) -> None:
    """Writes the golden runs of `names`."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name in names:
        text = json.dumps(fingerprint(load_suite(name)), indent=1)
        golden_path(name).write_text(f"{text}\n", encoding="utf-8")


def main(words: Sequence[str] | None = None) -> None:
    """Of the scenarios that are named, else of all. SystemExit for --help and a name that is none."""
    parser = OneLineParser(prog="python -m tests.suites.scenario_runs", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help="scenarios; left out, all of them")
    names = parser.parse_args(words).names
    for name in names:
        if name not in SCENARIOS:
            parser.error(f"{shown(name)}: no such scenario; {nearest(name, SCENARIOS)}")
    remake(names or SCENARIOS)


if __name__ == "__main__":
    main()
