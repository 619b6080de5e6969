"""StepRecord: one row a step, the source of every K trace. Written by engines, read by reports and replay."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepRecord:
    """Scalars of one engine step; None = not known. Lists are per decoding request or per position.

    start_s, end_s     the engine's monotonic clock
    batch              decoding requests; prefill_requests/prefill_tokens beside them
    depth_in_force     drafts proposed for this step (executed at the end of the step before)
    depth_chosen       what the governor asked the drafter to propose next, clamped to k_max
    depth_executed     what the drafter did propose next
    window_mean        mean verify window over the decoding requests, None when batch is 0
    verified, accepted, emitted   totals over the step, in tokens
    reached_by_position, accepted_by_position   counts; conditional acceptance = accepted / reached
    lag_s              wall clock behind the model's clock at the end of the step (embedded engine only;
                       0 in virtual time)

    Only engines that host a governor inside a real server fill what follows:

    governor           whose decision it was; None = the engine's own rule (or not recorded)
    faults             decisions so far that raised or broke the contract, so that the engine's own K ran: any
                       makes the run invalid
    note               said once: why a governor failed, which durations cannot be had
    request_ids, drafted_by_request, verified_by_request, accepted_by_request
                       a row each decoding request: its handle, drafts in hand, those verified, those accepted
    """

    step: int
    start_s: float
    end_s: float
    batch: int
    prefill_requests: int
    prefill_tokens: int
    waiting: int
    depth_in_force: int
    depth_chosen: int
    depth_executed: int
    window_mean: float | None
    verified: int
    accepted: int
    emitted: int
    reached_by_position: tuple[int, ...]
    accepted_by_position: tuple[int, ...]
    target_s: float | None
    draft_s: float | None
    step_s: float | None
    graph_mode: str
    kv_blocks_free: int | None
    kv_blocks_total: int | None
    preempted: int
    reason: str
    lag_s: float | None = None
    governor: str | None = None
    faults: int = 0
    note: str | None = None
    request_ids: tuple[int, ...] | None = None
    drafted_by_request: tuple[int, ...] | None = None
    verified_by_request: tuple[int, ...] | None = None
    accepted_by_request: tuple[int, ...] | None = None
