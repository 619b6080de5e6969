"""`depthgate reproduce --all`: every reproducer and its control, judged; one table and one page."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from depthgate.catalogue_jobs import Done, Job, plan_jobs, run_all
from depthgate.engine_choice import engine_choice
from depthgate.exits import UsageError
from depthgate.launch import Overrides, check_arms
from depthgate.manifest import command_line
from depthgate.plan import new_run_dir
from engines.contract import EngineError
from reports.catalogue import Catalogue, CatalogueRow, catalogue_code
from reports.reproduction import ReproductionVerdict
from reproducers.contract import Reproducer
from reproducers.registry import REPRODUCERS
from suites.parse import load_suite


@dataclass(frozen=True, slots=True)
class CatalogueRequest:
    """`depthgate reproduce --all`, as typed."""

    engine: str = "embedded"
    profile: str | None = None
    clock: str = "wall"
    repeats: int | None = None
    max_tokens: int | None = None
    out: Path = Path("out")
    as_json: bool = False


def reproduce_all(request: CatalogueRequest) -> int:
    """Run, print, write `catalogue.html`; the exit code says whether everything came out as it should.

    Ctrl-C: the same of what ran, then KeyboardInterrupt.
    """
    overrides = overrides_of(request)
    folder = new_run_dir(request.out, "catalogue")
    if overrides.profile:
        check_profile(overrides, request.clock)
    quiet = request.as_json or request.clock == "virtual"
    jobs = plan_jobs(request.clock, overrides, folder, quiet=quiet)
    done, interrupted = run_all(jobs, request.clock)
    rows = catalogue_rows(done)
    if rows or not interrupted:
        folder.mkdir(parents=True, exist_ok=True)  # nothing may have run
        show_catalogue(
            Catalogue(
                run=folder.name,
                engine=_engine_words(request, overrides),
                clock=request.clock,
                command=shlex.join(command_line()),
                rows=rows,
            ),
            folder / "catalogue.html",
            as_json=request.as_json,
        )
    if interrupted:
        raise KeyboardInterrupt
    return catalogue_code(rows)


def overrides_of(request: CatalogueRequest) -> Overrides:
    """As typed. Where arming costs nothing, one armed server with the deepest K serves all reproducers."""
    choice = engine_choice(request.engine)
    overrides = Overrides(
        request.profile,
        choice.url,
        choice.started,
        repeats=request.repeats,
        max_tokens=request.max_tokens,
    )
    if choice.started is None or choice.started.options.get("share_armed") is not True:
        return overrides
    suites = [load_suite(each.suite) for each in REPRODUCERS.values()]
    asked = [suite.engine.options.get("k_max") for suite in suites]
    return replace(overrides, k_max=max((k for k in asked if isinstance(k, int)), default=None))


def show_catalogue(catalogue: Catalogue, path: Path, *, as_json: bool) -> None:
    """The page at `path`; the list or the table on stdout."""
    from reports.catalogue_page import write_catalogue_page
    from reports.catalogue_table import print_catalogue
    from reports.table import stdout_console

    page = write_catalogue_page(catalogue, path)
    if as_json:
        print(json.dumps([row.to_json() for row in catalogue.rows], indent=1, allow_nan=False), flush=True)
        return
    console = stdout_console()
    print_catalogue(catalogue, console)
    console.print(f"catalogue: {page}", markup=False, highlight=False, soft_wrap=True)


def check_profile(overrides: Overrides, clock: str) -> None:
    """UsageError, before the first run, with the reproducer whose arms a profile cannot run."""
    for name, reproducer in sorted(REPRODUCERS.items()):
        try:
            check_arms(overrides.apply(load_suite(reproducer.suite)), clock)
        except EngineError as error:
            raise UsageError(
                f"--profile {overrides.profile}: {name} cannot run on it ({error}); reproduce by name"
            ) from None


def catalogue_rows(done: Sequence[tuple[Job, Done]]) -> tuple[CatalogueRow, ...]:
    """One row a reproducer, in the order of the jobs."""
    controls = {job.name: each.summary.verdict for job, each in done if job.control}
    return tuple(
        _row(REPRODUCERS[job.name], each, controls.get(job.name), declared=job.overrides.profile is None)
        for job, each in done
        if not job.control
    )


def _row(
    reproducer: Reproducer, done: Done, control: ReproductionVerdict | None, *, declared: bool
) -> CatalogueRow:
    """`declared`: on the suite's own profile, for which the expected figure was written down."""
    figure, expected, summary = reproducer.published_figure, reproducer.expected, done.summary
    return CatalogueRow(
        name=reproducer.name,
        report=reproducer.report,
        symptom=reproducer.symptom,
        verdict=summary.verdict,
        control_verdict=control,
        control_says=reproducer.control.says,
        published=(figure.low, figure.high) if figure else None,
        published_of=figure.of if figure else None,
        published_text=reproducer.published,
        ours=summary.ratio,
        ours_of=summary.ratio_of,
        expected=(expected.low, expected.high) if done.is_model and declared else None,
        evidence=summary.evidence,
        page=f"{reproducer.name}/report.html" if done.has_page else None,
    )


def _engine_words(request: CatalogueRequest, overrides: Overrides) -> str:
    if overrides.url or overrides.started:
        return f"Engine {request.engine}"
    profile = f"profile {request.profile}" if request.profile else "each suite's own profile"
    return f"Embedded engine: a model, {profile}"
