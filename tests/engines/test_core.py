"""Scheduling on small cases worked out by hand: budget, chunks, blocks, preemption, queue."""

from __future__ import annotations

import pytest

from engines.embedded.core import RequestTooLong
from engines.embedded.requests import NewRequest
from engines.embedded.specs import AcceptanceSpec
from tests.engines.fakes import Bench, Script, core_spec, emitted, scheduler


def test_nothing_to_run_is_no_step() -> None:
    bench = Bench(core_spec())
    assert bench.core.step(0.0) is None
    assert bench.cost.shapes == []


def test_a_prompt_above_the_budget_runs_in_chunks_and_emits_with_its_last() -> None:
    """Budget 8: A (10 tokens) runs 8 alone, then its last 2 beside the whole of B (3)."""
    bench = Bench(core_spec(scheduler(budget=8)))
    a, b = bench.submit(10, 2), bench.submit(3, 2)

    first, second, third = (bench.step() for _ in range(3))

    assert (first.record.prefill_requests, first.record.prefill_tokens, first.record.waiting) == (1, 8, 1)
    assert emitted(first) == {}
    assert (second.record.prefill_requests, second.record.prefill_tokens, second.record.waiting) == (2, 5, 0)
    assert emitted(second) == {a: 1, b: 1}
    assert bench.cost.shapes[1].prefill_context_tokens == 8
    assert (third.record.batch, third.record.prefill_tokens) == (2, 0)
    assert emitted(third) == {a: 1, b: 1}
    assert third.finished.tolist() == [a, b]
    assert bench.core.step(3.0) is None


def test_decoding_goes_before_prompts_under_the_budget() -> None:
    """Budget 4, A decodes (1 token): a prompt of 6 gets 3, then the other 3."""
    bench = Bench(core_spec(scheduler(budget=4)))
    a = bench.submit(2, 9)
    bench.step()
    b = bench.submit(6, 1)

    steps = [bench.step() for _ in range(2)]

    assert [(r.record.batch, r.record.prefill_tokens) for r in steps] == [(1, 3), (1, 3)]
    assert [emitted(r) for r in steps] == [{a: 1}, {a: 1, b: 1}]
    assert steps[1].finished.tolist() == [b]


def test_one_prompt_fills_three_chunks() -> None:
    bench = Bench(core_spec(scheduler(budget=4)))
    a = bench.submit(11, 1)
    steps = [bench.step() for _ in range(3)]
    assert [r.record.prefill_tokens for r in steps] == [4, 4, 3]
    assert [emitted(r) for r in steps] == [{}, {}, {a: 1}]


def test_blocks_follow_the_tokens_that_are_computed() -> None:
    """Block size 4: 8 tokens = 2 blocks, 10 = 3; the first decoded token is slot 11."""
    bench = Bench(core_spec(scheduler(budget=8, blocks=10)))
    bench.submit(10, 3)
    free = []
    for _ in range(4):
        bench.step()
        free.append(bench.core.kv_blocks_free)
    assert free == [8, 7, 7, 10]


def test_sequences_bound_the_batch_and_the_rest_waits_in_order() -> None:
    bench = Bench(core_spec(scheduler(seqs=2)))
    a, b, c, d = (bench.submit(1, n) for n in (2, 3, 1, 1))
    steps = bench.run()
    assert [emitted(r) for r in steps] == [
        {a: 1, b: 1},
        {a: 1, b: 1},
        {b: 1, c: 1},
        {d: 1},
    ]
    assert [r.record.waiting for r in steps] == [2, 2, 1, 0]


def test_the_newest_request_is_preempted_and_computed_again() -> None:
    """4 blocks of 4. A and B (prompt 4, output 8) hold 2 each when A's slot 9 needs a third at step 5."""
    bench = Bench(core_spec(scheduler(blocks=4)))
    a, b = bench.submit(4, 8), bench.submit(4, 8)

    steps = bench.run()

    assert [emitted(r) for r in steps[:5]] == [{a: 1, b: 1}] * 5
    assert [r.record.preempted for r in steps] == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert [emitted(r) for r in steps[5:8]] == [{a: 1}] * 3
    assert steps[7].finished.tolist() == [a]
    # prompt 4 + 5 emitted tokens are computed again, and that prefill emits B's sixth token
    assert (steps[8].record.prefill_tokens, emitted(steps[8])) == (9, {b: 1})
    assert [emitted(r) for r in steps[9:]] == [{b: 1}] * 2
    assert bench.core.kv_blocks_free == 4
    assert bench.core.totals.preemptions == 1
    assert (bench.core.totals.prompt_tokens, bench.core.totals.prefill_tokens) == (8, 17)


def test_the_preempted_request_stands_in_front_of_the_queue() -> None:
    """C waits for a sequence slot. At step 5 B is preempted; it needs 3 blocks where 1 is free, and C, which
    needs but 1, does not overtake it."""
    bench = Bench(core_spec(scheduler(seqs=2, blocks=4)))
    a, b, c = bench.submit(4, 8), bench.submit(4, 8), bench.submit(1, 1)
    steps = bench.run()
    assert [r.record.waiting for r in steps[4:9]] == [1, 2, 2, 2, 0]
    assert [emitted(r) for r in steps[5:9]] == [{a: 1}, {a: 1}, {a: 1}, {b: 1, c: 1}]


def test_a_prompt_waits_until_its_blocks_are_free() -> None:
    """5 blocks of 4: A holds 3 (prompt 12), B needs 3: it waits although a sequence slot is free."""
    bench = Bench(core_spec(scheduler(blocks=5)))
    a, b = bench.submit(12, 1), bench.submit(12, 1)
    steps = bench.run()
    assert [emitted(r) for r in steps] == [{a: 1}, {b: 1}]


def test_a_chunk_in_mid_prefill_is_preempted_first() -> None:
    """6 blocks of 4, budget 10: A (8 prompt) decodes, B (16 prompt) runs in chunks behind it.

    Step 0: A 8 (2 blocks), B 2 (1). Step 1: A slot 9 (3 blocks), B chunk 9 -> 11 tokens (3): none free.
    Step 2: B's last 5 need 16 slots (4 blocks): it cannot have the fourth and preempts itself; and so again
    at step 4, after 9 tokens at step 3.
    """
    bench = Bench(core_spec(scheduler(budget=10, blocks=6)))
    a, b = bench.submit(8, 5), bench.submit(16, 1)
    steps = bench.run()
    assert [r.record.prefill_tokens for r in steps] == [10, 9, 0, 9, 0, 10, 6]
    assert [r.record.preempted for r in steps] == [0, 0, 1, 0, 1, 0, 0]
    assert steps[4].finished.tolist() == [a]
    assert steps[6].finished.tolist() == [b]


def test_the_budget_starves_later_requests_and_drops_no_token() -> None:
    """Budget 4, two requests that each want 4 tokens a step (K=3): the older one is served, FCFS."""
    bench = Bench(core_spec(scheduler(budget=4), k_max=3), Script(depths=[3]))
    a, b = bench.submit(2, 9), bench.submit(2, 9)
    steps = bench.run()
    assert emitted(steps[0]) == {a: 1, b: 1}
    assert [emitted(r) for r in steps[1:3]] == [{a: 4}, {a: 4}]
    assert [emitted(r) for r in steps[3:]] == [{b: 4}, {b: 4}]


def test_the_budget_trims_the_drafts_of_the_request_at_its_edge() -> None:
    """Budget 6: A takes 4, B's 3 drafts are trimmed to 1."""
    governor = Script(depths=[3])
    bench = Bench(core_spec(scheduler(budget=6), k_max=3), governor)
    a, b = bench.submit(2, 20), bench.submit(2, 20)
    bench.step()
    second = bench.step()
    assert governor.observations[1].drafts_in_hand.tolist() == [3, 1]
    assert emitted(second) == {a: 4, b: 2}


def test_cancel_frees_a_running_request_at_once() -> None:
    bench = Bench(core_spec(scheduler(blocks=10)))
    a, b = bench.submit(4, 9), bench.submit(4, 9)
    bench.step()
    assert bench.core.kv_blocks_free == 8
    assert bench.core.cancel(a) is True
    assert (bench.core.running, bench.core.kv_blocks_free) == (1, 9)
    assert emitted(bench.step()) == {b: 1}


def test_cancel_takes_a_waiting_request_out_of_the_queue() -> None:
    bench = Bench(core_spec(scheduler(seqs=1)))
    a, b, c = (bench.submit(1, 1) for _ in range(3))
    assert bench.core.cancel(b) is True
    assert [list(emitted(r)) for r in bench.run()] == [[a], [c]]
    assert bench.core.totals.requests_cancelled == 1


def test_cancel_in_mid_prefill_frees_its_blocks() -> None:
    bench = Bench(core_spec(scheduler(budget=4, blocks=10)))
    a = bench.submit(11, 1)
    bench.step()
    assert bench.core.kv_blocks_free == 9
    assert bench.core.cancel(a) is True
    assert bench.core.kv_blocks_free == 10
    assert bench.core.step(1.0) is None


def test_cancelling_what_has_ended_or_never_was_says_so() -> None:
    bench = Bench(core_spec())
    a = bench.submit(1, 1)
    bench.run()
    assert bench.core.cancel(a) is False
    assert bench.core.cancel(99) is False


def test_handles_are_never_reused() -> None:
    bench = Bench(core_spec())
    first = bench.submit(1, 1)
    bench.run()
    assert bench.submit(1, 1) == first + 1


def test_a_request_beyond_max_model_len_is_refused() -> None:
    bench = Bench(core_spec(scheduler(model_len=16)))
    bench.submit(8, 8)
    with pytest.raises(RequestTooLong, match=r"9 prompt \+ 8 output tokens exceed max_model_len=16"):
        bench.submit(9, 8)


def test_a_request_beyond_the_whole_cache_is_refused() -> None:
    """5 blocks of 4 = 20 slots; the last output token needs none, a drafter's window and lookahead do."""
    plain = Bench(core_spec(scheduler(blocks=5), speculative=False))
    plain.submit(10, 11)
    with pytest.raises(RequestTooLong, match=r"need 21 KV slots .* the cache has 20"):
        plain.submit(10, 12)
    drafting = Bench(core_spec(scheduler(blocks=5), k_max=2), Script(depths=[2]))
    drafting.submit(10, 7)
    with pytest.raises(RequestTooLong, match="raise kv_blocks"):
        drafting.submit(10, 8)
    assert sum(sum(emitted(r).values()) for r in drafting.run()) == 7


@pytest.mark.parametrize("field", ["seqs", "budget", "block", "blocks"])
def test_a_scheduler_that_could_never_step_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        Bench(core_spec(scheduler(**{field: 0})))


@pytest.mark.parametrize(("prompt", "output"), [(0, 1), (1, 0), (-3, 5)])
def test_an_empty_request_is_refused(prompt: int, output: int) -> None:
    with pytest.raises(ValueError, match="both must be at least 1"):
        Bench(core_spec()).submit(prompt, output)


def test_an_unknown_class_without_a_default_names_the_known_ones() -> None:
    bench = Bench(core_spec(acceptance=AcceptanceSpec(by_class={"chat": (0.5,), "gsm8k": (0.7,)})))
    with pytest.raises(ValueError, match='"poems" has no acceptance: known are chat, gsm8k; add "default"'):
        bench.core.submit(NewRequest(1, 1, traffic_class="poems"), 0.0)
