"""A small double of vLLM's scheduler and worker: the same seams in the same order, for tests without vLLM.

Tokens are reckoned, so that a wrong count anywhere shows: token p of request r is `truth(r, p)`, and a draft
for p is right where `agrees(r, p)` says so. The scheduler books as vLLM's does (num_computed_tokens,
placeholders), and the worker checks that what it is given fits what it has.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from governors.vllm_gate import Gate
from governors.vllm_hooks import REPORT, TIMED
from governors.vllm_scheduler import governed
from governors.vllm_timing import StepTimes, WorkerReport

WRONG = -7


def truth(request_id: str, position: int) -> int:
    return zlib.crc32(f"{request_id}/{position}".encode()) % 50_000


def agrees(request_id: str, position: int) -> bool:
    """Seven drafts of ten are right."""
    return zlib.crc32(f"draft {request_id}/{position}".encode()) % 10 < 7


@dataclass(eq=False)
class FakeRequest:
    request_id: str
    num_prompt_tokens: int
    max_tokens: int
    num_computed_tokens: int = 0
    num_output_placeholders: int = 0
    spec_token_ids: list[int] = field(default_factory=list)
    output: list[int] = field(default_factory=list)

    @property
    def num_tokens(self) -> int:
        return self.num_prompt_tokens + len(self.output)

    def is_finished(self) -> bool:
        return len(self.output) >= self.max_tokens


@dataclass(eq=False)
class FakeOutput:
    """SchedulerOutput."""

    num_scheduled_tokens: dict[str, int]
    scheduled_spec_decode_tokens: dict[str, list[int]]
    finished_req_ids: set[str]
    num_spec_tokens_to_schedule: int
    total_num_scheduled_tokens: int = 0
    preempted_req_ids: set[str] | None = None
    num_invalid_spec_tokens: dict[str, int] | None = None

    def __post_init__(self) -> None:
        self.total_num_scheduled_tokens = sum(self.num_scheduled_tokens.values())


@dataclass(eq=False)
class FakeResult:
    """ModelRunnerOutput."""

    req_ids: list[str]
    req_id_to_index: dict[str, int]
    sampled_token_ids: list[list[int]]


class FakeScheduler:
    """vllm.v1.core.sched.scheduler.Scheduler, so far as a governor's gate and speculation go."""

    def __init__(
        self, k_max: int, max_num_seqs: int = 8, budget: int = 64, lookup: list[int] | None = None
    ) -> None:
        self.num_spec_tokens, self.max_num_seqs, self.budget = k_max, max_num_seqs, budget
        self.dynamic_sd_lookup = lookup
        self.requests: dict[str, FakeRequest] = {}
        self.running: list[FakeRequest] = []
        self.waiting: deque[FakeRequest] = deque()
        self.finished_req_ids: set[str] = set()
        self.preempted: set[str] = set()
        pool = SimpleNamespace(get_num_free_blocks=lambda: 90, num_gpu_blocks=100)
        self.kv_cache_manager = SimpleNamespace(block_pool=pool)

    def add_request(self, request: FakeRequest) -> None:
        self.requests[request.request_id] = request
        self.waiting.append(request)

    def get_request_counts(self) -> tuple[int, int]:
        return len(self.running), len(self.waiting)

    def has_unfinished_requests(self) -> bool:
        return bool(self.running or self.waiting)

    def schedule(self) -> FakeOutput:
        numbers: dict[str, int] = {}
        drafts: dict[str, list[int]] = {}
        budget = self.budget
        while self.waiting and len(self.running) < self.max_num_seqs:
            self.running.append(self.waiting.popleft())
        for request in self.running:
            tokens = self._wanted(request, budget)
            if tokens <= 0:
                continue
            budget -= tokens
            numbers[request.request_id] = tokens
            spare = (
                tokens + request.num_computed_tokens - request.num_tokens - request.num_output_placeholders
            )
            if request.spec_token_ids and spare > 0:
                drafts[request.request_id] = request.spec_token_ids[:spare]
            request.spec_token_ids = []
        depth = self.num_spec_tokens
        if self.dynamic_sd_lookup is not None and numbers:
            depth = self.dynamic_sd_lookup[len(numbers)]
        output = FakeOutput(numbers, drafts, self.finished_req_ids, depth, preempted_req_ids=self.preempted)
        self.preempted = set()
        self._update_after_schedule(output)
        return output

    def _wanted(self, request: FakeRequest, budget: int) -> int:
        done = request.num_computed_tokens + 2 - request.num_output_placeholders
        if request.num_output_placeholders and done >= request.num_prompt_tokens + request.max_tokens:
            return 0
        held = request.num_tokens + len(request.spec_token_ids) + request.num_output_placeholders
        return min(held - request.num_computed_tokens, budget)

    def _update_after_schedule(self, scheduler_output: FakeOutput) -> None:
        for request_id, tokens in scheduler_output.num_scheduled_tokens.items():
            self.requests[request_id].num_computed_tokens += tokens
        self.finished_req_ids = set()

    def update_from_output(
        self, scheduler_output: FakeOutput, model_runner_output: FakeResult
    ) -> dict[int, Any]:
        sent = []
        for request_id in scheduler_output.num_scheduled_tokens:
            request = self.requests.get(request_id)
            if request is None:
                continue
            index = model_runner_output.req_id_to_index[request_id]
            new = model_runner_output.sampled_token_ids[index]
            rejected = len(scheduler_output.scheduled_spec_decode_tokens.get(request_id, ())) - max(
                len(new) - 1, 0
            )
            if new:
                request.num_computed_tokens -= rejected
                if request.num_output_placeholders:
                    request.num_output_placeholders -= rejected + len(new)
            new = new[: request.max_tokens - len(request.output)]
            request.output += new
            sent.append(SimpleNamespace(new_token_ids=new))
            if request.is_finished():
                self.finish(request_id)
        return {0: SimpleNamespace(outputs=sent)}

    def preempt(self, request_id: str) -> None:
        """Its blocks are taken: it computes prompt and output again, later."""
        request = self.requests[request_id]
        self.running.remove(request)
        self.waiting.appendleft(request)
        request.num_computed_tokens = 0
        request.spec_token_ids = []
        self.preempted.add(request_id)

    def finish(self, request_id: str) -> None:
        """A request ended, or was aborted."""
        self.running.remove(self.requests.pop(request_id))
        self.finished_req_ids.add(request_id)

    def update_draft_token_ids(self, drafts: dict[str, list[int]]) -> None:
        for request_id, tokens in drafts.items():
            request = self.requests.get(request_id)
            if request is not None and request.num_computed_tokens >= request.num_tokens - 1:
                request.spec_token_ids = list(tokens)

    def shutdown(self) -> None:
        """Nothing to end."""


class FakeAsyncScheduler(FakeScheduler):
    """AsyncScheduler: drafts are placeholders, and the next step is scheduled before this one's output."""

    def _update_after_schedule(self, scheduler_output: FakeOutput) -> None:
        super()._update_after_schedule(scheduler_output)
        for request_id in scheduler_output.num_scheduled_tokens:
            request = self.requests[request_id]
            if request.num_computed_tokens < request.num_tokens + request.num_output_placeholders:
                continue
            drafts = len(scheduler_output.scheduled_spec_decode_tokens.get(request_id, ()))
            request.num_output_placeholders += 1 + drafts
            request.spec_token_ids = [-1] * scheduler_output.num_spec_tokens_to_schedule


class FakeWorker:
    """Verifies what it is given against the truth, then drafts as many as the step says."""

    def __init__(self, runs_depth: Callable[[int], int] = lambda depth: depth) -> None:
        self.tokens: dict[str, int] = {}  # computed so far
        self.prompts: dict[str, int] = {}
        self.drafts: dict[str, list[int]] = {}
        self._runs_depth = runs_depth

    def execute(self, output: FakeOutput) -> FakeResult:
        assert output.total_num_scheduled_tokens == sum(output.num_scheduled_tokens.values())
        assert all(output.scheduled_spec_decode_tokens.values()), "vLLM leaves out requests without drafts"
        ids = list(output.num_scheduled_tokens)[::-1]  # the worker's order is its own
        sampled = [self._step(i, output) for i in ids]
        result = FakeResult(ids, {i: n for n, i in enumerate(ids)}, sampled)
        depth = self._runs_depth(output.num_spec_tokens_to_schedule)
        for request_id in ids:
            at = self.tokens[request_id] + 1
            self.drafts[request_id] = [
                truth(request_id, p) if agrees(request_id, p) else WRONG for p in range(at, at + depth)
            ]
        times = (StepTimes(0, 0.004, 0.001),) if getattr(output, TIMED) else ()
        setattr(result, REPORT, WorkerReport(depth, "full", times))
        return result

    def _step(self, request_id: str, output: FakeOutput) -> list[int]:
        given = output.scheduled_spec_decode_tokens.get(request_id, [])
        drafts = self.drafts.get(request_id, [])[: len(given)]
        assert len(drafts) == len(given), "scheduled to verify drafts that were never made"
        assert set(given) <= {-1} or given == drafts
        done = self.tokens.get(request_id, 0)
        fresh = output.num_scheduled_tokens[request_id] - len(given)
        self.tokens[request_id] = done + fresh
        if done + fresh < self.prompts[request_id]:
            return []
        assert done < self.prompts[request_id] or fresh == 1
        new = []
        for draft in drafts:
            new.append(truth(request_id, self.tokens[request_id]))
            if draft != new[-1]:
                return new
            self.tokens[request_id] += 1
        return [*new, truth(request_id, self.tokens[request_id])]


def drive(scheduler: Any, worker: FakeWorker, requests: Iterable[FakeRequest], steps: int = 10_000) -> int:
    """Runs to the end as EngineCore does, one step in flight ahead where it is asynchronous; steps taken."""
    for request in requests:
        worker.prompts[request.request_id] = request.num_prompt_tokens
        scheduler.add_request(request)
    ahead = isinstance(scheduler, FakeAsyncScheduler)
    flying: deque[tuple[FakeOutput, FakeResult]] = deque()
    taken = 0
    while scheduler.has_unfinished_requests() or flying:
        output = scheduler.schedule()
        if output.num_scheduled_tokens:
            flying.append((output, worker.execute(output)))
            taken += 1
            assert taken < steps
        if flying and (len(flying) > ahead or not output.num_scheduled_tokens):
            scheduler.update_from_output(*flying.popleft())
            if not ahead:
                scheduler.update_draft_token_ids(worker.drafts)
    return taken


def governed_fake(asynchronous: bool, gate: Gate, k_max: int, **more: Any) -> Any:
    """The product's own subclass, over the double."""
    base = FakeAsyncScheduler if asynchronous else FakeScheduler
    return governed(base, lambda scheduler: gate)(k_max, **more)
