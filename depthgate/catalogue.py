"""`depthgate reproduce --all`: every reproducer and its control, judged; one table and one page."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from depthgate.engine_choice import engine_choice
from depthgate.exits import UsageError
from depthgate.launch import Overrides, check_arms, plan_run, run_plan
from depthgate.manifest import command_line
from depthgate.plan import new_run_dir
from depthgate.reporting import report_input, reproduction_of, write_page
from depthgate.reproduction import has_control
from depthgate.workers import run_jobs
from engines.contract import EngineError
from reports.catalogue import Catalogue, CatalogueRow, catalogue_code
from reports.judge import judge_run
from reports.reproduction import ReproductionSummary, ReproductionVerdict
from reproducers.contract import Reproducer
from reproducers.registry import REPRODUCERS
from suites.parse import load_suite

WORKERS = 2  # of virtual runs; wall-clock runs need the machine alone and go one by one


@dataclass(frozen=True, slots=True)
class CatalogueRequest:
    """`depthgate reproduce --all`, as typed."""

    engine: str = "embedded"
    profile: str | None = None
    clock: str = "wall"
    repeats: int | None = None
    out: Path = Path("out")
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """One run of one reproducer, as itself or as its control; plain data, to be sent to a worker."""

    name: str
    control: bool
    clock: str
    overrides: Overrides
    run_dir: Path
    quiet: bool

    @property
    def title(self) -> str:
        return f"{self.name} (control)" if self.control else self.name


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a job, in `seconds` of its worker's clock; `is_model`: of an engine embedded here."""

    summary: ReproductionSummary
    is_model: bool
    seconds: float


def reproduce_all(request: CatalogueRequest) -> int:
    """Run, print, write `catalogue.html`; the exit code says whether everything came out as it should."""
    from reports.catalogue_page import write_catalogue_page
    from reports.catalogue_table import print_catalogue
    from reports.table import stdout_console

    choice = engine_choice(request.engine)
    overrides = Overrides(request.profile, choice.url, choice.started, repeats=request.repeats)
    folder = new_run_dir(request.out, "catalogue")
    if overrides.profile:
        check_profile(overrides, request.clock)
    jobs = plan_jobs(request, overrides, folder)
    workers = WORKERS if request.clock == "virtual" else 1
    done = run_jobs(run_job, jobs, workers, _reporter(len(jobs)))
    catalogue = Catalogue(
        run=folder.name,
        engine=_engine_words(request, overrides),
        clock=request.clock,
        command=shlex.join(command_line()),
        rows=catalogue_rows(list(zip(jobs, done, strict=True))),
    )
    page = write_catalogue_page(catalogue, folder / "catalogue.html")
    if request.as_json:
        print(json.dumps([row.to_json() for row in catalogue.rows], indent=1, allow_nan=False))
    else:
        console = stdout_console()
        print_catalogue(catalogue, console)
        console.print(f"catalogue: {page}", markup=False, highlight=False, soft_wrap=True)
    return catalogue_code(catalogue.rows)


def plan_jobs(request: CatalogueRequest, overrides: Overrides, folder: Path) -> list[Job]:
    """Every reproducer, each followed by its control where one can be made."""
    quiet = request.as_json or request.clock == "virtual"
    return [
        Job(
            name=name,
            control=control,
            clock=request.clock,
            overrides=overrides,
            run_dir=folder / (f"{name}.control" if control else name),
            quiet=quiet,
        )
        for name, reproducer in sorted(REPRODUCERS.items())
        for control in ((False, True) if has_control(reproducer, overrides) else (False,))
    ]


def check_profile(overrides: Overrides, clock: str) -> None:
    """UsageError, before the first run, with the reproducer whose arms a profile cannot run."""
    for name, reproducer in sorted(REPRODUCERS.items()):
        try:
            check_arms(overrides.apply(load_suite(reproducer.suite)), clock)
        except EngineError as error:
            raise UsageError(
                f"--profile {overrides.profile}: {name} cannot run on it ({error}); reproduce by name"
            ) from None


def run_job(job: Job) -> Done:
    """Run, judge and assess; the main run gets its page."""
    started_s = time.monotonic()
    reproducer = REPRODUCERS[job.name]
    plan = plan_run(
        reproducer.suite,
        job.clock,
        job.run_dir.parent,
        replace(job.overrides, control=reproducer.control) if job.control else job.overrides,
        exploratory=True,
        reproducer=job.name,
        subject=reproducer.subject,
        run_dir=job.run_dir,
    )
    run_plan(plan, quiet=job.quiet)
    if job.control:
        judgement = judge_run(job.run_dir)
        summary = reproduction_of(job.run_dir, judgement)
    else:
        shown = report_input(job.run_dir)
        judgement, summary = shown.judgement, shown.reproduction
        write_page([shown], job.run_dir / "report.html")
    assert summary is not None
    is_model = judgement.is_model and job.overrides.url is None
    return Done(summary, is_model, time.monotonic() - started_s)


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
        page=f"{reproducer.name}/report.html",
    )


def _reporter(total: int) -> Callable[[int, Job, Done], None]:
    """A line on stderr for each run that ended."""

    def report(count: int, job: Job, done: Done) -> None:
        line = (
            f"[{count:>{len(str(total))}}/{total}] {job.title}: {done.summary.verdict}, {done.seconds:.1f} s"
        )
        print(line, file=sys.stderr, flush=True)

    return report


def _engine_words(request: CatalogueRequest, overrides: Overrides) -> str:
    if overrides.url or overrides.started:
        return f"Engine {request.engine}"
    profile = f"profile {request.profile}" if request.profile else "each suite's own profile"
    return f"Embedded engine: a model, {profile}"
