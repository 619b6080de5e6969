"""disable_above: speculate up to a number of requests, and not at all above it."""

from __future__ import annotations

from governors.contract import DepthDecision, DepthLimits, StepObservation, StepOutcome
from governors.entry import GovernorContext, GovernorEntry, Options
from governors.fixed import depth_option
from governors.load import COUNT_OPTION, LoadCount, load_count
from governors.options import OptionReader
from governors.reasons import reason_for


class DisableAbove:
    """K = depth while the load is at most `above` requests, else 0."""

    def __init__(self, depth: int, above: int, count: LoadCount) -> None:
        self._depth = depth
        self._above = above
        self._count = count
        self._before: int | None = None

    def decide(self, observation: StepObservation) -> DepthDecision:
        depth = self._depth if self._count(observation) <= self._above else 0
        reason, self._before = reason_for(self._before, depth), depth
        return DepthDecision(windows=observation.limits.k_max, depth_next=depth, reason=reason)

    def observe(self, outcome: StepOutcome) -> None:
        """Nothing to learn."""


def build(options: Options, context: GovernorContext) -> DisableAbove:
    reader = OptionReader("disable_above", options)
    above = reader.integer("above", None, 0, 1_000_000)
    return DisableAbove(depth_option("disable_above", options, context), above, load_count(reader))


def warn(options: Options, context: GovernorContext) -> tuple[str, ...]:
    above, largest = options["above"], context.limits.max_num_seqs
    if isinstance(above, int) and above >= largest:
        return (
            f"disable_above.above={above} is never exceeded with max_num_seqs={largest}: K never changes",
        )
    return ()


def depths(options: Options, limits: DepthLimits) -> frozenset[int]:
    return frozenset((depth_option("disable_above", options, GovernorContext(limits)), 0))


ENTRY = GovernorEntry(
    name="disable_above",
    summary="K=depth while the load is at most `above` requests, else 0",
    layer="D",
    source="vLLM V0 disable_by_batch_size, which compared with >=: its value is `above` + 1",
    build=build,
    options={
        "above": "the last load with speculation, in requests; required",
        "depth": "drafts a step up to there, 0..k_max; default k_max",
        "count": COUNT_OPTION,
    },
    changes_depth=True,
    warn=warn,
    depths=depths,
)
