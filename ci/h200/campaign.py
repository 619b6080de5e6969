"""Drives a campaign on the machine that holds the GPU: `python -m ci.h200.campaign PHASE...`

Phases, run in order: models | machine | up:GROUP[:SECONDS] | warm:GROUP | plan:NAME:ROUNDS[:SECONDS] |
overhead:SERVER:PASSES[:SECONDS] | fit:SERVER | down:GROUP | table:PLAN... | collect. A plan starts no round
that would end later than SECONDS after this process began, and repeats no cell that is done: a later call
goes on there.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

from ci.h200 import fleet, profiles
from ci.h200.arms import ARMS, PLANS, PROMPT_TOKENS, Plan
from ci.h200.cells import Bench
from ci.h200.model_folder import add_tokenizer, prompts
from ci.h200.overhead import measure_overhead
from ci.h200.servers import GROUPS, SERVERS, Place
from ci.h200.summary import cell_rows, slim_journals, table

BEGUN_S = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - BEGUN_S:6.1f}] {text}", flush=True)


def place_from(environment: dict[str, str]) -> Place:
    work = Path(environment.get("CAMPAIGN_WORK", "/opt/w"))
    (work / "run").mkdir(parents=True, exist_ok=True)
    (work / "profiles").mkdir(exist_ok=True)
    return Place(Path.cwd(), work, Path(environment.get("CAMPAIGN_SITE", "/opt/site")))


def models(place: Place) -> None:
    for folder in sorted((place.work / "models").iterdir()):
        add_tokenizer(folder)


def up(place: Place, group: str, limit_s: str = "300") -> None:
    fleet.start(GROUPS[group], place)
    healthy = fleet.wait(GROUPS[group], place, float(limit_s), say)
    if not any(SERVERS[name].governed for name in healthy):
        raise SystemExit(f"no governed server of {group} came up: nothing to measure")
    say(_shell("nvidia-smi --query-gpu=name,driver_version,memory.used,clocks.sm --format=csv,noheader"))


async def warm(bench: Bench, group: str) -> None:
    """Every depth at every load once, on all servers at the same time: kernels are compiled on first use."""
    await asyncio.gather(*(bench.warm(name) for name in fleet.healthy(GROUPS[group])))


async def plan(bench: Bench, name: str, rounds: str, limit_s: str = "inf") -> None:
    """Whole rounds of a plan: loads shuffled in a round, arms shuffled at a load."""
    chosen, longest_s = PLANS[name], 0.0
    for repeat in range(int(rounds)):
        begun_s = time.monotonic()
        if begun_s - BEGUN_S + longest_s > float(limit_s):
            say(f"plan {name}: no time for round {repeat} (a round took {longest_s:.0f} s)")
            return
        driven = await _round(bench, name, chosen, repeat)
        longest_s = max(longest_s, time.monotonic() - begun_s)
        say(f"plan {name} round {repeat}: {driven} cells in {time.monotonic() - begun_s:.1f} s")


async def _round(bench: Bench, name: str, chosen: Plan, repeat: int) -> int:
    up_now = set(fleet.healthy({ARMS[arm].server for arm in chosen.arms}))
    order = Random(f"{name}/{repeat}")
    loads = order.sample(chosen.concurrency, len(chosen.concurrency))
    driven = 0
    for concurrency in loads:
        for arm in order.sample(chosen.arms, len(chosen.arms)):
            if ARMS[arm].server in up_now:
                driven += await bench.cell(name, chosen, arm, concurrency, repeat)
    return driven


def collect(place: Place, out: Path) -> None:
    """Results and logs as archives, small enough to travel: journals without their lists by request."""
    slim_journals(place.work / "run")
    for archive, patterns in {
        "results": ("*.slim", "cells.jsonl", "requests.jsonl", "*.command", "*.ack", "*.txt"),
        "logs": ("*.log",),
    }.items():
        with tarfile.open(out / f"{archive}.tar.xz", "w:xz", preset=2) as tar:
            for pattern in patterns:
                for path in sorted((place.work / "run").glob(pattern)):
                    tar.add(path, path.name)
            if archive == "results":
                tar.add(place.work / "profiles", "profiles")
    say("collected " + _shell(f"ls -l {out}"))


def machine(place: Place) -> None:
    """What the figures were measured on."""
    versions = (
        f"PYTHONPATH={place.site} {sys.executable} -m pip list 2>/dev/null"
        " | grep -iE '^(torch|triton|vllm|transformers|numpy|aiohttp|fastapi|uvicorn) '"
    )
    text = "\n".join(
        _shell(line) for line in ("date -u", "nvidia-smi", "uname -r", "lscpu | head -20", versions)
    )
    (place.work / "run" / "machine.txt").write_text(text, encoding="utf-8")


def _shell(line: str) -> str:
    return subprocess.run(
        line, shell=True, capture_output=True, text=True, timeout=60, check=False
    ).stdout.strip()


def _phases(place: Place, bench: Bench) -> dict[str, Callable[..., Awaitable[None] | None]]:
    return {
        "models": lambda: models(place),
        "machine": lambda: machine(place),
        "up": lambda *words: up(place, *words),
        "warm": lambda group: warm(bench, group),
        "plan": lambda *words: plan(bench, *words),
        "overhead": lambda server, passes, limit_s="inf": measure_overhead(
            bench, server, int(passes), lambda: time.monotonic() - BEGUN_S > float(limit_s)
        ),
        "fit": lambda server: say(profiles.fit(place, server)),
        "table": lambda *plans: print(table(cell_rows(place.work / "run"), plans), flush=True),
        "down": lambda group: fleet.stop(GROUPS[group], place),
        "collect": lambda: collect(place, Path(os.environ.get("OUT", "out"))),
    }


async def main(words: list[str]) -> None:
    """A phase that fails is said, and the next one runs: device time is dear."""
    place = place_from(dict(os.environ))
    texts = {name: prompts(tokens, 512, tokens) for name, tokens in PROMPT_TOKENS.items()}
    phases = _phases(place, Bench(place, texts, say))
    for word in words:
        name, *rest = word.split(":")
        say(f"phase {word}")
        try:
            result = phases[name](*rest)
            if result is not None:
                await result
        except Exception as error:
            say(f"phase {word} failed: {type(error).__name__}: {error}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
