"""An arm put together: profile, governor and options become a step machine, for either clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engines.contract import EngineError
from engines.embedded.core import CoreSpec, EngineCore
from engines.embedded.governor_profile import governor_profile
from engines.embedded.guard import GuardedGovernor
from engines.embedded.observation_log import RecordingGovernor
from engines.embedded.profile import EngineProfile, ProfileError, apply_options, load_profile
from engines.embedded.roofline import RooflineCost
from governors.contract import DepthLimits
from governors.entry import GovernorContext, GovernorError
from governors.registry import build_governor, changes_depth, governor_entry, governor_warnings

_REFUSAL_STATUSES = (429, 503)


@dataclass(frozen=True, slots=True)
class RefusalSpec:
    """The server says `status` instead of queueing once `above` requests run or wait."""

    above: int
    status: int = 429


@dataclass(frozen=True, slots=True, eq=False)
class Assembled:
    """One arm, ready to step. `warnings`: what the options do silently, one sentence each."""

    core: EngineCore
    profile: EngineProfile
    guard: GuardedGovernor
    warnings: tuple[str, ...]
    refusal: RefusalSpec | None
    recorder: RecordingGovernor | None

    @property
    def kv_tokens(self) -> int:
        """Tokens of the longest request that the whole KV cache holds, room for drafts left out."""
        spec = self.core.spec
        drafts = 2 * spec.k_max if spec.speculative else 0
        return spec.scheduler.kv_blocks * spec.scheduler.block_size - drafts


def assemble(
    profile_name: str,
    governor: str,
    options: Mapping[str, object],
    engine_options: Mapping[str, object],
    seed: int = 0,
    trace_path: Path | None = None,
) -> Assembled:
    """A fresh engine. The same arguments give the same run in virtual time, bit for bit.

    `engine_options`: overrides of the profile (see `apply_options`), and `refuse_above = N` with
    `refuse_status = 429 | 503`. `trace_path`: where to keep what the governor saw, for `depthgate replay`.
    Raises EngineError for an unknown name or a bad value, in one line; OSError for a trace that cannot be
    kept.
    """
    try:
        refusal, overrides = _split_refusal(engine_options)
        profile = apply_options(load_profile(profile_name), overrides)
        entry = governor_entry(governor)
        armed = changes_depth(governor, options)
        context = _context(profile, seed, armed=armed)
        policy = build_governor(governor, options, context)
        warnings = governor_warnings(governor, options, context)
    except (ProfileError, GovernorError) as error:
        raise EngineError(str(error)) from error
    recorder = RecordingGovernor(policy, trace_path) if trace_path is not None else None
    guard = GuardedGovernor(recorder or policy, governor, profile.k_max)
    spec = CoreSpec(
        scheduler=profile.scheduler,
        acceptance=profile.acceptance,
        penalties=profile.penalties,
        k_max=profile.k_max,
        speculative=entry.speculative,
        schedule_armed=armed,
        seed=seed,
    )
    core = EngineCore(spec, RooflineCost(profile, seed), guard)
    return Assembled(core, profile, guard, warnings, refusal, recorder)


def _context(profile: EngineProfile, seed: int, *, armed: bool) -> GovernorContext:
    """What a governor may know: the engine's limits, and the cost model's own step times (marked a model)."""
    limits = DepthLimits(profile.k_max, profile.scheduler.max_num_seqs, profile.penalties.capture_sizes or ())
    return GovernorContext(
        limits, seed, governor_profile(profile, armed=armed), profile.binding.drafter_class
    )


def _split_refusal(
    engine_options: Mapping[str, object],
) -> tuple[RefusalSpec | None, dict[str, object]]:
    rest = dict(engine_options)
    above, status = rest.pop("refuse_above", None), rest.pop("refuse_status", None)
    if status is not None and status not in _REFUSAL_STATUSES:
        raise EngineError(f"refuse_status = {status!r}: must be 429 or 503")
    if above is None:
        if status is not None:
            raise EngineError(f"refuse_status = {status!r} without refuse_above: add refuse_above = N")
        return None, rest
    if isinstance(above, bool) or not isinstance(above, int) or above < 1:
        raise EngineError(
            f"refuse_above = {above!r}: must be a whole number of at least 1 (running + waiting)"
        )
    return RefusalSpec(above, 429 if status is None else int(str(status))), rest
