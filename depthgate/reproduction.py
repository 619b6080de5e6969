"""A reproduction from request to verdict: run the suite, assess it, show it, say it."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from depthgate.engine_choice import engine_choice
from depthgate.engine_facts import foretold, unmet_need
from depthgate.exits import UsageError
from depthgate.launch import Overrides, check_arms, fitted, plan_run, run_plan
from depthgate.plan import on_profile
from depthgate.reporting import report_input, show, write_page
from depthgate.rulings import REPRODUCTION_CODES
from reports.judgement import CellFigures
from reports.page_input import ReportInput
from reproducers.contract import Reproducer
from reproducers.registry import REPRODUCERS
from suites.parse import load_suite

CELL_FIGURES = (
    "tokens_per_s",
    "itl_p50_s",
    "itl_p95_s",
    "itl_p99_s",
    "ttft_p50_s",
    "ttft_p99_s",
    "e2e_p99_s",
    "acceptance_length",
)


@dataclass(frozen=True, slots=True)
class Request:
    """`depthgate reproduce NAME`, as typed. `beside`: profiles shown in virtual time on the same page;

    `control`: all of them with the cause removed.
    """

    name: str
    engine: str = "embedded"
    arm_urls: Mapping[str, str] = field(default_factory=dict)
    profile: str | None = None
    clock: str = "wall"
    beside: tuple[str, ...] = ()
    control: bool = False
    repeats: int | None = None
    max_tokens: int | None = None
    out: Path = Path("out")
    as_json: bool = False


def reproduce(request: Request) -> int:
    """Run, assess, write the page and the words; the exit code is the main run's verdict."""
    reproducer = find_reproducer(request.name)
    for profile in request.beside:  # said now, not after the main run
        check_arms(on_profile(load_suite(reproducer.suite), profile), "virtual")
    overrides = _overrides(request, reproducer)
    check_meaning(reproducer, overrides)
    run_dir = _run(reproducer, request, request.clock, request.out, overrides)
    main = report_input(run_dir)
    beside = [
        report_input(_run(reproducer, request, "virtual", run_dir / "beside", changed))
        for changed in (Overrides(profile=name, control=overrides.control) for name in request.beside)
    ]
    page = write_page([main, *beside], run_dir / "report.html")
    if request.as_json:
        print(json.dumps(as_object(main, run_dir, page), indent=1, allow_nan=False))
    else:
        for shown in (*beside, main):
            show(shown, page)
    assert main.reproduction is not None
    return REPRODUCTION_CODES[main.reproduction.verdict]


def find_reproducer(name: str) -> Reproducer:
    """By name; UsageError with the nearest one otherwise."""
    if name in REPRODUCERS:
        return REPRODUCERS[name]
    close = difflib.get_close_matches(name, REPRODUCERS, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise UsageError(f"unknown reproducer {name!r}; {hint}known: {', '.join(sorted(REPRODUCERS))}")


def _overrides(request: Request, reproducer: Reproducer) -> Overrides:
    choice = engine_choice(request.engine)
    overrides = Overrides(
        request.profile,
        choice.url,
        choice.started,
        request.arm_urls,
        request.repeats,
        max_tokens=request.max_tokens,
    )
    if not request.control:
        return overrides
    if not has_control(reproducer, overrides):
        raise UsageError(
            f"--control: what it changes ({reproducer.control.says}) is in the embedded engine alone"
        )
    return replace(overrides, control=reproducer.control)


def has_control(reproducer: Reproducer, overrides: Overrides) -> bool:
    """False where the control would be the same run: its cause is in an engine that we cannot change."""
    suite, same = load_suite(reproducer.suite), replace(overrides, repeats=1)
    return same.apply(suite) != replace(same, control=reproducer.control).apply(suite)


def check_meaning(reproducer: Reproducer, overrides: Overrides) -> None:
    """UsageError, before any load, when an arm has no server or the run could mean nothing on that engine.

    A lone server that cannot switch governors shows the figures of one arm: that is said, and it goes on.
    """
    whole = load_suite(reproducer.suite)
    suite = fitted(overrides.apply(whole), overrides, reproducer.subject)
    lone = bool(overrides.url) and not overrides.arm_urls
    missing = sorted({arm.name for arm in whole.arms} - {arm.name for arm in suite.arms})
    if missing and not lone:
        raise UsageError(
            f"{reproducer.name}: no server for {', '.join(missing)}; add --arm {missing[0]}=URL, "
            "or --engine URL for what is left"
        )
    why = unmet_need(reproducer, suite)
    if why is not None and not missing:
        raise UsageError(f"{reproducer.name} would mean nothing on this engine: {why}")
    if why is not None:
        print(f"{reproducer.name}: {why}; the verdict can only be inconclusive", file=sys.stderr)
    for says in foretold(reproducer, suite):
        print(f"{reproducer.name}: foretold by the configuration: {says}", file=sys.stderr)


def _run(reproducer: Reproducer, request: Request, clock: str, out: Path, overrides: Overrides) -> Path:
    plan = plan_run(
        reproducer.suite,
        clock,
        out,
        overrides,
        exploratory=True,
        reproducer=reproducer.name,
        subject=reproducer.subject,
    )
    run_plan(plan, quiet=request.as_json)
    return plan.run_dir


def as_object(shown: ReportInput, run_dir: Path, page: Path) -> dict[str, object]:
    """The one object of `--json`; unknown figures are null."""
    summary, judgement = shown.reproduction, shown.judgement
    assert summary is not None
    arms: dict[str, dict[str, dict[str, float | None]]] = {}
    for cell in judgement.cells:
        arms.setdefault(cell.arm, {})[str(cell.concurrency)] = _points(cell)
    return {
        "reproducer": summary.name,
        "report": summary.report,
        "verdict": str(summary.verdict),
        "ratio": asdict(summary.ratio) if summary.ratio else None,
        "ratio_of": summary.ratio_of,
        "published": summary.published,
        "evidence": list(summary.evidence),
        "arms": arms,
        "engine": judgement.engine,
        "is_model": judgement.is_model,
        "profile": judgement.profile,
        "clock": judgement.clock,
        "run": str(run_dir),
        "page": str(page),
    }


def _points(cell: CellFigures) -> dict[str, float | None]:
    return {name: cell.points.get(name) for name in CELL_FIGURES}
