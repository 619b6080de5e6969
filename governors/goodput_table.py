"""goodput_table: the depth with the most tokens a second, by a measured table of step times.

Source: vllm#32374 (early commits): argmax_K (1 + sum_{i<=K} a_i) / ITL(B, K), bilinear in a measured grid.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from governors.acceptance import PositionAcceptance
from governors.contract import DepthDecision, Reason, StepObservation, StepOutcome
from governors.cost import StepGrid
from governors.entry import GovernorContext, GovernorEntry, Options
from governors.load import COUNT_OPTION, LoadCount, load_count
from governors.options import OptionReader
from governors.reasons import reason_for


class GoodputTable:
    """K = argmax (1 + sum_{i<=K} a_i) / seconds(load, K); the lowest K wins a tie.

    `a` starts as the profile's acceptance and follows what is observed; without any, the first `warmup_steps`
    that verify drafts run at k_max (reason probed). Positions above the K in force cannot be observed: they
    keep their estimate, and one in `probe_every` decoding steps spent below the deepest candidate drafts the
    next deeper one, so that K is never left low on stale numbers.
    Without a usable table it keeps k_max (reason no-model).
    """

    def __init__(
        self,
        grid: StepGrid,
        acceptance: PositionAcceptance,
        count: LoadCount,
        probe_every: int,
        warmup_steps: int,
    ) -> None:
        self._grid = grid
        self._acceptance = acceptance
        self._count = count
        self._probe_every = probe_every
        self._warmup = warmup_steps
        self._before: int | None = None
        self._unprobed = 0

    def decide(self, observation: StepObservation) -> DepthDecision:
        k_max = observation.limits.k_max
        if not self._grid.usable:
            return DepthDecision(k_max, k_max, Reason.NO_MODEL)
        if self._warmup > 0:
            return DepthDecision(k_max, k_max, Reason.PROBED)
        depths = self._grid.depths
        best = self._best(self._count(observation))
        if self._probe_due(best + 1 < len(depths), observation.batch):
            return DepthDecision(k_max, int(depths[best + 1]), Reason.PROBED)
        depth = int(depths[best])
        reason, self._before = reason_for(self._before, depth), depth
        return DepthDecision(k_max, depth, reason)

    def observe(self, outcome: StepOutcome) -> None:
        self._acceptance.observe(outcome)
        if self._warmup > 0 and outcome.verified.any():
            self._warmup -= 1

    def _best(self, load: int) -> int:
        """Index into the grid's depths."""
        expected = np.array(list(accumulate(self._acceptance.unconditional(), initial=0.0)))
        return int(np.argmax((1.0 + expected[self._grid.depths]) / self._grid.seconds(load)))

    def _probe_due(self, deeper: bool, batch: int) -> bool:
        self._unprobed = self._unprobed + (batch > 0) if deeper else 0
        due = 0 < self._probe_every <= self._unprobed
        self._unprobed = 0 if due else self._unprobed
        return due


def build(options: Options, context: GovernorContext) -> GoodputTable:
    reader = OptionReader("goodput_table", options)
    limits, profile = context.limits, context.profile
    acceptance = PositionAcceptance(
        profile.acceptance if profile else (),
        limits.k_max,
        window_steps=reader.integer("window_steps", 256, 1, 1_000_000),
        prior_weight=reader.number("prior_weight", 64.0, 0.0, 1e9),
    )
    depths = reader.choice("depths", "measured", ("measured", "all"))
    warmup_steps = reader.integer("warmup_steps", 10, 1, 1_000_000)
    return GoodputTable(
        StepGrid(profile, limits, between=depths == "all"),
        acceptance,
        load_count(reader),
        probe_every=reader.integer("probe_every", 256, 0, 1_000_000),
        warmup_steps=0 if profile is not None and profile.acceptance else warmup_steps,
    )


def warn(options: Options, context: GovernorContext) -> tuple[str, ...]:
    if context.profile is not None and not StepGrid(context.profile, context.limits).usable:
        return ("goodput_table: the profile's step_s is empty or flat: it keeps k_max (reason no-model)",)
    return ()


ENTRY = GovernorEntry(
    name="goodput_table",
    summary="K = argmax expected tokens / measured step seconds at this load",
    layer="D",
    source="vllm#32374, early commits; acceptance online and probing are ours",
    build=build,
    options={
        "count": COUNT_OPTION,
        "depths": '"measured" (default): only depths in the grid; "all": those between them too',
        "warmup_steps": "steps at k_max where the profile has no acceptance; default 10",
        "window_steps": "steps after which an observation has faded to 1/e; default 256",
        "prior_weight": "verifications that the profile's acceptance counts as; default 64",
        "probe_every": "decoding steps between probes of a deeper K; 0 = never; default 256",
    },
    changes_depth=True,
    needs_profile=True,
    warn=warn,
)
