"""The same cell in virtual time: same prompts, loads and records, on the embedded engine's step machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engines.contract import EngineError
from engines.embedded.assembly import Assembled, assemble
from engines.embedded.simulate import SimulatedRequest, simulate
from governors.telemetry import StepRecord
from loadgen.burst import NO_BURST, burst_turns
from loadgen.cell import governor_faults, queue_notes
from loadgen.paced import Driven, driven
from loadgen.records import CellKey, CellRecord, Outcome, RequestRecord
from loadgen.rules import PACED, driver_of, rules_of
from loadgen.sends import Send
from loadgen.steady import Window
from loadgen.stream import Prompts
from loadgen.virtual_sources import BurstSource, ClosedSource, RulesSource
from loadgen.virtual_traffic import VirtualTraffic
from suites.grammar import counted
from suites.model import Arm, LoadSpec


def simulate_cell(
    profile: str,
    arm: Arm,
    engine_options: Mapping[str, object],
    key: CellKey,
    load: LoadSpec,
    prompts: Prompts,
    seed: int = 0,
) -> tuple[list[RequestRecord], list[StepRecord], CellRecord]:
    """One cell on a fresh engine; the same arguments give the same records, bit for bit.

    The engine's seed is `seed` + repeat, as for an engine that is started anew for each repeat. Raises
    EngineError for an unknown name, a bad option, or a request that the engine can never run.
    """
    engine = assemble(profile, arm.governor, arm.options, engine_options, seed + key.repeat)
    traffic = VirtualTraffic(key, load, prompts, engine_seed=seed + key.repeat)
    try:
        run = _DRIVERS[driver_of(load)](engine, traffic)
    except ValueError as error:
        raise EngineError(f"profile {profile}, arm {key.arm}: {error}") from error
    records = sorted(run.records, key=lambda record: (record.done_s or 0.0, record.request))
    return records, run.steps, _cell_record(engine, key, load, run)


@dataclass(frozen=True, slots=True)
class _Run:
    records: list[RequestRecord]
    steps: list[StepRecord]
    driven: Driven
    has_body: bool


def _closed(engine: Assembled, traffic: VirtualTraffic) -> _Run:
    source = ClosedSource(traffic)
    simulation = simulate(engine.core, source)
    return _Run(
        list(traffic.records(simulation.requests)),
        simulation.steps,
        Driven(source.loop.window()),
        traffic.has_body,
    )


def _bursts(engine: Assembled, traffic: VirtualTraffic) -> _Run:
    requests: list[SimulatedRequest] = []
    steps: list[StepRecord] = []
    now_s = traffic.start_s
    window = Window(now_s, now_s, NO_BURST)
    for turn in burst_turns(traffic.load):
        sends = [Send(stream, turn, now_s, now_s) for stream in range(traffic.key.concurrency)]
        simulation = simulate(engine.core, BurstSource(traffic.arrivals(sends, 0.0)))
        requests += simulation.requests
        steps += simulation.steps
        if not turn.warmup:
            window = Window(now_s if window.fault else window.start_s, simulation.end_s)
        now_s = simulation.end_s
    return _Run(list(traffic.records(requests)), steps, Driven(window), traffic.has_body)


def _paced(engine: Assembled, traffic: VirtualTraffic) -> _Run:
    rules = rules_of(traffic.load, traffic.key.concurrency, traffic.name)
    simulation = simulate(engine.core, RulesSource(traffic, rules))
    how = driven(rules, traffic.start_s)
    return _Run(list(traffic.records(simulation.requests)), simulation.steps, how, traffic.has_body)


_DRIVERS: dict[str, Callable[[Assembled, VirtualTraffic], _Run]] = {
    "closed": _closed,
    "burst": _bursts,
    PACED: _paced,
}


def _cell_record(engine: Assembled, key: CellKey, load: LoadSpec, run: _Run) -> CellRecord:
    totals, window = engine.core.totals, run.driven.window
    done = any(record.outcome is Outcome.DONE for record in run.records)
    invalid = [] if done else [f"none of {counted(len(run.records), 'request')} succeeded in virtual time"]
    if window.fault:
        invalid.append(window.fault)
    invalid += governor_faults(engine.guard.errors)
    most = load.most_in_flight(key.concurrency)
    notes = [
        *engine.warnings,
        *run.driven.notes,
        *queue_notes(most, engine.core.spec.scheduler.max_num_seqs),
    ]
    if engine.refusal is not None:
        notes.append("refuse_above has no effect in virtual time: nothing was refused")
    if run.has_body:
        notes.append("body has no effect in virtual time: the step machine reads no fields")
    return CellRecord(
        arm=key.arm,
        concurrency=key.concurrency,
        repeat=key.repeat,
        window_start_s=window.start_s,
        window_end_s=window.end_s,
        clock="virtual",
        invalid=tuple(invalid),
        notes=tuple(notes),
        drafts=totals.drafts,
        draft_tokens=totals.draft_tokens,
        accepted_tokens=totals.accepted_tokens,
        accepted_by_position=tuple(totals.accepted_by_position),
        reached_by_position=tuple(totals.reached_by_position),
        requests=len(run.records),
        phase_starts_s=run.driven.phase_starts_s,
    )
