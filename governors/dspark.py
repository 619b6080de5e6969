"""dspark: a verify window for each request, admitted by survival until the step's throughput stops rising.

Source: DSpark, arXiv:2607.05147, Algorithm 1.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from governors.admission import Admission, Stop, first_peak
from governors.contract import DepthDecision, DepthLimits, Reason, StepObservation, StepOutcome
from governors.cost import StaircaseCost, draft_seconds
from governors.entry import GovernorContext, GovernorEntry, Options
from governors.options import OptionReader
from governors.rest import Rest
from governors.survival import SurvivalModel

PREFILL_TOKENS: Final = 16_384  # priced ahead; a step with more is priced when it comes

OPTIONS = {
    "unknown_acceptance": "acceptance where confidence, history and profile have none; default 0.7",
    "history_weight": "verifications a prior counts as where history replaces confidence; default 8",
    "probe_every": "steps trimmed without confidence, or at rest, between probes; 0 = never; default 256",
    "rest_after": "steps running without an admitted draft before drafting stops; default 0 = draft always",
}


class DSpark:
    """Windows by `stop` over Theta(n) = tau / seconds(n); see governors.admission.

    seconds(n) is the profile's verify staircase at the step's tokens, prefill included, plus the drafter's
    time at this batch. A block drafter costs the same at any depth, so depth_next stays k_max (but see
    governors.rest). Acceptance history stands in for confidence that is missing; what is trimmed then is not
    observed, so one in `probe_every` such steps verifies all drafts in hand (reason probed).
    Without a usable cost table everything is verified (reason no-model).
    reasons: steady = all verified, backed-off = some trimmed, overloaded = all trimmed.
    """

    def __init__(self, governor: str, options: Options, context: GovernorContext, stop: Stop) -> None:
        reader = OptionReader(governor, options)
        limits, profile = context.limits, context.profile
        self._admission = Admission(stop)
        self._cost = StaircaseCost(profile, limits.max_num_seqs * (limits.k_max + 1) + PREFILL_TOKENS)
        self._draft_s = draft_seconds(profile, limits)
        self._model = SurvivalModel(
            profile.acceptance if profile else (),
            limits.k_max,
            unknown=reader.number("unknown_acceptance", 0.7, 0.0, 1.0),
            weight=reader.number("history_weight", 8.0, 0.001, 1e9),
        )
        self._probe_every = reader.integer("probe_every", 256, 0, 1_000_000)
        self._rest = Rest(reader.integer("rest_after", 0, 0, 1_000_000), self._probe_every)
        self._blind_steps = 0

    def decide(self, observation: StepObservation) -> DepthDecision:
        k_max, batch = observation.limits.k_max, observation.batch
        if not self._cost.usable:
            return DepthDecision(k_max, k_max, Reason.NO_MODEL)
        survival = self._model.survival(observation)
        drafts = survival.drafts
        if self._blind_probe(survival.blind):
            return DepthDecision(k_max, k_max, Reason.PROBED)
        base = batch + observation.prefill_tokens
        seconds = self._cost.between(base, base + drafts) + self._draft_s[min(batch, len(self._draft_s) - 1)]
        windows = self._admission.windows(survival.table, drafts, seconds)
        admitted = int(np.add.reduce(windows))
        draws = self._rest.drafts_next(batch, drafts, admitted)
        return DepthDecision(windows, k_max if draws else 0, self._reason(drafts, admitted, draws))

    def observe(self, outcome: StepOutcome) -> None:
        """Nothing to learn: confidence and history arrive with every observation."""

    def _blind_probe(self, blind: bool) -> bool:
        self._blind_steps += blind
        if not self._probe_every or self._blind_steps < self._probe_every:
            return False
        self._blind_steps = 0
        return True

    def _reason(self, drafts: int, admitted: int, draws: bool) -> Reason:
        if self._rest.probing:
            return Reason.PROBED
        if admitted == drafts:
            return Reason.STEADY if draws else Reason.OVERLOADED
        return Reason.BACKED_OFF if admitted else Reason.OVERLOADED


def build(options: Options, context: GovernorContext) -> DSpark:
    return DSpark("dspark", options, context, first_peak)


def rests(options: Options) -> bool:
    """With `rest_after` the policy may go to K=0; without it K never changes."""
    return options.get("rest_after", 0) != 0


def depths(options: Options, limits: DepthLimits) -> frozenset[int]:
    return frozenset((0, limits.k_max) if rests(options) else (limits.k_max,))


def cost_warnings(governor: str, context: GovernorContext) -> tuple[str, ...]:
    """A table that cannot price a step, or one fitted with other graph sizes than the engine's."""
    profile, captured = context.profile, context.limits.captured_tokens
    if profile is None:
        return ()
    if not StaircaseCost(profile, 0).usable:
        return (f"{governor}: verify_s of the profile is empty or flat: it verifies all (reason no-model)",)
    if captured and profile.captured_tokens and captured[-1] != profile.captured_tokens[-1]:
        theirs = profile.captured_tokens[-1]
        return (f"{governor}: fitted with {theirs} captured tokens, but the engine has {captured[-1]}",)
    return ()


def warn(options: Options, context: GovernorContext) -> tuple[str, ...]:
    return cost_warnings("dspark", context)


ENTRY = GovernorEntry(
    name="dspark",
    summary="per-request windows: admit drafts by survival as long as tokens a second rise",
    layer="C",
    source="DSpark, arXiv:2607.05147, Algorithm 1; rest, probing and the history fallback are ours",
    build=build,
    options=OPTIONS,
    needs_profile=True,
    warn=warn,
    changes_depth_if=rests,
    depths=depths,
)
