"""A run: suite -> engine -> load -> records. Writes as it happens, so that a killed run can be judged."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from depthgate.load_drivers import CellDriver, LoadContext, open_load
from depthgate.loop import run_loop
from depthgate.machine import MachineSampler
from depthgate.manifest import manifest_bytes, package_versions, write_manifest
from depthgate.plan import RunPlan
from depthgate.session import end_session, new_session, note_engine
from engines.contract import Endpoint, Engine, EngineError, EngineLost, EngineRequest
from engines.registry import open_engines
from loadgen.columns import request_columns
from loadgen.compaction import compact_run
from loadgen.journal import Journal, JournalError
from loadgen.records import CellKey, CellRecord, RequestRecord
from loadgen.virtual import simulate_cell
from reports.fingerprints import FILE, digest, record_sums, write_fingerprints
from reports.throughput import token_spans
from suites.model import Arm

if TYPE_CHECKING:
    from engines.vllm_servers import VllmServers

MOST_SHOWN = 50_000  # requests of a cell; beyond it the table has no rate for it, and memory stays bounded


class Progress(Protocol):
    """What a run tells while it goes on; reports.table.RunProgress on a terminal."""

    def cell_started(self, arm: str, concurrency: int, repeat: int) -> None: ...

    def request_done(self) -> None: ...

    def cell_done(
        self, arm: str, concurrency: int, repeat: int, tokens_per_s: float | None, note: str
    ) -> None: ...


def execute(plan: RunPlan, progress: Progress, servers: VllmServers | None = None) -> Path:
    """Run the whole plan; the run folder holds what was reached even when this raises.

    `servers`: see engines.registry.open_engines.
    """
    manifest = dict(plan.manifest or first_manifest(plan))
    write_manifest(plan.run_dir, manifest)
    try:
        with MachineSampler(plan.run_dir / "machine.jsonl"), Journal(plan.run_dir / "cells.jsonl") as cells:
            run = Run(plan, progress, manifest, cells, servers)
            _CLOCKS[plan.clock](run)
    except BaseException as error:
        end_session(manifest)
        with suppress(JournalError):  # the error on its way out is the one to hear about
            write_manifest(plan.run_dir, manifest)
        if isinstance(error, JournalError):
            raise JournalError(f"{error}; then: depthgate run --resume {plan.run_dir}") from error
        if isinstance(error, EngineError) and (plan.run_dir / "cells.jsonl").stat().st_size:
            raise EngineLost(f"{error}; what came is kept: depthgate run --resume {plan.run_dir}") from error
        raise
    _finish(plan, manifest)
    return plan.run_dir


def _finish(plan: RunPlan, manifest: dict[str, object]) -> None:
    """Compact, fingerprint, sign off: in this order, so that a kill in between leaves a run to be resumed."""
    kept = () if plan.keep_journal else compact_run(plan.run_dir / "requests")
    if kept:
        manifest["not_compacted"] = list(kept)
    try:
        sums = record_sums(plan.run_dir)
        manifest["records_sha256"] = digest(sums)
        manifest["finished_utc"] = end_session(manifest)
        write_fingerprints(plan.run_dir, sums, manifest_bytes(manifest))
    except OSError as error:
        raise JournalError(
            f"cannot write {plan.run_dir / FILE}: {error.strerror}; free space, then "
            f"depthgate run --resume {plan.run_dir}"
        ) from error
    write_manifest(plan.run_dir, manifest)


def first_manifest(plan: RunPlan) -> dict[str, object]:
    """The manifest before the first request; what the engine says of itself is added when it is up."""
    suite = plan.suite
    embedded = suite.engine.kind == "embedded"
    session = new_session()
    return {
        "run": plan.run_dir.name,
        "suite": dict(plan.canonical),
        "suite_sha256": plan.sha256,
        "rows_sha256": plan.mix.rows_sha256(),
        "seal": dict(plan.seal),
        "overrides": list(plan.overrides),
        "reproducer": plan.reproducer,
        "engine": "embedded engine (model)" if embedded else suite.engine.kind,
        "engine_version": package_versions()["depthgate"] if embedded else None,
        "profile": suite.engine.profile,
        "is_model": True if embedded else None,
        "drafter_class": suite.drafter_class,
        "clock": plan.clock,
        "trace": plan.trace,
        "keep_journal": plan.keep_journal,
        "load": plan.load.to_json(),
        "machine": session["machine"],
        "versions": session["versions"],
        "commit": session["commit"],
        "command": session["command"],
        "seed": suite.seed,
        "started_utc": session["started_utc"],
        "finished_utc": None,
        "sessions": [session],
    }


class Run:
    """One run in progress: the plan, where records go, and what the engine said of itself."""

    def __init__(
        self,
        plan: RunPlan,
        progress: Progress,
        manifest: dict[str, object],
        cells: Journal,
        servers: VllmServers | None = None,
    ) -> None:
        self.plan = plan
        self.progress = progress
        self._servers = servers
        self._manifest = manifest
        self._cells = cells

    def virtual(self) -> None:
        """Every cell in virtual time, in the order of the wall clock's run."""
        for repeat, arm in self.plan.rounds():
            with Journal(self.plan.steps_path(arm.name, repeat)) as steps:
                for concurrency in self.plan.points(arm.name, repeat):
                    self._virtual_cell(arm, CellKey(arm.name, concurrency, repeat), steps)

    def _virtual_cell(self, arm: Arm, key: CellKey, steps: Journal) -> None:
        suite = self.plan.suite
        self.progress.cell_started(key.arm, key.concurrency, key.repeat)
        records, step_records, cell = simulate_cell(
            profile=suite.engine.profile or "",
            arm=arm,
            engine_options=suite.engine.options,
            key=key,
            load=suite.load,
            prompts=self.plan.mix.cell(key),
            seed=suite.seed,
        )
        for step in step_records:
            steps.append(step)
        with Journal(self.plan.requests_path(key)) as journal:
            for record in records:
                journal.append(record)
        self._close_cell(records, cell)

    async def wall(self) -> None:
        """Every repeat serves every arm anew, one at a time (docs/decisions/0005); shared engines stay up."""
        suite = self.plan.suite
        if not self.plan.total_cells:
            return
        load = open_load(self.plan.load, LoadContext(suite, self.plan.mix, self.plan.run_dir))
        opened = open_engines(suite.engine, suite.arms, self._servers)
        async with load as drive, opened as engines:
            for repeat, arm in self.plan.rounds():
                await self._wall_arm(engines[arm.name], arm, repeat, drive)

    async def _wall_arm(self, engine: Engine, arm: Arm, repeat: int, drive: CellDriver) -> None:
        suite = self.plan.suite
        request = EngineRequest(
            arm=arm.name,
            governor=arm.governor,
            options=arm.options,
            engine_options=suite.engine.options,
            seed=suite.seed + repeat,
            steps_path=self.plan.steps_path(arm.name, repeat),
            trace_path=self.plan.trace_path(arm.name, repeat),
            log_path=self.plan.log_path(arm.name, repeat),
        )
        async with engine.serve(request) as endpoint:
            self._note_engine(endpoint)
            for concurrency in self.plan.points(arm.name, repeat):
                await self._wall_cell(endpoint, CellKey(arm.name, concurrency, repeat), drive)

    async def _wall_cell(self, endpoint: Endpoint, key: CellKey, drive: CellDriver) -> None:
        self.progress.cell_started(key.arm, key.concurrency, key.repeat)
        records: list[RequestRecord] = []
        with Journal(self.plan.requests_path(key)) as journal:

            def keep(record: RequestRecord) -> None:
                journal.append(record)
                if len(records) <= MOST_SHOWN:
                    records.append(record)

            cell = await drive(
                endpoint,
                key,
                on_record=keep,
                on_progress=self.progress.request_done,
                clock=time.monotonic,
            )
        self._close_cell(records, cell)

    def _close_cell(self, records: list[RequestRecord], cell: CellRecord) -> None:
        self._cells.append(cell)
        shown = records if len(records) <= MOST_SHOWN else []
        spans = token_spans(request_columns(shown), cell, self.plan.suite.load.mode)
        rate = spans.tokens_per_s if spans is not None else None
        note = "; ".join((*cell.invalid, *cell.notes))
        self.progress.cell_done(cell.arm, cell.concurrency, cell.repeat, rate, note)

    def _note_engine(self, endpoint: Endpoint) -> None:
        """What the server said of itself, into the manifest: judge and page never guess it."""
        said = {
            "engine": endpoint.engine,
            "is_model": endpoint.is_model,
            "profile": endpoint.profile,
            "drafter_class": endpoint.drafter_class or self.plan.suite.drafter_class,
            "model": endpoint.model,
        }
        new = note_engine(self._manifest, endpoint.engine)
        if new or any(self._manifest.get(key) != value for key, value in said.items()):
            self._manifest.update(said)
            write_manifest(self.plan.run_dir, self._manifest)


_CLOCKS: dict[str, Callable[[Run], None]] = {
    "virtual": Run.virtual,
    "wall": lambda run: run_loop(run.wall),
}
