"""The runs of `depthgate reproduce --all`: every reproducer and its control, in turn or over workers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from depthgate.engine_facts import unmet_need
from depthgate.launch import Overrides, fitted, plan_run, run_plan
from depthgate.loop import run_loop
from depthgate.reporting import report_input, reproduction_of, write_page
from depthgate.reproduction import has_control
from depthgate.workers import run_jobs
from engines.contract import EngineError
from engines.vllm_servers import VllmServers
from governors.registry import GovernorError
from reports.judge import judge_run
from reports.reproduction import ReproductionSummary, ReproductionVerdict
from reproducers.contract import Reproducer
from reproducers.registry import REPRODUCERS
from suites.parse import load_suite

WORKERS = 2  # of virtual runs; wall-clock runs need the machine alone and go one by one


@dataclass(frozen=True, slots=True)
class Job:
    """One run of one reproducer, as itself or as its control; plain data, to be sent to a worker.

    `unmet`: why it would mean nothing on this engine, so that no load is spent.
    """

    name: str
    control: bool
    clock: str
    overrides: Overrides
    run_dir: Path
    quiet: bool
    unmet: str | None = None

    @property
    def title(self) -> str:
        return f"{self.name} (control)" if self.control else self.name


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a job, in `seconds` of its worker's clock; `is_model`: of an engine embedded here;

    `has_page`: it ran to its end.
    """

    summary: ReproductionSummary
    is_model: bool
    seconds: float
    has_page: bool = True


def plan_jobs(clock: str, overrides: Overrides, folder: Path, *, quiet: bool) -> list[Job]:
    """Every reproducer, each followed by its control where one can be made and the main run can be."""
    jobs = []
    for name, reproducer in sorted(REPRODUCERS.items()):
        unmet = unmet_of(reproducer, overrides)
        main = Job(name, False, clock, overrides, folder / name, quiet, unmet)
        jobs.append(main)
        if unmet is None and has_control(reproducer, overrides):
            jobs.append(replace(main, control=True, run_dir=folder / f"{name}.control"))
    return jobs


def unmet_of(reproducer: Reproducer, overrides: Overrides) -> str | None:
    """Why it would mean nothing on the engine, or cannot run there at all."""
    suite = fitted(overrides.apply(load_suite(reproducer.suite)), overrides, reproducer.subject)
    return unmet_need(reproducer, suite)


def run_all(jobs: Sequence[Job], clock: str) -> tuple[list[tuple[Job, Done]], bool]:
    """What came of the jobs, in their order, and whether Ctrl-C ended them early.

    vLLM servers stay up from job to job.
    """
    done: dict[Path, Done] = {}
    report = _reporter(len(jobs))

    def keep(count: int, job: Job, result: Done) -> None:
        done[job.run_dir] = result
        report(count, job, result)

    interrupted = False
    servers = VllmServers()
    try:
        if clock == "virtual":
            run_jobs(attempt, jobs, WORKERS, keep)
        else:
            run_jobs(partial(attempt, servers=servers), jobs, 1, keep)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        run_loop(servers.close)
    return [(job, done[job.run_dir]) for job in jobs if job.run_dir in done], interrupted


def attempt(job: Job, servers: VllmServers | None = None) -> Done:
    """`run_job`; a job that its engine cannot run says so in its row, and the others go on."""
    started_s = time.monotonic()
    if job.unmet is not None:
        return _not_run(job, ReproductionVerdict.INCONCLUSIVE, f"not run: {job.unmet}", 0.0)
    try:
        return run_job(job, servers)
    except (EngineError, GovernorError) as error:
        said = f"did not run: {' '.join(str(error).split())}"
        return _not_run(job, ReproductionVerdict.INVALID, said, time.monotonic() - started_s)


def _not_run(job: Job, verdict: ReproductionVerdict, said: str, seconds: float) -> Done:
    reproducer = REPRODUCERS[job.name]
    summary = ReproductionSummary(
        name=job.name,
        report=reproducer.report,
        title=reproducer.symptom,
        verdict=verdict,
        ratio=None,
        published=reproducer.published,
        evidence=(said,),
    )
    return Done(summary, is_model=False, seconds=seconds, has_page=False)


def run_job(job: Job, servers: VllmServers | None = None) -> Done:
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
    run_plan(plan, quiet=job.quiet, servers=servers)
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


def _reporter(total: int) -> Callable[[int, Job, Done], None]:
    """A line on stderr for each run that ended."""

    def report(count: int, job: Job, done: Done) -> None:
        said = f"{done.seconds:.1f} s" if done.has_page else done.summary.evidence[0]
        line = f"[{count:>{len(str(total))}}/{total}] {job.title}: {done.summary.verdict}, {said}"
        print(line, file=sys.stderr, flush=True)

    return report
