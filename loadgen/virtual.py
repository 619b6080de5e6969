"""The same cell in virtual time: same prompts, loads and records, on the embedded engine's step machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engines.contract import EngineError
from engines.embedded.assembly import Assembled, assemble
from engines.embedded.intake import take_in
from engines.embedded.simulate import Arrival, SimulatedRequest, simulate
from governors.telemetry import StepRecord
from loadgen.burst import NO_BURST, burst_turns
from loadgen.cell import governor_faults, queue_notes
from loadgen.records import CellKey, CellRecord, Outcome, RequestRecord, TokenSource
from loadgen.steady import ClosedLoop, Turn, Window
from loadgen.stream import Prompts, request_name
from loadgen.traffic import Prompt
from suites.model import Arm, LoadSpec

# Cells of one arm and repeat share a journal of steps, so each has a stretch of the virtual clock to itself.
STRETCH_S = 100_000.0


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
    traffic = _Traffic(key, load, prompts, engine_seed=seed + key.repeat)
    try:
        run = _MODES[load.mode](engine, traffic)
    except ValueError as error:
        raise EngineError(f"profile {profile}, arm {key.arm}: {error}") from error
    records = sorted(run.records, key=lambda record: (record.done_s or 0.0, record.request))
    return records, run.steps, _cell_record(engine, key, run)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request under way: what it is called and whether it counts."""

    turn: Turn
    prompt: Prompt


class _Traffic:
    """Turns prompts into arrivals, and simulated requests back into records."""

    def __init__(self, key: CellKey, load: LoadSpec, prompts: Prompts, engine_seed: int) -> None:
        self.key = key
        self.load = load
        self.start_s = key.concurrency * STRETCH_S
        self._streams = [prompts.stream(index) for index in range(key.concurrency)]
        self._sent: list[list[_Sent]] = [[] for _ in range(key.concurrency)]
        self._engine_seed = engine_seed

    def arrival(self, stream: int, turn: Turn, due_s: float) -> Arrival | None:
        """The stream's next prompt; None when it has no more."""
        prompt = next(self._streams[stream], None)
        if prompt is None:
            return None
        self._sent[stream].append(_Sent(turn, prompt))
        request = take_in(
            prompt.text,
            prompt.max_tokens,
            ignore_eos=prompt.ignore_eos,
            traffic_class=prompt.traffic_class,
            seed=prompt.seed,
            engine_seed=self._engine_seed,
        ).request
        return Arrival(
            due_s=due_s,
            stream=stream,
            prompt_tokens=request.prompt_tokens,
            output_tokens=request.output_tokens,
            traffic_class=request.traffic_class,
            acceptance_seed=request.acceptance_seed,
        )

    def records(self, requests: Sequence[SimulatedRequest]) -> Iterator[RequestRecord]:
        """The engine took each stream's requests in the order in which the stream sent them."""
        waiting = [iter(sent) for sent in self._sent]
        for request in requests:
            stream = request.arrival.stream
            yield self._record(stream, next(waiting[stream]), request)

    def _record(self, stream: int, sent: _Sent, request: SimulatedRequest) -> RequestRecord:
        outcome, why = _outcome(request, self.load.timeout_s)
        tokens = tuple(request.chunk_tokens.tolist())
        return RequestRecord(
            request=request_name(self.key, stream, sent.turn),
            arm=self.key.arm,
            concurrency=self.key.concurrency,
            repeat=self.key.repeat,
            traffic_class=sent.prompt.traffic_class,
            due_s=request.arrival.due_s,
            sent_s=request.sent_s,
            first_byte_s=request.first_token_s,
            first_token_s=request.first_token_s,
            done_s=request.done_s if outcome is Outcome.DONE else None,
            chunk_times_s=tuple(request.chunk_times_s.tolist()),
            chunk_tokens=tokens,
            prompt_tokens=request.arrival.prompt_tokens,
            output_tokens=sum(tokens),
            max_tokens=sent.prompt.max_tokens,
            tokens_are=TokenSource.CONTINUOUS_USAGE,
            outcome=outcome,
            why=why,
            warmup=sent.turn.warmup,
        )


@dataclass(frozen=True, slots=True)
class _Run:
    records: list[RequestRecord]
    steps: list[StepRecord]
    window: Window


class _ClosedSource:
    """engines.embedded.simulate.RequestSource of a closed loop."""

    def __init__(self, traffic: _Traffic) -> None:
        self._traffic = traffic
        self.loop = ClosedLoop(traffic.load, traffic.key.concurrency, traffic.start_s)

    def start(self) -> list[Arrival]:
        streams = range(self._traffic.key.concurrency)
        arrivals = [self._next(stream, self._traffic.start_s) for stream in streams]
        return [arrival for arrival in arrivals if arrival is not None]

    def finished(self, stream: int, now_s: float) -> Arrival | None:
        self.loop.ended(stream, now_s)
        return self._next(stream, now_s)

    def _next(self, stream: int, now_s: float) -> Arrival | None:
        turn = self.loop.begin(stream, now_s)
        arrival = None if turn is None else self._traffic.arrival(stream, turn, now_s)
        if arrival is None:
            self.loop.run_out(stream)
        return arrival


@dataclass(frozen=True, slots=True)
class _BurstSource:
    """One burst: everything at once, and nothing after."""

    arrivals: list[Arrival]

    def start(self) -> list[Arrival]:
        return self.arrivals

    def finished(self, stream: int, now_s: float) -> Arrival | None:
        return None


def _closed(engine: Assembled, traffic: _Traffic) -> _Run:
    source = _ClosedSource(traffic)
    simulation = simulate(engine.core, source)
    return _Run(list(traffic.records(simulation.requests)), simulation.steps, source.loop.window())


def _bursts(engine: Assembled, traffic: _Traffic) -> _Run:
    requests: list[SimulatedRequest] = []
    steps: list[StepRecord] = []
    now_s = traffic.start_s
    window = Window(now_s, now_s, NO_BURST)
    for turn in burst_turns(traffic.load):
        arrivals = [traffic.arrival(stream, turn, now_s) for stream in range(traffic.key.concurrency)]
        simulation = simulate(engine.core, _BurstSource([each for each in arrivals if each is not None]))
        requests += simulation.requests
        steps += simulation.steps
        if not turn.warmup:
            window = Window(now_s if window.fault else window.start_s, simulation.end_s)
        now_s = simulation.end_s
    return _Run(list(traffic.records(requests)), steps, window)


_MODES: dict[str, Callable[[Assembled, _Traffic], _Run]] = {"closed": _closed, "burst": _bursts}


def _outcome(request: SimulatedRequest, timeout_s: float) -> tuple[Outcome, str | None]:
    """A deadline ends a request for its client; in virtual time the engine goes on with it all the same."""
    if request.done_s is None:
        return Outcome.CANCELLED, "the simulation stopped"
    if request.done_s - request.arrival.due_s > timeout_s:
        return Outcome.TIMED_OUT, f"no end within {timeout_s:g} s"
    return Outcome.DONE, None


def _cell_record(engine: Assembled, key: CellKey, run: _Run) -> CellRecord:
    totals = engine.core.totals
    done = any(record.outcome is Outcome.DONE for record in run.records)
    invalid = [] if done else [f"none of {len(run.records)} requests succeeded in virtual time"]
    if run.window.fault:
        invalid.append(run.window.fault)
    invalid += governor_faults(engine.guard.errors)
    notes = [*engine.warnings, *queue_notes(key.concurrency, engine.core.spec.scheduler.max_num_seqs)]
    if engine.refusal is not None:
        notes.append("refuse_above has no effect in virtual time: nothing was refused")
    return CellRecord(
        arm=key.arm,
        concurrency=key.concurrency,
        repeat=key.repeat,
        window_start_s=run.window.start_s,
        window_end_s=run.window.end_s,
        clock="virtual",
        invalid=tuple(invalid),
        notes=tuple(notes),
        drafts=totals.drafts,
        draft_tokens=totals.draft_tokens,
        accepted_tokens=totals.accepted_tokens,
        accepted_by_position=tuple(totals.accepted_by_position),
        reached_by_position=tuple(totals.reached_by_position),
        requests=len(run.records),
    )
