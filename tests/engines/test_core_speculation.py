"""Speculation on small cases worked out by hand: lag of K, windows, lookahead, limits, engine penalties."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.embedded.specs import AcceptanceSpec, ConfidenceSpec, PenaltySpec
from governors.contract import Reason
from governors.windows import DecisionError
from tests.engines.fakes import ALWAYS, NEVER, Bench, Script, core_spec, emitted, scheduler


def test_the_depth_chosen_at_a_step_is_verified_at_the_next() -> None:
    governor = Script(depths=[3, 0, 2, 1, 3, 3])
    bench = Bench(core_spec(k_max=3), governor)
    bench.submit(2, 100)
    for _ in range(6):
        bench.step()
    # step 0 is the prefill: no decoding request, but its request gets the 3 drafts of that step
    assert [o.drafts_in_hand.tolist() for o in governor.observations] == [[], [3], [0], [2], [1], [3]]
    assert [o.depth_in_force for o in governor.observations] == [0, 3, 0, 2, 1, 3]
    records = [r.record for r in bench.results]
    assert [r.depth_executed for r in records] == [3, 0, 2, 1, 3, 3]
    assert [r.verified for r in records] == [0, 3, 0, 2, 1, 3]
    assert [r.emitted for r in records] == [1, 4, 1, 3, 2, 4]
    assert [s.depth_changed for s in bench.cost.shapes] == [False, True, True, True, True, False]


def test_rejected_drafts_still_give_the_targets_own_token() -> None:
    bench = Bench(core_spec(k_max=3, acceptance=NEVER), Script(depths=[3]))
    a = bench.submit(2, 4)
    steps = bench.run()
    assert [emitted(r) for r in steps] == [{a: 1}] * 4
    assert [(r.record.verified, r.record.accepted) for r in steps] == [(0, 0), (3, 0), (3, 0), (3, 0)]
    assert steps[1].record.reached_by_position == (1, 0, 0)
    assert steps[1].record.accepted_by_position == (0, 0, 0)


def test_windows_are_clipped_to_the_drafts_in_hand() -> None:
    governor = Script(depths=[2], windows={1: [9, -4, 1]})
    bench = Bench(core_spec(k_max=5), governor)
    a, b, c = (bench.submit(2, 50) for _ in range(3))
    bench.step()
    second = bench.step()
    assert governor.outcomes[1].verified.tolist() == [2, 0, 1]
    assert emitted(second) == {a: 3, b: 1, c: 2}
    assert bench.cost.shapes[1].decode_tokens == 3 + 1 + 2
    assert bench.cost.shapes[1].decode_uniform is False
    assert second.record.window_mean == 1.0
    assert second.record.reached_by_position == (2, 1, 0, 0, 0)


def test_drafts_that_were_not_verified_are_lost() -> None:
    """The window of step 1 leaves 3 of 4 drafts; step 2 holds the depth that step 1 drafted, no more."""
    governor = Script(depths=[4, 2], windows={1: 1})
    bench = Bench(core_spec(k_max=4), governor)
    bench.submit(2, 50)
    for _ in range(3):
        bench.step()
    assert [o.drafts_in_hand.tolist() for o in governor.observations] == [[], [4], [2]]


def test_a_window_that_is_no_number_is_the_policys_fault() -> None:
    bench = Bench(core_spec(k_max=2), Script(depths=[2], windows={1: [1, 1, 1]}))
    bench.submit(2, 9)
    bench.step()
    with pytest.raises(DecisionError, match=r"windows\.shape"):
        bench.step()


def test_an_accepted_block_is_cut_at_the_output_limit() -> None:
    governor = Script(depths=[5])
    bench = Bench(core_spec(k_max=5), governor)
    a = bench.submit(2, 3)
    steps = bench.run()
    assert [emitted(r) for r in steps] == [{a: 1}, {a: 2}]
    assert governor.outcomes[1].accepted.tolist() == [5]
    assert governor.outcomes[1].tokens_emitted == 2
    assert steps[1].finished.tolist() == [a]


def test_no_draft_stands_beyond_max_model_len() -> None:
    """max_model_len 8, prompt 4: after the first token (5) at most 2 drafts fit below token 8."""
    governor = Script(depths=[5])
    bench = Bench(core_spec(scheduler(model_len=8, block=1, blocks=8), k_max=5), governor)
    a = bench.submit(4, 4)
    steps = bench.run()
    assert governor.observations[1].drafts_in_hand.tolist() == [2]
    assert [emitted(r) for r in steps] == [{a: 1}, {a: 3}]


@pytest.mark.parametrize(("static", "slots"), [(False, 4 + 3 + 2), (True, 4 + 3 + 5)])
def test_lookahead_reserves_the_depth_in_force_or_k_max(static: bool, slots: int) -> None:
    """Blocks of one token: 4 computed, 1 + 2 to run, and the lookahead."""
    penalties = PenaltySpec(lookahead_static=static)
    bench = Bench(core_spec(scheduler(block=1), penalties=penalties, k_max=5), Script(depths=[2]))
    bench.submit(4, 50)
    bench.step()
    assert bench.core.kv_blocks_free == 256 - 4
    bench.step()
    assert bench.core.kv_blocks_free == 256 - slots


def test_without_a_drafter_there_is_no_lookahead_and_no_draft() -> None:
    bench = Bench(core_spec(scheduler(block=1), k_max=5, speculative=False), Script(depths=[5]))
    bench.submit(4, 50)
    bench.step()
    second = bench.step()
    assert bench.core.kv_blocks_free == 256 - 5
    assert (second.record.depth_chosen, second.record.depth_executed, second.record.verified) == (5, 0, 0)
    assert bench.cost.shapes[1].speculative is False
    assert bench.cost.shapes[1].depth_next == 0


def test_a_budget_for_drafts_goes_to_the_oldest_requests_first() -> None:
    """Four drafts for three requests at K=3: 3 for the first, 1 for the second, none for the third, which
    decodes one token a step; when the first has gone (after 1 + 2 x 4 tokens) the others move up."""
    governor = Script(depths=[3])
    bench = Bench(core_spec(penalties=PenaltySpec(draft_budget_tokens=4), k_max=3), governor)
    a, b, c = bench.submit(2, 9), bench.submit(2, 30), bench.submit(2, 30)
    steps = [bench.step() for _ in range(4)]
    assert [seen.drafts_in_hand.tolist() for seen in governor.observations[1:]] == [[3, 1, 0]] * 2 + [[3, 1]]
    assert [emitted(step) for step in steps[1:]] == [{a: 4, b: 2, c: 1}] * 2 + [{b: 4, c: 2}]
    assert [step.record.depth_executed for step in steps] == [3] * 4


def test_an_ignored_policy_shows_as_chosen_against_executed() -> None:
    governor = Script(depths=[0])
    bench = Bench(core_spec(penalties=PenaltySpec(policy_ignored=2), k_max=3), governor)
    bench.submit(2, 50)
    bench.step()
    second = bench.step()
    assert (second.record.depth_chosen, second.record.depth_executed) == (0, 2)
    assert (governor.outcomes[1].depth_chosen, governor.outcomes[1].depth_executed) == (0, 2)
    assert second.record.verified == 2


def test_a_depth_above_k_max_is_clamped() -> None:
    bench = Bench(core_spec(k_max=3), Script(depths=[99]))
    bench.submit(2, 50)
    first = bench.step()
    assert (first.record.depth_chosen, first.record.depth_executed) == (3, 3)


def test_depth_zero_starves_the_drafter_until_it_is_fed_what_it_missed() -> None:
    """K trace 3,0,0,0,3: steps 1..3 emit 4 + 1 + 1 tokens that the drafter misses; 6 steps of one mend it."""
    penalties = PenaltySpec(drafter_starvation=0.0)
    bench = Bench(core_spec(penalties=penalties, k_max=3), Script(depths=[3, 0, 0, 0, 3]))
    bench.submit(4, 100)
    accepted = [bench.step().record.accepted for _ in range(13)]
    assert accepted == [0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3]


def test_the_sync_forward_keeps_the_drafter_fed() -> None:
    penalties = PenaltySpec(drafter_starvation=0.0, zero_depth_sync=True)
    bench = Bench(core_spec(penalties=penalties, k_max=3), Script(depths=[3, 0, 0, 0, 3]))
    bench.submit(4, 100)
    assert [bench.step().record.accepted for _ in range(6)] == [0, 3, 0, 0, 0, 3]


def test_starvation_multiplies_the_conditional_acceptance() -> None:
    """500 requests whose drafts all pass when fed; starved by a prefill at depth 0, a third of them do."""
    spec = core_spec(
        scheduler(seqs=500, budget=4_000, blocks=4_000),
        penalties=PenaltySpec(drafter_starvation=1 / 3),
        k_max=1,
    )
    bench = Bench(spec, Script(depths=[0, 1]))
    for seed in range(500):
        bench.submit(8, 50, seed=seed)
    accepted = [bench.step().record.accepted for _ in range(3)][2]
    assert abs(accepted - 500 / 3) < 4 * (500 * (1 / 3) * (2 / 3)) ** 0.5


def test_a_preempted_request_keeps_its_history_and_loses_its_drafts() -> None:
    """6 blocks of 4, K=1: B, the newer one, is preempted in mid-output and decodes on with its old counts."""
    governor = Script(depths=[1])
    bench = Bench(core_spec(scheduler(blocks=6), k_max=1), governor)
    _, b = bench.submit(4, 14), bench.submit(4, 14)
    bench.run()
    preempting = next(r.record.step for r in bench.results if r.record.preempted)
    last_before = governor.observations[preempting - 1]
    again = next(o for o in governor.observations[preempting:] if b in o.request_ids.tolist())
    before = last_before.history.reached[last_before.request_ids.tolist().index(b)]
    after = again.history.reached[again.request_ids.tolist().index(b)]
    assert after[0] == before[0] + 1 > 1
    assert bench.core.totals.generation_tokens == 28
    assert bench.core.kv_blocks_free == 6


def test_the_observation_is_complete_and_read_only() -> None:
    governor = Script(depths=[2])
    spec = core_spec(scheduler(seqs=3), penalties=PenaltySpec(capture_sizes=(4, 8)), k_max=2)
    bench = Bench(spec, governor)
    a = bench.submit(6, 50)
    bench.step()
    bench.submit(5, 50)
    bench.step()
    seen = governor.observations[1]
    assert seen.request_ids.tolist() == [a]
    assert seen.context_tokens.tolist() == [7]
    assert (seen.prefill_requests, seen.prefill_tokens, seen.scheduled_requests) == (1, 5, 2)
    assert (seen.kv_blocks_free, seen.kv_blocks_total) == (256 - 3 - 2, 256)
    assert (seen.limits.k_max, seen.limits.max_num_seqs, seen.limits.captured_tokens) == (2, 3, (4, 8))
    assert seen.durations is not None
    assert (seen.durations.target_s, seen.durations.step_s) == (0.5, 1.0)
    assert governor.observations[0].durations is None
    assert np.isnan(seen.confidence).all()
    assert seen.confidence.shape == (1, 2)
    for array in (seen.request_ids, seen.drafts_in_hand, seen.context_tokens, seen.confidence):
        assert not array.flags.writeable
    assert not seen.history.reached.flags.writeable
    assert not governor.outcomes[1].accepted.flags.writeable
    assert not governor.outcomes[1].verified.flags.writeable


def test_an_observation_does_not_change_after_its_step() -> None:
    governor = Script(depths=[2])
    bench = Bench(core_spec(k_max=2), governor)
    bench.submit(6, 50)
    for _ in range(4):
        bench.step()
    assert [o.history.reached.tolist() for o in governor.observations[1:]] == [[[0, 0]], [[1, 1]], [[2, 2]]]
    assert [o.context_tokens.tolist() for o in governor.observations[1:]] == [[7], [10], [13]]


def test_confidence_stands_only_where_a_draft_does() -> None:
    governor = Script(depths=[2, 1])
    acceptance = AcceptanceSpec(by_class={"default": (0.8, 0.6, 0.3)}, confidence=ConfidenceSpec())
    bench = Bench(core_spec(k_max=3, acceptance=acceptance), governor)
    bench.submit(6, 50)
    for _ in range(3):
        bench.step()
    two, one = (o.confidence[0] for o in governor.observations[1:])
    assert two[:2] == pytest.approx([0.8, 0.75])
    assert np.isnan(two[2])
    assert one[0] == pytest.approx(0.8)
    assert np.isnan(one[1:]).all()


def test_the_shape_counts_what_the_cost_depends_on() -> None:
    bench = Bench(replace(core_spec(k_max=2), schedule_armed=True), Script(depths=[2]))
    bench.submit(6, 50)
    bench.step()
    bench.submit(5, 50)
    bench.step()
    first, second = bench.cost.shapes
    assert (first.decode_requests, first.decode_tokens, first.decode_uniform) == (0, 0, True)
    assert (first.prefill_requests, first.prefill_tokens, first.draft_requests) == (1, 6, 1)
    assert (second.decode_requests, second.decode_tokens, second.context_tokens) == (1, 3, 7)
    assert (second.prefill_tokens, second.prefill_context_tokens, second.draft_requests) == (5, 0, 2)
    assert second.schedule_armed is True


def test_totals_are_the_sums_of_the_records() -> None:
    acceptance = AcceptanceSpec(by_class={"default": (0.7, 0.5, 0.2)})
    bench = Bench(core_spec(k_max=3, acceptance=acceptance), Script(depths=[3, 0, 2, 3]))
    for seed in range(5):
        bench.submit(7, 30, seed=seed)
    records = [r.record for r in bench.run()]
    totals = bench.core.totals
    assert totals.generation_tokens == 150 == sum(r.emitted for r in records)
    assert totals.draft_tokens == sum(r.verified for r in records)
    assert totals.accepted_tokens == sum(r.accepted for r in records) == sum(totals.accepted_by_position)
    assert totals.drafts == totals.reached_by_position[0]
    assert (totals.prompt_tokens, totals.requests_finished, totals.steps) == (35, 5, len(records))


def test_a_record_carries_the_steps_times_and_reason() -> None:
    bench = Bench(core_spec(k_max=1), Script(depths=[1]))
    bench.submit(2, 9)
    bench.step()
    record = bench.step().record
    assert (record.step, record.start_s, record.end_s, record.step_s) == (1, 1.0, 2.0, 1.0)
    assert (record.target_s, record.draft_s, record.lag_s) == (0.5, 0.25, 0.0)
    assert (record.graph_mode, record.reason) == ("full", Reason.STEADY)


def test_a_negative_k_max_is_refused() -> None:
    with pytest.raises(ValueError, match="k_max=-1"):
        Bench(core_spec(k_max=-1, acceptance=ALWAYS))
