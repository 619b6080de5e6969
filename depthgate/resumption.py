"""`depthgate run --resume`: what of a run is whole stays, the rest is set aside and run again."""

from __future__ import annotations

import sys
from pathlib import Path

from depthgate.exits import UsageError
from depthgate.launch import check_plan, run_locked
from depthgate.load_drivers import LoadChoice
from depthgate.plan import CLOCKS, RunPlan
from depthgate.run_lock import run_lock
from depthgate.session import resumed
from depthgate.setting_aside import set_aside
from loadgen.records import CellKey
from loadgen.traffic import TrafficMix
from reports.run_folder import RunFolder, read_run
from suites.canonical import content, suite_sha256
from suites.locate import find_suite
from suites.model import Suite
from suites.parse import load_suite


def resume_run(run_dir: Path, suite_name: str | None, *, quiet: bool) -> bool:
    """Runs what is left, with a live table on stderr; False = the run was finished. See `resume_plan`."""
    read_run(run_dir)  # said before a lock is put there
    with run_lock(run_dir):
        plan = resume_plan(run_dir, suite_name)
        if plan is not None:
            for sentence in said(plan):
                print(f"depthgate: {sentence}", file=sys.stderr)
            run_locked(plan, quiet=quiet)
    return plan is not None


def said(plan: RunPlan) -> list[str]:
    """What the one who resumes should know: what is set aside, what is not as it was."""
    sessions = (plan.manifest or {}).get("sessions")
    session = sessions[-1] if isinstance(sessions, list) else {}
    of = len(plan.suite.arms) * len(plan.suite.load.concurrency) * plan.suite.repeats
    found = [f"{plan.run_dir}: {len(plan.done)} of {of} cells are whole"]
    if session["set_aside"]:
        found.append(f"set aside and not counted: {', '.join(session['set_aside'])}")
    if session["changed"]:
        found.append(f"another {' and '.join(session['changed'])} than before: the run is exploratory")
    return found


def resume_plan(run_dir: Path, suite_name: str | None) -> RunPlan | None:
    """The rest of the run, with what was torn set aside; None = the run is finished. Hold the run's lock.

    `suite_name`: must be the run's own suite, word for word; None takes it from the manifest. UsageError: the
    suite was altered, or the manifest cannot be read.
    """
    run = read_run(run_dir)
    if suite_name is not None:
        _check_same(suite_name, run)
    if run.manifest.get("finished_utc") is not None:
        return None
    suite = _own_suite(run)
    clock = str(run.manifest.get("clock"))
    if clock not in CLOCKS:
        raise UsageError(f"{run_dir / 'manifest.json'}: clock = {clock!r}: begin a new run")
    traced = run.manifest.get("trace") is True
    load = LoadChoice.of(run.manifest.get("load"))
    check_plan(suite, clock, trace=traced, load=load)
    mix = TrafficMix(suite.traffic, suite.seed)
    done = whole_cells(run, suite)
    return RunPlan(
        suite=suite,
        mix=mix,
        canonical=content(suite),
        sha256=suite_sha256(suite),
        seal={},
        clock=clock,
        run_dir=run_dir,
        trace=traced,
        keep_journal=run.manifest.get("keep_journal") is True,
        load=load,
        done=done,
        manifest=resumed(run.manifest, set_aside(run, suite, done), clock),
    )


def _own_suite(run: RunFolder) -> Suite:
    if run.suite is None:
        raise UsageError(f"{run.path}: {run.missing[0]}; a run cannot go on without it: begin a new one")
    found, noted = suite_sha256(run.suite), run.manifest.get("suite_sha256")
    if found != noted:
        raise UsageError(
            f"{run.path / 'manifest.json'}: its suite was altered after the run began (SHA-256 {found[:12]}, "
            f"the run noted {str(noted)[:12]}); restore it, or begin a new run"
        )
    return run.suite


def _check_same(name: str, run: RunFolder) -> None:
    given, own = suite_sha256(load_suite(find_suite(name))), str(run.manifest.get("suite_sha256"))
    if given == own:
        return
    flags = run.manifest.get("overrides")
    why = f"the run changed it by {', '.join(map(str, flags))}" if isinstance(flags, list) and flags else ""
    raise UsageError(
        f"{name}: not the suite of {run.path} (SHA-256 {given[:12]}, the run has {own[:12]}"
        f"{'; ' + why if why else ''}); leave it out to go on with the run's own"
    )


def whole_cells(run: RunFolder, suite: Suite) -> frozenset[CellKey]:
    """Of each arm and repeat the cells up to the first that is not whole: one engine served them in turn."""
    found: set[CellKey] = set()
    for arm in suite.arms:
        for repeat in range(suite.repeats):
            for concurrency in suite.load.concurrency:
                key = CellKey(arm.name, concurrency, repeat)
                if key not in run.cells:
                    break
                found.add(key)
    return frozenset(found)
