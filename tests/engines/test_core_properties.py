"""What must hold for any traffic, any governor, any cancel: tokens, blocks and order are conserved."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from engines.embedded.batch import BLOCKS, HANDLE
from engines.embedded.core import CoreSpec, EngineCore
from engines.embedded.requests import NewRequest, StepResult
from engines.embedded.specs import AcceptanceSpec, ConfidenceSpec, PenaltySpec, SchedulerSpec
from governors.contract import DepthDecision, StepObservation, StepOutcome
from tests.engines.fakes import LinearCost, RandomWindows

ACCEPTANCE = AcceptanceSpec(
    by_class={"default": (0.8, 0.6, 0.5)},
    spread=0.7,
    drift=0.5,
    drift_tokens=9.0,
    batch_slope=-0.1,
    confidence=ConfidenceSpec(noise=0.3),
)
PENALTIES = st.builds(
    PenaltySpec,
    zero_depth_sync=st.booleans(),
    lookahead_static=st.booleans(),
    policy_ignored=st.none() | st.integers(0, 6),
    drafter_starvation=st.sampled_from((1.0, 0.1)),
)
REQUESTS = st.lists(st.tuples(st.integers(1, 24), st.integers(1, 20)), min_size=1, max_size=10)


@st.composite
def specs(draw: st.DrawFn) -> CoreSpec:
    """Engines so small that every limit binds; the cache always holds one request of 24 + 20 tokens."""
    k_max = draw(st.integers(0, 4))
    block_size = draw(st.integers(1, 5))
    floor = -(-(44 + 2 * k_max) // block_size)
    return CoreSpec(
        scheduler=SchedulerSpec(
            max_num_seqs=draw(st.integers(1, 5)),
            max_num_batched_tokens=draw(st.integers(1, 30)),
            max_model_len=draw(st.integers(44, 60)),
            block_size=block_size,
            kv_blocks=floor + draw(st.integers(0, floor)),
        ),
        acceptance=ACCEPTANCE,
        penalties=draw(PENALTIES),
        k_max=k_max,
        speculative=draw(st.booleans()),
        schedule_armed=False,
        seed=draw(st.integers(0, 3)),
    )


@dataclass
class Watched:
    """A core whose invariants are checked after every step and cancel."""

    spec: CoreSpec

    def __post_init__(self) -> None:
        self._governor = RandomWindows(self.spec.seed)
        self.core = EngineCore(self.spec, LinearCost(), self)
        self.emitted: dict[int, int] = {}
        self.ended: set[int] = set()
        self.log: list[StepResult] = []
        self._now_s = 0.0

    def decide(self, observation: StepObservation) -> DepthDecision:
        in_hand = observation.drafts_in_hand
        assert ((in_hand >= 0) & (in_hand <= self.spec.k_max)).all()
        assert self.spec.speculative or not in_hand.any()
        history = observation.history
        assert (history.accepted <= history.reached).all()
        assert observation.batch + observation.prefill_tokens > 0 or observation.requests_waiting
        self._in_hand = in_hand
        return self._governor.decide(observation)

    def observe(self, outcome: StepOutcome) -> None:
        verified, accepted = outcome.verified, outcome.accepted
        assert ((verified >= 0) & (verified <= self._in_hand)).all()
        assert ((accepted >= 0) & (accepted <= verified)).all()

    def submit(self, prompt: int, output: int) -> int:
        handle = self.core.submit(NewRequest(prompt, output, acceptance_seed=prompt), self._now_s)
        self.emitted[handle] = 0
        return handle

    def step(self) -> bool:
        result = self.core.step(self._now_s)
        if result is None:
            return False
        self._now_s = result.record.end_s
        self.log.append(result)
        for handle, count in zip(result.handles.tolist(), result.counts.tolist(), strict=True):
            assert count > 0
            assert handle not in self.ended
            self.emitted[handle] += count
        self.ended |= set(result.finished.tolist())
        assert result.record.emitted == result.counts.sum()
        budget = self.spec.scheduler.max_num_batched_tokens
        assert result.record.verified + result.record.batch + result.record.prefill_tokens <= budget
        self.check()
        return True

    def cancel(self, handle: int) -> None:
        if self.core.cancel(handle):
            self.ended.add(handle)
        self.check()

    def check(self) -> None:
        """Blocks add up; running requests are older than waiting ones; at most one is in mid-prefill."""
        scheduler = self.core._scheduler
        batch = scheduler.batch
        held = int(batch.ints[BLOCKS, : batch.size].sum())
        assert 0 <= self.core.kv_blocks_free <= self.core.kv_blocks_total
        assert held + self.core.kv_blocks_free == self.core.kv_blocks_total
        handles = [*batch.ints[HANDLE, : batch.size].tolist(), *(s.handle for s in scheduler.waiting)]
        assert handles == sorted(set(handles))
        assert not set(handles) & self.ended
        assert batch.size - batch.decoding in (0, 1)
        assert batch.size <= self.spec.scheduler.max_num_seqs


@settings(max_examples=150, deadline=None, derandomize=True)
@given(specs(), REQUESTS)
def test_every_request_gets_exactly_its_tokens_and_the_cache_ends_empty(
    spec: CoreSpec, requests: list[tuple[int, int]]
) -> None:
    engine = Watched(spec)
    wanted = {engine.submit(prompt, output): output for prompt, output in requests}
    budget = spec.scheduler.max_num_batched_tokens
    # the oldest request is never preempted and moves on at every step, so nobody waits longer than this
    bound = sum(-(-(prompt + output) // budget) + output for prompt, output in requests)
    steps = 0
    while engine.step():
        steps += 1
        assert steps <= bound, "a request starves"
    assert engine.emitted == wanted
    assert engine.ended == set(wanted)
    assert engine.core.kv_blocks_free == engine.core.kv_blocks_total
    assert (engine.core.running, engine.core.waiting) == (0, 0)
    assert engine.core.totals.generation_tokens == sum(wanted.values())


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(1, 24), st.integers(1, 20)),
        st.tuples(st.just("cancel"), st.integers(0, 12), st.just(0)),
        st.tuples(st.just("step"), st.integers(1, 3), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(specs(), ACTIONS)
def test_a_cancel_at_any_time_leaks_nothing(spec: CoreSpec, actions: list[tuple[str, int, int]]) -> None:
    engine = Watched(spec)
    for action, first, second in actions:
        if action == "submit":
            engine.submit(first, second)
        elif action == "cancel":
            engine.cancel(first)
        else:
            for _ in range(first):
                engine.step()
    for handle in sorted(engine.emitted):
        engine.cancel(handle)
    assert engine.core.kv_blocks_free == engine.core.kv_blocks_total
    assert (engine.core.running, engine.core.waiting) == (0, 0)
    assert engine.core.step(1e9) is None


@settings(max_examples=40, deadline=None, derandomize=True)
@given(specs(), REQUESTS)
def test_the_same_seed_gives_the_same_run_bit_for_bit(
    spec: CoreSpec, requests: list[tuple[int, int]]
) -> None:
    runs = []
    for _ in range(2):
        engine = Watched(spec)
        for prompt, output in requests:
            engine.submit(prompt, output)
        while engine.step():
            pass
        runs.append([(r.record, r.handles.tolist(), r.counts.tolist()) for r in engine.log])
    assert runs[0] == runs[1]
