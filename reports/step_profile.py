"""A fit of step costs as the tables that governors read, and as TOML with the constants in comments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from governors.profile import Binding, Profile
from governors.telemetry import StepRecord
from reports.step_design import KNEE, MODES
from reports.step_fit import StepFit

MOST_BATCHES = 24


def profile_of(found: StepFit, binding: Binding, source: str, *, is_model: bool) -> Profile:
    """Tabulated over the batches and depths that were seen, in the graph mode that decoding mostly ran in.

    Context: the median KV blocks of a request. Acceptance: over all steps, by position.
    """
    steps = found.records
    batches = _thinned(sorted({step.batch for step in steps}))
    depths = sorted({step.depth_executed for step in steps})
    price = _Price(found, steps)
    tokens = sorted({b * (1 + k) for b in batches for k in depths})
    drafted = found.drafter_timed or found.seconds("draft_forward_s") + found.seconds("draft_token_s") > 0
    return Profile(
        binding=binding,
        batches=tuple(batches),
        depths=tuple(depths),
        step_s=tuple(
            tuple(price.target_s(b, b * (1 + k)) + price.draft_s(b, k) for k in depths) for b in batches
        ),
        verify_tokens=tuple(tokens) if drafted else (),
        verify_s=tuple(price.target_s(_fewest(n, depths[-1]), n) for n in tokens) if drafted else (),
        draft_s=tuple(price.draft_s(b, depths[-1]) for b in batches) if drafted else None,
        acceptance=_acceptance(steps),
        captured_tokens=(),
        source=f"{source}: {len(found.records)} steps, constants by least squares, held-out steps "
        f"{found.held_out_error(0.5):.1%} off in the median",
        is_model=is_model,
    )


class _Price:
    """Seconds of a steady decoding step from the fitted constants."""

    def __init__(self, found: StepFit, steps: Sequence[StepRecord]) -> None:
        modes = [step.graph_mode if step.graph_mode in MODES else "unknown" for step in steps]
        self._found = found
        self._mode = max(MODES, key=modes.count)
        used = [
            (step.kv_blocks_total - step.kv_blocks_free) / step.batch
            for step in steps
            if step.kv_blocks_total is not None and step.kv_blocks_free is not None
        ]
        self._blocks = float(np.median(used)) if used else 0.0

    def target_s(self, batch: int, tokens: int) -> float:
        """A step that runs `tokens` for `batch` requests, its drafter left out."""
        f = self._found.seconds
        per_request = f("request_s") + self._blocks * f("kv_block_s")
        once_s = f(f"overhead_{self._mode}_s") + (f("verify_s") if tokens > batch else 0.0)
        beyond = 0 if self._found.knee is None else max(0, tokens - self._found.knee)
        return once_s + batch * per_request + tokens * f("token_s") + beyond * f(KNEE)

    def draft_s(self, batch: int, depth: int) -> float:
        """Drafting `depth` tokens for each of `batch` requests after a step that verified as many."""
        if depth == 0:
            return 0.0
        f = self._found.seconds
        passes = 1 if self._found.block_drafter else depth
        tokens = batch * depth if self._found.block_drafter else batch * (1 + depth) + (depth - 1) * batch
        return passes * f("draft_forward_s") + tokens * f("draft_token_s")


def _fewest(tokens: int, depth: int) -> int:
    return -(-tokens // (depth + 1))


def _thinned(batches: Sequence[int]) -> list[int]:
    """At most MOST_BATCHES, the first and the last among them."""
    if len(batches) <= MOST_BATCHES:
        return list(batches)
    places = np.unique(np.linspace(0, len(batches) - 1, MOST_BATCHES).round().astype(int))
    return [batches[place] for place in places]


def _acceptance(steps: Sequence[StepRecord]) -> tuple[float, ...]:
    """Unconditional, by position: what of those that reached a position passed it, multiplied up.

    Steps may have verified to different depths. Ends before the first position that none reached.
    """
    positions = max((len(step.reached_by_position) for step in steps), default=0)
    reached, accepted = np.zeros(positions), np.zeros(positions)
    for step in steps:
        for at, (tried, passed) in enumerate(
            zip(step.reached_by_position, step.accepted_by_position, strict=False)
        ):
            reached[at] += tried
            accepted[at] += min(passed, tried)
    known = int(np.argmin(reached > 0)) if (reached == 0).any() else positions
    return tuple(float(share) for share in np.cumprod(accepted[:known] / reached[:known]))


def toml_text(profile: Profile, found: StepFit) -> str:
    """The profile as TOML (see Profile.from_mapping); constants and intervals stand in comments."""
    lines = ["# Step-cost constants, seconds (95 % interval within runs); the tables below are made of them."]
    for each in found.estimates:
        if each.seconds is None:
            lines.append(f"# {each.name}: unknown ({_one_line(each.why)})")
        else:
            lines.append(f"# {each.name} = {each.seconds:.6g} ({each.low:.4g} to {each.high:.4g})")
    lines += [] if found.knee is None else [f"# the knee lies at {found.knee} tokens a step"]
    mapping = profile.to_mapping()
    binding = mapping.pop("binding")
    lines += [f"{name} = {_value(value)}" for name, value in mapping.items() if value is not None]
    if isinstance(binding, Mapping):
        lines += ["", "[binding]", *(f"{name} = {_value(value)}" for name, value in binding.items())]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    """JSON's numbers, lists, booleans and ASCII strings are TOML's too, but for DEL."""
    return json.dumps(value, allow_nan=False).replace("\x7f", "\\u007f")


def _one_line(text: str) -> str:
    return " ".join(text.split())
