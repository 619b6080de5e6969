"""ema_ladder: SGLang's adaptive depth, up and down a ladder after a moving average of accepted drafts.

Source: SGLang adaptive_spec_params.py. Margins, ladders and constants are its own; `hold_updates` is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from governors.contract import DepthDecision, DepthLimits, Reason, StepObservation, StepOutcome
from governors.entry import GovernorContext, GovernorEntry, Options
from governors.load import decodes
from governors.options import OptionReader
from governors.reasons import reason_for

LADDERS = ((1, (1, 3, 5, 7)), (8, (0, 1, 3)), (32, (0, 1)), (64, (0,)))
_FORM = "give [[batch, [K, ...]], ...], batches and depths rising, the first batch 1"


@dataclass(frozen=True, slots=True)
class LadderRule:
    """When a rung is left. `alpha`: weight of the newest step. `up`, `down`: margins in drafts; with 0 and 0
    nothing lies between rising to a rung and dropping from it."""

    alpha: float
    up: float
    down: float
    update_every: int
    warmup_steps: int
    hold_updates: int


class Ladder:
    """The depths of one range of batches, where it stands, and the average accepted there.

    K rises a rung when more than cur - 0.5 + up drafts a request are accepted, and drops one at no more than
    previous - 0.5 + down. At K=0 nothing can be observed: the next update probes the smallest K above.
    After a drop K does not rise for `hold_updates` updates.
    """

    def __init__(self, depths: Sequence[int], rule: LadderRule, start: int) -> None:
        self._depths = tuple(depths)
        self._rule = rule
        self._at = max((i for i, depth in enumerate(depths) if depth <= start), default=0)
        self._average: float | None = None
        self._steps = 0
        self._held = 0

    @property
    def depth(self) -> int:
        return self._depths[self._at]

    def observe(self, accepted: float | None) -> None:
        """One decoding step; `accepted`: mean over the requests that verified drafts, None without any."""
        rule = self._rule
        if accepted is not None:
            before = accepted if self._average is None else self._average
            self._average = before + rule.alpha * (accepted - before)
        self._steps += 1
        if self._steps >= rule.warmup_steps and self._steps % rule.update_every == 0:
            self._update()

    def _update(self) -> None:
        held, self._held = self._held, max(self._held - 1, 0)
        if self.depth == 0:
            self._at = min(self._at + 1, len(self._depths) - 1)
        elif self._average is None:
            return
        elif self._average > self.depth - 0.5 + self._rule.up and not held:
            self._at = min(self._at + 1, len(self._depths) - 1)
        elif self._at > 0 and self._average <= self._depths[self._at - 1] - 0.5 + self._rule.down:
            self._at -= 1
            self._held = self._rule.hold_updates


class EmaLadder:
    """A ladder for each range of decoding batches, each with an average of its own."""

    def __init__(self, ladders: Mapping[int, Ladder]) -> None:
        self._ladders = dict(sorted(ladders.items()))
        self._before: int | None = None

    def decide(self, observation: StepObservation) -> DepthDecision:
        depth = self._ladder(decodes(observation)).depth
        probed = self._before == 0 and depth > 0
        reason = Reason.PROBED if probed else reason_for(self._before, depth)
        self._before = depth
        return DepthDecision(observation.limits.k_max, depth, reason)

    def observe(self, outcome: StepOutcome) -> None:
        if len(outcome.accepted) == 0:
            return
        verifying = outcome.accepted[outcome.verified > 0]
        accepted = float(verifying.mean()) if len(verifying) else None
        self._ladder(len(outcome.accepted)).observe(accepted)

    def _ladder(self, batch: int) -> Ladder:
        return self._ladders[max(low for low in self._ladders if low <= batch)]


def parse_ladders(reader: OptionReader, k_max: int) -> dict[int, tuple[int, ...]]:
    """Option `ladders`: lowest batch -> depths, those above k_max left out."""
    given = reader.options.get("ladders", LADDERS)
    if not isinstance(given, list | tuple) or not given:
        raise reader.refuse("ladders", given, _FORM)
    ladders = dict(_ladder_of(reader, entry) for entry in given)
    if len(ladders) < len(given) or list(ladders) != sorted(ladders) or next(iter(ladders)) != 1:
        raise reader.refuse("ladders", given, _FORM)
    kept = {low: tuple(depth for depth in depths if depth <= k_max) for low, depths in ladders.items()}
    for low, depths in kept.items():
        if not depths:
            mend = f"no depth of batch {low} is within k_max={k_max}; add one, or raise k_max"
            raise reader.refuse("ladders", given, mend)
    return kept


def _ladder_of(reader: OptionReader, entry: object) -> tuple[int, tuple[int, ...]]:
    if not isinstance(entry, list | tuple) or len(entry) != 2 or not isinstance(entry[1], list | tuple):
        raise reader.refuse("ladders", entry, _FORM)
    low, depths = entry[0], tuple(entry[1])
    whole = all(isinstance(item, int) and not isinstance(item, bool) for item in (low, *depths))
    if not whole or not depths or low < 1 or depths[0] < 0 or any(b <= a for a, b in pairwise(depths)):
        raise reader.refuse("ladders", entry, _FORM)
    return low, depths


def build(options: Options, context: GovernorContext) -> EmaLadder:
    reader = OptionReader("ema_ladder", options)
    rule = LadderRule(
        alpha=reader.number("alpha", 0.2, 0.0, 1.0),
        up=reader.number("up", 0.0, -10.0, 10.0),
        down=reader.number("down", -0.25, -10.0, 10.0),
        update_every=reader.integer("update_every", 5, 1, 1_000_000),
        warmup_steps=reader.integer("warmup_steps", 10, 0, 1_000_000),
        hold_updates=reader.integer("hold_updates", 0, 0, 1_000_000),
    )
    start = reader.integer("start", 3, 0, 1_000_000)
    ladders = parse_ladders(reader, context.limits.k_max)
    return EmaLadder({low: Ladder(depths, rule, start) for low, depths in ladders.items()})


def ladder_depths(options: Options, limits: DepthLimits) -> frozenset[int]:
    build(options, GovernorContext(limits))
    ladders = parse_ladders(OptionReader("ema_ladder", options), limits.k_max)
    return frozenset(depth for depths in ladders.values() for depth in depths)


ENTRY = GovernorEntry(
    name="ema_ladder",
    summary="up and down a ladder of depths after a moving average of accepted drafts",
    layer="D",
    source="SGLang adaptive_spec_params.py; hold_updates is ours",
    build=build,
    options={
        "ladders": "[[lowest batch, [K, ...]], ...]; default [[1,[1,3,5,7]],[8,[0,1,3]],[32,[0,1]],[64,[0]]]",
        "start": "K to begin with, or the next rung below it; default 3",
        "alpha": "weight of the newest step in the average, 0..1; default 0.2",
        "up": "rise above cur - 0.5 + up accepted drafts; default 0",
        "down": "drop at previous - 0.5 + down and below; default -0.25; up = down = 0: no dead band",
        "update_every": "decoding steps between updates; default 5",
        "warmup_steps": "decoding steps before the first update; default 10",
        "hold_updates": "back-off: updates after a drop in which K may not rise; default 0",
    },
    changes_depth=True,
    depths=ladder_depths,
)
