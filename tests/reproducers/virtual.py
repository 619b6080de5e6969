"""A reproducer's run in virtual time on the embedded engine, as it is or with its cause removed."""

from __future__ import annotations

from pathlib import Path

from depthgate.plan import RunPlan
from depthgate.reporting import report_input
from depthgate.run import execute
from loadgen.traffic import TrafficMix
from reports.reproduction import ReproductionSummary
from reproducers.contract import Reproducer
from suites.canonical import content, suite_sha256
from suites.model import Suite
from suites.parse import load_suite


class _Quiet:
    """depthgate.run.Progress that says nothing."""

    def cell_started(self, arm: str, concurrency: int, repeat: int) -> None: ...

    def request_done(self) -> None: ...

    def cell_done(
        self, arm: str, concurrency: int, repeat: int, tokens_per_s: float | None, note: str
    ) -> None: ...


def reproduced(reproducer: Reproducer, run_dir: Path, *, control: bool = False) -> ReproductionSummary:
    """The summary of the main run, or of its control."""
    suite = load_suite(reproducer.suite)
    return assessed(reproducer, reproducer.control.change(suite) if control else suite, run_dir)


def assessed(reproducer: Reproducer, suite: Suite, run_dir: Path) -> ReproductionSummary:
    """Any suite under the reproducer's rule. `run_dir` is made."""
    for room in ("requests", "steps"):
        (run_dir / room).mkdir(parents=True)
    plan = RunPlan(
        suite=suite,
        mix=TrafficMix(suite.traffic, suite.seed),
        canonical=content(suite),
        sha256=suite_sha256(suite),
        seal={},
        clock="virtual",
        run_dir=run_dir,
        reproducer=reproducer.name,
    )
    execute(plan, _Quiet())
    summary = report_input(run_dir).reproduction
    assert summary is not None
    return summary
