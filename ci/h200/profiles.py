"""A governors.profile from the step journal of a server with its depth pinned at every load (plan `fit`)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from ci.h200.arms import ARMS
from ci.h200.servers import ACCEPTANCE, SERVERS, Place
from governors.profile import Binding, Profile

ENOUGH = 5  # steps behind each figure
FITS = ("fit", "refit")
Cell = tuple[int, int]  # batch, depth


def fit(place: Place, server: str) -> str:
    """Writes profiles/SERVER.json and says what is in it. Raises ValueError when steps are missing."""
    steps = place.of(server, "steps.jsonl").read_text(encoding="utf-8").splitlines()
    cells = place.work.joinpath("run", "cells.jsonl").read_text(encoding="utf-8").splitlines()
    profile = profile_of(server, [json.loads(line) for line in cells], map(json.loads, steps))
    path = place.work / "profiles" / f"{server}.json"
    path.write_text(json.dumps(profile.to_mapping()), encoding="utf-8")
    return f"profile {server}: batches {profile.batches}, {len(profile.verify_s)} token counts"


def profile_of(
    server: str, cells: Sequence[Mapping[str, Any]], steps: Iterator[Mapping[str, Any]]
) -> Profile:
    """Medians of served steps: pure decoding, the whole load in the batch, the pinned depth in force."""
    windows = [
        (row["window_start_s"], row["window_end_s"], row["concurrency"], ARMS[row["arm"]].options["depth"])
        for row in cells
        if row["server"] == server and row["plan"] in FITS
    ]
    step_s: dict[Cell, list[float]] = defaultdict(list)
    draft_s: dict[Cell, list[float]] = defaultdict(list)
    for step in steps:
        for begin_s, end_s, batch, depth in windows:
            if begin_s <= step["start_s"] < end_s and _pinned(step, batch, int(str(depth))):
                step_s[batch, int(str(depth))].append(step["step_s"])
                if step["draft_s"] is not None:
                    draft_s[batch, int(str(depth))].append(step["draft_s"])
    return _profile(server, _medians(step_s), _medians(draft_s))


def _pinned(step: Mapping[str, Any], batch: int, depth: int) -> bool:
    return (
        step["step_s"] is not None
        and step["prefill_requests"] == 0
        and step["batch"] == batch
        and step["verified"] == batch * depth
    )


def _medians(seconds: Mapping[Cell, Sequence[float]]) -> dict[Cell, float]:
    return {cell: median(values) for cell, values in seconds.items() if len(values) >= ENOUGH}


def _profile(server: str, step_s: Mapping[Cell, float], draft_s: Mapping[Cell, float]) -> Profile:
    depths = tuple(range((SERVERS[server].depth or 0) + 1))
    batches = tuple(sorted({b for b, _ in step_s if all((b, k) in step_s for k in depths)}))
    if not batches:
        raise ValueError(f"{server}: no load has {ENOUGH} steps at every depth; run the plan `fit` first")
    deepest = depths[-1]
    drafts = tuple(draft_s.get((batch, deepest), 0.0) for batch in batches)
    verify: dict[int, list[float]] = defaultdict(list)
    for (batch, depth), seconds in step_s.items():
        verify[batch * (depth + 1)].append(seconds - draft_s.get((batch, depth), 0.0))
    tokens = tuple(sorted(verify))
    return Profile(
        binding=Binding("NVIDIA H200", SERVERS[server].model, "eagle", "0.26.0"),
        batches=batches,
        depths=depths,
        step_s=tuple(tuple(step_s[batch, depth] for depth in depths) for batch in batches),
        verify_tokens=tokens,
        verify_s=_rising([median(verify[count]) for count in tokens]),
        draft_s=drafts if all(drafts) else None,
        acceptance=ACCEPTANCE[:deepest],
        captured_tokens=(),
        source=f"ci/h200: medians of served steps of server {server!r}, plan fit",
        is_model=False,
    )


def _rising(values: Sequence[float]) -> tuple[float, ...]:
    """The nearest never-falling values (pool adjacent violators): more tokens are not cheaper, noise is.

    A running maximum would not do: one slow median then sets the price of every larger count.
    """
    pools: list[tuple[float, int]] = []  # mean, size
    for value in values:
        mean, size = value, 1
        while pools and pools[-1][0] > mean:
            before, many = pools.pop()
            mean, size = (before * many + mean * size) / (many + size), many + size
        pools.append((mean, size))
    return tuple(mean for mean, size in pools for _ in range(size))
