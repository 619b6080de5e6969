"""cycle: a sequence of depths played over and over, whatever the load: for experiments, not to serve with.

Source: the K trace of TensorRT-LLM#16888 (3, 0, 0, 0, 3): what an engine makes of a K that comes and goes.
"""

from __future__ import annotations

from collections.abc import Sequence

from governors.contract import DepthDecision, DepthLimits, StepObservation, StepOutcome
from governors.entry import GovernorContext, GovernorEntry, Options
from governors.options import OptionReader
from governors.reasons import reason_for

_FORM = "give a non-empty list of depths, such as [3, 0, 0, 0]"


class Cycle:
    """Step n drafts depths[n modulo their number]; everything in hand is verified."""

    def __init__(self, depths: Sequence[int]) -> None:
        self._depths = tuple(depths)
        self._at = 0
        self._before: int | None = None

    def decide(self, observation: StepObservation) -> DepthDecision:
        depth = self._depths[self._at]
        self._at = (self._at + 1) % len(self._depths)
        reason, self._before = reason_for(self._before, depth), depth
        return DepthDecision(observation.limits.k_max, depth, reason)

    def observe(self, outcome: StepOutcome) -> None:
        """Nothing to learn."""


def parse_depths(options: Options, limits: DepthLimits) -> tuple[int, ...]:
    """Option `depths`, each 0..k_max."""
    reader = OptionReader("cycle", options)
    given = reader.required("depths", _FORM)
    if not isinstance(given, list | tuple) or not given:
        raise reader.refuse("depths", given, _FORM)
    for depth in given:
        if isinstance(depth, bool) or not isinstance(depth, int) or not 0 <= depth <= limits.k_max:
            raise reader.refuse("depths", given, f"{depth!r} is no integer from 0 to k_max={limits.k_max}")
    return tuple(given)


def build(options: Options, context: GovernorContext) -> Cycle:
    return Cycle(parse_depths(options, context.limits))


def depths(options: Options, limits: DepthLimits) -> frozenset[int]:
    return frozenset(parse_depths(options, limits))


ENTRY = GovernorEntry(
    name="cycle",
    summary="a sequence of depths played over and over, whatever the load: for experiments",
    layer="D",
    source="K traces of TensorRT-LLM#16888",
    build=build,
    options={"depths": "[K, ...]: one a step, from the front again after the last; required"},
    changes_depth=True,
    depths=depths,
)
