"""What must hold for any traffic, any governor, any cancel: tokens, blocks and order are conserved."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engines.embedded.core import CoreSpec, EngineCore
from engines.embedded.requests import NewRequest
from engines.embedded.specs import AcceptanceSpec, ConfidenceSpec, PenaltySpec, SchedulerSpec
from tests.engines.fakes import LinearCost, RandomWindows
from tests.engines.watched import Watched

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
    draft_budget_tokens=st.none() | st.integers(0, 8),
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


def watched(spec: CoreSpec) -> Watched:
    return Watched(EngineCore(spec, LinearCost(), RandomWindows(spec.seed)))


def request(prompt: int, output: int) -> NewRequest:
    return NewRequest(prompt, output, acceptance_seed=prompt)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(specs(), REQUESTS)
def test_every_request_gets_exactly_its_tokens_and_the_cache_ends_empty(
    spec: CoreSpec, requests: list[tuple[int, int]]
) -> None:
    engine = watched(spec)
    for prompt, output in requests:
        engine.submit(request(prompt, output))
    engine.run()
    engine.check_all_served()


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
    engine = watched(spec)
    for action, first, second in actions:
        if action == "submit":
            engine.submit(request(first, second))
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
        engine = watched(spec)
        for prompt, output in requests:
            engine.submit(request(prompt, output))
        engine.run()
        runs.append([(r.record, r.handles.tolist(), r.counts.tolist()) for r in engine.log])
    assert runs[0] == runs[1]
