"""schedule: vLLM's dynamic speculative decoding, a depth for each range of batch sizes.

Source: vLLM v1/spec_decode/dynamic/utils.py (`num_speculative_tokens_per_batch_size`), vllm#48944.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from governors.contract import DepthDecision, DepthLimits, StepObservation, StepOutcome
from governors.entry import GovernorContext, GovernorEntry, Options
from governors.load import COUNT_OPTION, LoadCount, load_count
from governors.options import OptionReader
from governors.reasons import reason_for

SCHEDULE_OPTION = (
    "[[lo, hi, K], ...]: K drafts for loads lo..hi, both ends included; the first lo is 1; required"
)
_FORM = "give a non-empty list of [lo, hi, K], such as [[1, 4, 2], [5, 512, 0]]"


@dataclass(frozen=True, slots=True)
class Range:
    """K = `depth` for loads `low`..`high`, both ends included."""

    low: int
    high: int
    depth: int

    @property
    def span(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


class Schedule:
    """K = dense[load]; `dense` has max_num_seqs + 1 entries, and entry 0 is not used."""

    def __init__(self, dense: Sequence[int], count: LoadCount) -> None:
        self._dense = tuple(dense)
        self._count = count
        self._before: int | None = None

    def decide(self, observation: StepObservation) -> DepthDecision:
        depth = self._dense[min(self._count(observation), len(self._dense) - 1)]
        reason, self._before = reason_for(self._before, depth), depth
        return DepthDecision(windows=observation.limits.k_max, depth_next=depth, reason=reason)

    def observe(self, outcome: StepOutcome) -> None:
        """Nothing to learn."""


def parse_schedule(reader: OptionReader) -> tuple[Range, ...]:
    """Option `schedule`, sorted. Refuses what vLLM refuses, and what vLLM's int() would cut to an integer."""
    schedule = reader.required("schedule", _FORM)
    if not isinstance(schedule, list) or not schedule:
        raise reader.refuse("schedule", schedule, _FORM)
    ranges = sorted((_range(reader, entry) for entry in schedule), key=lambda entry: entry.low)
    for before, after in pairwise(ranges):
        if after.low <= before.high:
            mend = f"ranges {before.span} and {after.span} overlap; begin the second at {before.high + 1}"
            raise reader.refuse("schedule", schedule, mend)
    if ranges[0].low != 1:
        raise reader.refuse("schedule", schedule, f"the first range begins at {ranges[0].low}; begin it at 1")
    return tuple(ranges)


def _range(reader: OptionReader, entry: object) -> Range:
    if not isinstance(entry, list | tuple) or len(entry) != 3:
        raise reader.refuse("schedule", entry, "each entry has 3 items, [lo, hi, K]")
    if any(isinstance(item, bool) or not isinstance(item, int) for item in entry):
        raise reader.refuse("schedule", entry, "lo, hi and K are integers")
    low, high, depth = entry
    if low <= 0 or high <= 0:
        raise reader.refuse("schedule", entry, "lo and hi are at least 1")
    if low > high:
        raise reader.refuse("schedule", entry, f"lo is above hi; write [{high}, {low}, {depth}]")
    if depth < 0:
        raise reader.refuse("schedule", entry, "K is at least 0; 0 turns speculation off")
    return Range(low, high, depth)


def dense_schedule(ranges: Sequence[Range], max_num_seqs: int, k_max: int) -> tuple[int, ...]:
    """K by load, index 0..max_num_seqs: gaps and the tail carry the previous K on, K is clamped to k_max."""
    dense = [0] * (max_num_seqs + 1)
    for entry in ranges:
        tail = max_num_seqs + 1 - entry.low
        dense[entry.low :] = [min(entry.depth, k_max)] * max(tail, 0)
    return tuple(dense)


def schedule_warnings(governor: str, options: Options, context: GovernorContext) -> tuple[str, ...]:
    """What vLLM accepts without a word: gaps, a short tail, a K above k_max, ranges never reached."""
    ranges = parse_schedule(OptionReader(governor, options))
    largest, k_max = context.limits.max_num_seqs, context.limits.k_max
    said = []
    for before, after in pairwise(ranges):
        if after.low > before.high + 1:
            gap = Range(before.high + 1, after.low - 1, min(before.depth, k_max))
            said.append(f"loads {gap.span} are in no range; K={gap.depth} is carried on")
    if ranges[-1].high < largest:
        carried = min(ranges[-1].depth, k_max)
        said.append(f"it ends at {ranges[-1].high}; K={carried} is carried on to max_num_seqs={largest}")
    for entry in ranges:
        if entry.depth > k_max:
            said.append(f"K={entry.depth} for loads {entry.span} is clamped to k_max={k_max}")
        if entry.low > largest:
            said.append(f"loads {entry.span} are above max_num_seqs={largest} and never reached")
    return tuple(f"{governor}.schedule: {sentence}" for sentence in said)


def build(options: Options, context: GovernorContext) -> Schedule:
    reader = OptionReader("schedule", options)
    limits = context.limits
    dense = dense_schedule(parse_schedule(reader), limits.max_num_seqs, limits.k_max)
    return Schedule(dense, load_count(reader))


def warn(options: Options, context: GovernorContext) -> tuple[str, ...]:
    return schedule_warnings("schedule", options, context)


def schedule_depths(options: Options, limits: DepthLimits) -> frozenset[int]:
    """Every K of option `schedule` at a load that can be."""
    ranges = parse_schedule(OptionReader("schedule", options))
    return frozenset(dense_schedule(ranges, limits.max_num_seqs, limits.k_max)[1:])


ENTRY = GovernorEntry(
    name="schedule",
    summary="K looked up by batch size in [[lo, hi, K], ...], vLLM's format",
    layer="D",
    source="vLLM v1/spec_decode/dynamic/utils.py, vllm#48944",
    build=build,
    options={"schedule": SCHEDULE_OPTION, "count": COUNT_OPTION},
    changes_depth=True,
    warn=warn,
    depths=schedule_depths,
)
