"""Whether a record's numbers can be: a run folder is untrusted, and a figure must not come of what cannot."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from governors.telemetry import StepRecord
from loadgen.columns import BoolArray, FloatArray, RequestColumns, Times
from loadgen.counters import EngineCounters
from loadgen.records import CellRecord

MOST = 2**31  # no count of one cell comes near; sums stay exact
LONGEST_S = 1e12  # clocks of machines and of models stay far below; differences and sums stay finite


def plausible_requests(of: RequestColumns) -> bool:
    """Times in the order in which a request lives, a count a chunk, counts that can be, an end if done."""
    counts = (of.output_tokens.values, of.prompt_tokens.values, of.chunk_tokens)
    return (
        of.aligned
        and bool(of.done_s.known[of.measured].all())
        and all(each.min(initial=0) >= 0 and each.max(initial=0) < MOST for each in counts)
        and _lived_in_order(of)
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
    ordered = _in_order(window) and _in_order(phases)
    return ordered and 0 <= min(counts) <= max(counts) < MOST and _counted(record).possible


def _counted(record: CellRecord) -> EngineCounters:
    """Its driver leaves out what cannot be."""
    return EngineCounters(
        drafts=record.drafts,
        draft_tokens=record.draft_tokens,
        accepted_tokens=record.accepted_tokens,
        accepted_by_position=record.accepted_by_position,
    )


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
    parts = record.accepted <= record.verified
    return ordered and fits and parts and 0 <= min(counts) <= max(counts) < MOST


def _in_order(times_s: Iterable[float | None]) -> bool:
    known = [time for time in times_s if time is not None]
    ordered = all(before <= after for before, after in pairwise(known))  # NaN is in no order
    return ordered and all(-LONGEST_S < time < LONGEST_S for time in known)


def _lived_in_order(of: RequestColumns) -> bool:
    """due, sent, first byte, then chunks and done, and first token and done: those that are known."""
    begun, due = _then(np.full(len(of), -LONGEST_S), Times(of.due_s, np.ones(len(of), dtype=np.bool_)))
    begun, sent = _then(begun, of.sent_s)
    begun, read = _then(begun, of.first_byte_s)
    spoke, began_to_speak = _then(begun, of.first_token_s)
    last, spoke_in_order = _after_chunks(begun, of)
    ended = (_then(spoke, of.done_s)[1], _then(last, of.done_s)[1])
    return all((due, sent, read, began_to_speak, spoke_in_order, *ended))


def _then(before: FloatArray, times: Times) -> tuple[FloatArray, bool]:
    """(the later of the two where it is known, whether no known one comes before what it follows)."""
    follows = (before <= times.values) & _possible(times.values)  # NaN is in no order
    return np.where(times.known, times.values, before), bool((follows | ~times.known).all())


def _after_chunks(before: FloatArray, of: RequestColumns) -> tuple[FloatArray, bool]:
    """As `_then`, for every request's chunks in turn."""
    times, some = of.chunk_times_s, of.chunks > 0
    starts, ends = of.chunk_ends[:-1][some], of.chunk_ends[1:][some]
    follows = _possible(times)
    follows[starts] &= before[some] <= times[starts]
    rises = times[:-1] <= times[1:]
    rises[starts[1:] - 1] = True  # from one request's last to another's first
    last = before.copy()
    last[some] = times[ends - 1]
    return last, bool(follows.all() and rises.all())


def _possible(times_s: FloatArray) -> BoolArray:
    return (times_s > -LONGEST_S) & (times_s < LONGEST_S)
