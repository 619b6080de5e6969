"""A step machine whose invariants are checked after every step: tokens, blocks, windows, order, waiting."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from engines.embedded.batch import BLOCKS, COMPUTED, HANDLE
from engines.embedded.core import EngineCore
from engines.embedded.requests import NewRequest, StepResult
from governors.contract import DepthDecision, StepObservation, StepOutcome


@dataclass
class Watched:
    """Drives a core that has run nothing yet, and stands between it and its governor.

    emitted     tokens by handle; asked: what was asked for, prompt and output tokens by handle
    recomputed  tokens that preemptions will have computed a second time
    coins       (handle, output token) -> whether the draft of that token passed
    """

    core: EngineCore
    emitted: dict[int, int] = field(default_factory=dict)
    asked: dict[int, tuple[int, int]] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    coins: dict[tuple[int, int], bool] = field(default_factory=dict)
    log: list[StepResult] = field(default_factory=list)
    recomputed: int = 0
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self._governor, self.core._governor = self.core._governor, self
        self._scheduler = self.core._scheduler
        self._preempt_one = self._scheduler._preempt
        self._scheduler._preempt = self._preempt  # type: ignore[method-assign]
        self._patience: dict[int, int] = {}

    def decide(self, observation: StepObservation) -> DepthDecision:
        in_hand, spec = observation.drafts_in_hand, self.core.spec
        assert ((in_hand >= 0) & (in_hand <= spec.k_max)).all()
        assert spec.speculative or not in_hand.any()
        assert (observation.history.accepted <= observation.history.reached).all()
        assert observation.batch + observation.prefill_tokens > 0
        self._in_hand = in_hand
        return self._governor.decide(observation)

    def observe(self, outcome: StepOutcome) -> None:
        verified, accepted = outcome.verified, outcome.accepted
        assert ((verified >= 0) & (verified <= self._in_hand)).all()
        assert ((accepted >= 0) & (accepted <= verified)).all()
        rows = (outcome.request_ids, verified, accepted)
        for handle, window, passed in zip(*(row.tolist() for row in rows), strict=True):
            first = self.emitted[handle]
            for at in range(min(passed + 1, window)):
                coin = at < passed
                assert self.coins.setdefault((handle, first + at), coin) is coin
        self._governor.observe(outcome)

    def submit(self, request: NewRequest) -> int:
        handle = self.core.submit(request, self.now_s)
        self.emitted[handle] = 0
        self.asked[handle] = (request.prompt_tokens, request.output_tokens)
        # FCFS: the oldest request moves on at every step and is never preempted, so only those before it
        # and its own work can make a request wait, whatever comes later
        self._patience[handle] = sum(self._work(other) for other in self.asked if other not in self.ended)
        return handle

    def step(self) -> bool:
        result = self.core.step(self.now_s)
        if result is None:
            return False
        self.now_s = result.record.end_s
        self.log.append(result)
        self._book(result)
        self.check()
        return True

    def run(self) -> None:
        """To the end of everything that was submitted; a request that starves fails its patience."""
        while self.step():
            pass

    def cancel(self, handle: int) -> None:
        if self.core.cancel(handle):
            self.ended.add(handle)
        self.check()

    def check(self) -> None:
        """Blocks add up; running requests are older than waiting ones; at most one is in mid-prefill."""
        batch, core = self._scheduler.batch, self.core
        held = batch.ints[BLOCKS, : batch.size]
        assert (held >= 0).all()
        assert 0 <= core.kv_blocks_free <= core.kv_blocks_total
        assert int(held.sum()) + core.kv_blocks_free == core.kv_blocks_total
        assert (held * core.spec.scheduler.block_size >= batch.ints[COMPUTED, : batch.size]).all()
        handles = [*batch.ints[HANDLE, : batch.size].tolist(), *(s.handle for s in self._scheduler.waiting)]
        assert handles == sorted(set(handles))
        assert not set(handles) & self.ended
        assert batch.size - batch.decoding in (0, 1)
        assert batch.size <= core.spec.scheduler.max_num_seqs

    def check_all_served(self) -> None:
        """Everybody got their tokens, nothing is left over, and every token computed is accounted for."""
        core, totals = self.core, self.core.totals
        assert self.emitted == {handle: output for handle, (_, output) in self.asked.items()}
        assert self.ended == set(self.asked)
        assert core.kv_blocks_free == core.kv_blocks_total
        assert (core.running, core.waiting) == (0, 0)
        prompts = sum(prompt for prompt, _ in self.asked.values())
        assert totals.generation_tokens == sum(self.emitted.values())
        assert totals.prompt_tokens == prompts
        assert totals.prefill_tokens == prompts + self.recomputed
        assert totals.preemptions == sum(result.record.preempted for result in self.log)
        assert totals.requests_finished == len(self.asked)

    def _book(self, result: StepResult) -> None:
        record = result.record
        for handle, count in zip(result.handles.tolist(), result.counts.tolist(), strict=True):
            assert count > 0
            assert handle not in self.ended
            self.emitted[handle] += count
        self.ended |= set(result.finished.tolist())
        assert record.emitted == int(np.sum(result.counts))
        assert record.verified + record.batch + record.prefill_tokens <= (
            self.core.spec.scheduler.max_num_batched_tokens
        )
        most = self.core.spec.penalties.draft_budget_tokens
        assert most is None or record.verified <= most
        for handle in self._patience.keys() - self.ended:
            self._patience[handle] -= 1
            assert self._patience[handle] > 0, f"request {handle} starves"

    def _preempt(self) -> int:
        """A decoding request has emitted a token that it has not computed yet: its prefill will."""
        batch = self._scheduler.batch
        column = batch.size - 1
        self.recomputed += int(batch.ints[COMPUTED, column]) + (column < batch.decoding)
        return self._preempt_one()

    def _work(self, handle: int) -> int:
        """Steps that this request needs at most when it is the oldest."""
        prompt, output = self.asked[handle]
        return -(-(prompt + output) // self.core.spec.scheduler.max_num_batched_tokens) + output
