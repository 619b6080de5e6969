"""The judge: a run folder in, a Judgement out; from records alone, so an old run needs no engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from loadgen.records import CellKey
from reports.budgets import budget_verdicts
from reports.figures import CellResult, Measured, cell_result
from reports.headline import headline
from reports.judgement import BudgetVerdict, Judgement, Ruling
from reports.run_folder import RunFolder, read_run
from reports.statistics import Pool, Statistic, statistics
from reports.step_series import StepSeries, unapplied
from reports.steps import read_cell_steps
from suites.canonical import suite_sha256
from suites.model import Suite


def judge_run(run_dir: Path | RunFolder) -> Judgement:
    """Judge what is there, whole or partial. RunFolderError when `run_dir` is no run folder."""
    run = read_run(run_dir)
    return _unknown(run) if run.suite is None else _judged(run, run.suite)


def overall(verdicts: Sequence[BudgetVerdict], partial: Sequence[str]) -> Ruling:
    """Broken before invalid before inconclusive before kept (docs/decisions/0004-rulings.md).

    A broken budget in a valid cell stays broken whatever else was spoiled; kept needs all, and a whole run.
    """
    rulings = {verdict.ruling for verdict in verdicts}
    for ruling in (Ruling.BROKEN, Ruling.INVALID):
        if ruling in rulings:
            return ruling
    return Ruling.KEPT if rulings == {Ruling.KEPT} and not partial else Ruling.INCONCLUSIVE


@dataclass(frozen=True, slots=True)
class SealFinding:
    """`gated`: the run is of a suite that was sealed before it and not altered since."""

    gated: bool
    sentence: str


def seal_finding(run: RunFolder, suite: Suite) -> SealFinding:
    """Trust nothing that the manifest says of itself where it can be checked: hash and time are."""
    status = run.manifest.get("seal")
    status = status if isinstance(status, dict) else {}
    sentence = str(status.get("sentence") or "the manifest says nothing of a seal")
    if status.get("state") != "sealed":
        return SealFinding(False, f"exploratory: {sentence}")
    seal = status.get("seal")
    if not isinstance(seal, dict):
        return SealFinding(False, "exploratory: the manifest says sealed and holds no seal")
    if not suite_sha256(suite) == run.manifest.get("suite_sha256") == seal.get("sha256"):
        return SealFinding(False, "exploratory: the suite of this run is not the one that was sealed")
    if not _before(seal.get("sealed_utc"), run.manifest.get("started_utc")):
        return SealFinding(False, "exploratory: the seal is not older than the run")
    return SealFinding(True, sentence)


def _before(sealed: object, started: object) -> bool:
    try:
        return datetime.fromisoformat(str(sealed)) <= datetime.fromisoformat(str(started))
    except (TypeError, ValueError):  # not a time, or one without its zone
        return False


def _judged(run: RunFolder, suite: Suite) -> Judgement:
    steps, torn = read_cell_steps(run)
    pools = _pools(run, suite, steps)
    results = _results(suite, pools)
    verdicts = budget_verdicts(suite, results, _unapplied(pools))
    partial = (*run.missing, *torn)
    ruling = overall(verdicts, partial)
    seal = seal_finding(run, suite)
    return Judgement(
        run=_text(run, "run") or run.path.name,
        suite=suite.name,
        question=suite.question,
        ruling=ruling,
        gated=seal.gated,
        seal=seal.sentence,
        partial=partial,
        headline=headline(ruling, verdicts, partial, seal.gated),
        engine=_text(run, "engine") or suite.engine.kind,
        profile=_text(run, "profile") or suite.engine.profile,
        is_model=run.manifest.get("is_model") is True or suite.engine.kind == "embedded",
        clock=_text(run, "clock") or "unknown",
        baseline=suite.baseline.name,
        cells=tuple(result.figures for result in results.values()),
        verdicts=verdicts,
        manifest=dict(run.manifest),
    )


def _unknown(run: RunFolder) -> Judgement:
    """A run whose manifest does not say what was promised cannot be held to it."""
    return Judgement(
        run=_text(run, "run") or run.path.name,
        suite="unknown",
        question="",
        ruling=Ruling.INVALID,
        gated=False,
        seal="exploratory: the suite is not known",
        partial=run.missing,
        headline=f"Invalid: {run.missing[0]}",
        engine=_text(run, "engine") or "unknown",
        profile=_text(run, "profile"),
        is_model=run.manifest.get("is_model") is True,
        clock=_text(run, "clock") or "unknown",
        baseline="",
        cells=(),
        verdicts=(),
        manifest=dict(run.manifest),
    )


def _text(run: RunFolder, name: str) -> str | None:
    value = run.manifest.get(name)
    return value if isinstance(value, str) and value else None


def _pools(run: RunFolder, suite: Suite, steps: dict[CellKey, StepSeries]) -> dict[tuple[str, int], Pool]:
    """(arm, concurrency) -> what was measured there, in the suite's order; absent when nothing was."""
    pools: dict[tuple[str, int], Pool] = {}
    for arm in suite.arms:
        for concurrency in suite.load.concurrency:
            keys = [CellKey(arm.name, concurrency, repeat) for repeat in range(suite.repeats)]
            repeats = {key.repeat: run.cells[key] for key in keys if key in run.cells}
            if repeats:
                known = {key.repeat: steps[key] for key in keys if key in run.cells and key in steps}
                pools[arm.name, concurrency] = Pool(arm.name, concurrency, repeats, known)
    return pools


def _results(suite: Suite, pools: dict[tuple[str, int], Pool]) -> dict[tuple[str, int], CellResult]:
    """Requests of one pool in memory at a time; the baseline's are gone over twice."""
    baseline = suite.baseline.name
    bases = {
        concurrency: Measured(pool, _statistics(pool, suite))
        for (arm, concurrency), pool in pools.items()
        if arm == baseline
    }
    found = {}
    for (arm, concurrency), pool in pools.items():
        base = bases.get(concurrency)
        loaded = pool.loaded()
        if arm == baseline and base is not None:
            found[arm, concurrency] = cell_result(Measured(loaded, base.statistics), None, suite)
        else:
            found[arm, concurrency] = cell_result(Measured(loaded, _statistics(loaded, suite)), base, suite)
    return found


def _statistics(pool: Pool, suite: Suite) -> dict[str, Statistic]:
    return statistics(pool.loaded(), suite.load.mode, suite.seed)


def _unapplied(pools: dict[tuple[str, int], Pool]) -> dict[str, str]:
    """Arm -> why its policy was not in force; one cell is enough, since it is the same engine in all."""
    return {
        arm: f"{why} at c={concurrency}"
        for (arm, concurrency), pool in pools.items()
        for why in map(unapplied, pool.steps.values())
        if why is not None
    }
