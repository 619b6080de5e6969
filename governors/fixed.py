"""fixed: the same depth at every step, whatever the load."""

from __future__ import annotations

from governors.contract import DepthDecision, DepthLimits, StepObservation, StepOutcome
from governors.entry import GovernorContext, GovernorEntry, Options
from governors.options import RAISE_K_MAX, OptionReader


class Fixed:
    """K = depth, verified in full."""

    def __init__(self, depth: int) -> None:
        self._decision = DepthDecision(windows=depth, depth_next=depth)

    def decide(self, observation: StepObservation) -> DepthDecision:
        return self._decision

    def observe(self, outcome: StepOutcome) -> None:
        """Nothing to learn."""


def build(options: Options, context: GovernorContext) -> Fixed:
    return Fixed(depth_option("fixed", options, context))


def depth_option(governor: str, options: Options, context: GovernorContext) -> int:
    """Option `depth`: 0..k_max, by default k_max. vLLM would clamp a larger one; here it is refused."""
    k_max = context.limits.k_max
    mend = f"the engine drafts at most k_max={k_max}; lower the depth or {RAISE_K_MAX}"
    return OptionReader(governor, options).integer("depth", k_max, 0, k_max, mend)


def depths(options: Options, limits: DepthLimits) -> frozenset[int]:
    return frozenset((depth_option("fixed", options, GovernorContext(limits)),))


ENTRY = GovernorEntry(
    name="fixed",
    summary="K=depth at every step (depth=0 keeps the drafter loaded: not the same as off)",
    layer="D",
    source="what engines do without a governor",
    build=build,
    options={"depth": "drafts a step, 0..k_max; default k_max"},
    depths=depths,
)
