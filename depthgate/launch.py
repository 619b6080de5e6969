"""From a suite's name and the command line's overrides to a run under way, with progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from depthgate.engine_choice import on_engine
from depthgate.exits import UsageError
from depthgate.load_drivers import OWN_LOAD, LoadChoice
from depthgate.loop import run_loop
from depthgate.plan import (
    RunPlan,
    make_run_dir,
    new_run_dir,
    on_one_arm,
    on_profile,
    on_urls,
    with_short_answers,
)
from depthgate.room import check_room
from depthgate.run_lock import run_lock
from loadgen.arrival_trace import read_arrival_trace
from loadgen.traffic import TrafficMix
from reproducers.contract import Control
from suites.canonical import content, suite_sha256
from suites.locate import find_suite
from suites.model import EngineSpec, Suite
from suites.parse import load_suite
from suites.seal import SealState, SealStatus, check_seal

if TYPE_CHECKING:
    from engines.vllm_servers import VllmServers


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line changes of a suite; any change makes the run exploratory.

    `control`: of a reproducer, which takes the cause away before anything else is changed.
    `max_tokens`: of every answer, at most: a smaller load for a slow machine.
    `k_max`: of a vLLM started here, in place of the suite's.
    """

    profile: str | None = None
    url: str | None = None
    started: EngineSpec | None = None
    arm_urls: Mapping[str, str] = field(default_factory=dict)
    repeats: int | None = None
    control: Control | None = None
    max_tokens: int | None = None
    k_max: int | None = None

    def apply(self, suite: Suite) -> Suite:
        """The suite as it will run."""
        if self.profile and (self.url or self.started or self.arm_urls):
            raise UsageError(
                f"--profile {self.profile}: is of the embedded engine, and --engine or --arm names another; "
                "drop one of the two"
            )
        suite = on_profile(self.control.change(suite) if self.control else suite, self.profile)
        if self.started is not None:
            suite = on_engine(suite, self.started, self.k_max)
        if self.url or self.arm_urls:
            suite = on_urls(suite, self.url, self.arm_urls)
        if self.repeats is not None:
            suite = replace(suite, repeats=self.repeats)
        return suite if self.max_tokens is None else with_short_answers(suite, self.max_tokens)

    def said(self) -> tuple[str, ...]:
        """The flags in words, for the manifest."""
        flags = [
            f"--control ({self.control.says})" if self.control else "",
            f"--profile {self.profile}" if self.profile else "",
            f"--engine {self.url}" if self.url else "",
            f"--engine {self.started.kind}" if self.started else "",
            f"k_max = {self.k_max}, for all reproducers on one server" if self.k_max else "",
        ]
        flags += [f"--arm {name}={url}" for name, url in self.arm_urls.items()]
        flags += [f"--repeats {self.repeats}" if self.repeats is not None else ""]
        flags += [f"--max-tokens {self.max_tokens}" if self.max_tokens is not None else ""]
        return tuple(flag for flag in flags if flag)


def plan_run(
    name: str,
    clock: str,
    out: Path,
    overrides: Overrides,
    *,
    exploratory: bool = False,
    reproducer: str | None = None,
    trace: bool = False,
    keep_journal: bool = False,
    load: LoadChoice = OWN_LOAD,
    subject: str | None = None,
    run_dir: Path | None = None,
) -> RunPlan:
    """Checks all that can be checked before the first request; UsageError otherwise.

    `subject`: the arm that a lone server is taken for when it cannot switch governors. `run_dir`: None = a
    new folder under `out`.
    """
    path = find_suite(name)
    suite = load_suite(path)
    status = _checked_seal(path, exploratory=exploratory)
    changed = fitted(overrides.apply(suite), overrides, subject)
    check_plan(changed, clock, trace=trace, load=load, source=str(path))
    return RunPlan(
        suite=changed,
        mix=TrafficMix(changed.traffic, changed.seed),
        canonical=content(changed),
        sha256=suite_sha256(changed),
        seal=_seal_of(status, overrides),
        clock=clock,
        run_dir=make_run_dir(run_dir or new_run_dir(out, changed.name)),
        reproducer=reproducer,
        overrides=overrides.said(),
        trace=trace,
        keep_journal=keep_journal,
        load=load,
    )


def _checked_seal(path: Path, *, exploratory: bool) -> SealStatus:
    status = check_seal(path)
    if status.state is SealState.ALTERED and not exploratory:
        raise UsageError(
            f"{status.sentence}; restore it, seal it anew (depthgate seal --force), or add --exploratory"
        )
    return status


def check_plan(suite: Suite, clock: str, *, trace: bool, load: LoadChoice, source: str = "") -> None:
    """`check_arms`; the trace that arrivals come from can be read, and the ones to be kept can be."""
    load.check(suite)
    check_arms(suite, clock, source)
    if suite.load.trace is not None:
        read_arrival_trace(Path(suite.load.trace))  # said now and not at the first cell
    if trace and (clock == "virtual" or suite.engine.kind != "embedded"):
        raise UsageError("--trace: only the embedded engine by wall clock keeps traces; drop one of the two")


def fitted(suite: Suite, overrides: Overrides, subject: str | None) -> Suite:
    """A lone server that cannot switch governors is one arm."""
    alone = subject and overrides.url and not overrides.arm_urls and not _switchable(overrides.url)
    return on_one_arm(suite, subject) if subject and alone else suite


def _seal_of(status: SealStatus, overrides: Overrides) -> dict[str, object]:
    """An overridden suite is not what was sealed, whatever its file's seal says."""
    if not overrides.said() or status.state is not SealState.SEALED:
        return status.to_json()
    flags = " ".join(overrides.said())
    return {
        "state": str(SealState.UNSEALED),
        "sentence": f"run with {flags}, not as sealed",
        "seal": None,
    }


def _switchable(url: str) -> bool:
    from engines.openai_http import OpenAIEngine

    engine = OpenAIEngine(url)
    run_loop(engine.probe)
    return run_loop(engine.can_switch)


def check_arms(suite: Suite, clock: str, source: str = "") -> None:
    """Builds every arm, or asks its server, so that a fault is said now and not after half of the run.

    `source`: the suite's file, for what is said of it.
    """
    from engines.contract import EngineRequest, SharedEngine
    from engines.openai_http import OpenAIEngine
    from engines.registry import build_engines

    engines = list(build_engines(suite.engine, suite.arms).values())
    requests = [EngineRequest(arm.name, arm.governor, arm.options) for arm in suite.arms]
    if clock == "virtual" and suite.engine.kind != "embedded":
        raise UsageError(f"--clock virtual: engine {suite.engine.kind!r} has only a wall clock; drop --clock")
    if isinstance(shared := engines[0], SharedEngine):
        run_loop(lambda: shared.check(requests))
    for engine, request in zip(engines, requests, strict=True):
        if isinstance(engine, OpenAIEngine):
            run_loop(partial(engine.check, request))
    if suite.engine.kind == "embedded":
        _check_embedded(suite, source or f"suite {suite.name!r}")


def _check_embedded(suite: Suite, source: str) -> None:
    from engines.contract import EngineError
    from engines.embedded.assembly import assemble
    from governors.entry import GovernorError
    from governors.profile import ProfileError

    profile = suite.engine.profile or ""
    for index, arm in enumerate(suite.arms):
        try:
            assembled = assemble(profile, arm.governor, arm.options, suite.engine.options, suite.seed)
            check_room(suite.traffic, assembled)
        except EngineError as error:
            place = "engine: " if isinstance(error.__cause__, ProfileError) else ""
            if isinstance(error.__cause__, GovernorError):
                place = f"arms[{index}].governor = {arm.governor!r}: "
            raise EngineError(f"{source}: {place}{error}") from error
        _check_class(suite.drafter_class, profile, assembled.profile.binding.drafter_class)


def _check_class(wanted: str | None, profile: str, found: str) -> None:
    """Parameters never transfer between drafter classes, and neither does what a suite promises of one."""
    if wanted is not None and wanted != found:
        raise UsageError(
            f"drafter_class = {wanted!r}, but profile {profile!r} is of class {found!r}; "
            "name a profile of the suite's class, or leave drafter_class out"
        )


def run_plan(plan: RunPlan, *, quiet: bool, servers: VllmServers | None = None) -> None:
    """Run with a live table on stderr; quiet: none. Nobody else works on the folder meanwhile."""
    with run_lock(plan.run_dir):
        run_locked(plan, quiet=quiet, servers=servers)


def run_locked(plan: RunPlan, *, quiet: bool, servers: VllmServers | None = None) -> None:
    """`run_plan` by a holder of the lock."""
    from depthgate.run import execute
    from reports.table import RunProgress, stderr_console

    engine = plan.suite.engine
    title = f"{plan.suite.name} on {engine.profile or engine.url or engine.kind} ({plan.clock} clock)"
    with RunProgress(plan.total_cells, title, stderr_console(quiet=quiet)) as progress:
        execute(plan, progress, servers)
