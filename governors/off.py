"""off: no speculation. The baseline that every promise is compared with; no drafter is loaded."""

from __future__ import annotations

from governors.contract import DepthDecision, StepObservation, StepOutcome
from governors.entry import GovernorContext, GovernorEntry, Options


class Off:
    """K=0 at every step."""

    def decide(self, observation: StepObservation) -> DepthDecision:
        return DepthDecision(windows=0, depth_next=0)

    def observe(self, outcome: StepOutcome) -> None:
        """Nothing to learn."""


def build(options: Options, context: GovernorContext) -> Off:
    return Off()


ENTRY = GovernorEntry(
    name="off",
    summary="no speculation: K=0 and no drafter in memory",
    layer="D",
    source="the baseline",
    build=build,
    speculative=False,
    depths=lambda options, limits: frozenset((0,)),
)
