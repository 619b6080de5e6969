"""Whether a record's numbers can be: a run folder is untrusted, and a figure must not come of what cannot."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from governors.telemetry import StepRecord
from loadgen.records import CellRecord, RequestRecord

MOST = 2**31  # no count of one cell comes near; sums stay exact
LONGEST_S = 1e12  # clocks of machines and of models stay far below; differences and sums stay finite


def plausible_request(record: RequestRecord) -> bool:
    """Times in the order in which a request lives, a count for each chunk, counts that a request can have."""
    counts = (record.output_tokens or 0, record.prompt_tokens or 0, *(record.chunk_tokens or ()))
    whole = record.chunk_tokens is None or len(record.chunk_tokens) == len(record.chunk_times_s)
    begun = (record.due_s, record.sent_s, record.first_byte_s)
    return (
        whole
        and 0 <= min(counts) <= max(counts) < MOST
        and _in_order((*begun, *record.chunk_times_s, record.done_s))
        and _in_order((*begun, record.first_token_s, record.done_s))
    )


def plausible_cell(record: CellRecord) -> bool:
    """A window and phases that do not end before they start, and counts of an engine."""
    counts = (
        record.drafts or 0,
        record.draft_tokens or 0,
        record.accepted_tokens or 0,
        *(record.accepted_by_position or ()),
        *(record.reached_by_position or ()),
    )
    window, phases = (record.window_start_s, record.window_end_s), record.phase_starts_s or ()
    return _in_order(window) and _in_order(phases) and 0 <= min(counts) <= max(counts) < MOST


def plausible_step(record: StepRecord) -> bool:
    """A step that does not end before it starts, and counts of a step: no part above its whole."""
    counts = (
        record.step,
        record.batch,
        record.depth_in_force,
        record.depth_chosen,
        record.depth_executed,
        record.verified,
        record.accepted,
        record.emitted,
        *record.reached_by_position,
        *record.accepted_by_position,
    )
    ordered = -LONGEST_S < record.start_s <= record.end_s < LONGEST_S  # NaN is in no order
    free, total = record.kv_blocks_free or 0, record.kv_blocks_total
    fits = free >= 0 and (total is None or free <= total < MOST)
    return ordered and fits and 0 <= min(counts) <= max(counts) < MOST


def _in_order(times_s: Iterable[float | None]) -> bool:
    known = [time for time in times_s if time is not None]
    ordered = all(before <= after for before, after in pairwise(known))  # NaN is in no order
    return ordered and all(-LONGEST_S < time < LONGEST_S for time in known)
