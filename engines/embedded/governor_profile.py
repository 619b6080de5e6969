"""The cost model tabulated for policies: an EngineProfile becomes a governors' Profile, marked as a model."""

from __future__ import annotations

from engines.embedded.cost import StepShape
from engines.embedded.profile import EngineProfile
from engines.embedded.roofline import RooflineCost, decode_shape
from governors.profile import Profile

_BATCHES = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
_DENSE_SIZES = 8  # so few captured sizes leave holes: the grid then has points at every one of them


def governor_profile(profile: EngineProfile, *, armed: bool = True) -> Profile:
    """Mean step times of the model over batches and depths, at the profile's reference context.

    `armed`: the policy may change K, so that the engine pays for an armed schedule (a policy that reads this
    does). The batches carry points on both sides of where (K+1) x batch leaves the captured sizes, and the
    verify axis one at every captured size and one above it. `verify_s` is a step without its drafter, with
    windows that differ between requests, for the fewest requests that hold so many tokens.
    """
    cost = RooflineCost(profile)
    depths = tuple(range(profile.k_max + 1))
    batches = _batches(profile)
    tokens = _verify_tokens(profile)
    return Profile(
        binding=profile.binding,
        batches=batches,
        depths=depths,
        step_s=tuple(
            tuple(cost.expected(_steady(profile, b, k, armed)).step_s for k in depths) for b in batches
        ),
        verify_tokens=tokens,
        verify_s=tuple(cost.expected(_verify_shape(profile, n, armed)).step_s for n in tokens),
        draft_s=tuple(cost.expected(_steady(profile, b, profile.k_max, armed)).draft_s for b in batches),
        acceptance=profile.acceptance.by_class["default"][: profile.k_max],
        captured_tokens=profile.penalties.capture_sizes or (),
        source=f"embedded engine, profile {profile.name}: a model, tabulated at "
        f"{profile.reference_context_tokens} context tokens a request",
        is_model=True,
    )


def _steady(profile: EngineProfile, batch: int, depth: int, armed: bool) -> StepShape:
    return decode_shape(batch, depth, batch * profile.reference_context_tokens, armed=armed, speculative=True)


def _verify_shape(profile: EngineProfile, tokens: int, armed: bool) -> StepShape:
    requests = -(-tokens // (profile.k_max + 1))
    return StepShape(
        decode_requests=requests,
        decode_tokens=tokens,
        decode_uniform=False,
        prefill_requests=0,
        prefill_tokens=0,
        context_tokens=requests * profile.reference_context_tokens,
        prefill_context_tokens=0,
        depth_next=0,
        draft_requests=0,
        depth_changed=False,
        schedule_armed=armed,
        speculative=False,
    )


def _edges(profile: EngineProfile) -> tuple[int, ...]:
    """Token counts after which the cost jumps in a way that no interpolation bridges."""
    sizes = profile.penalties.capture_sizes or ()
    coarse = sizes if len(sizes) <= _DENSE_SIZES or not profile.penalties.capture_padding else sizes[-1:]
    limit = profile.hardware.matvec_max_tokens
    return (*coarse, *(() if limit is None else (limit,)))


def _batches(profile: EngineProfile) -> tuple[int, ...]:
    """c = g/(1+K) and its neighbours, for every edge g and depth K, on top of a plain grid."""
    most = profile.scheduler.max_num_seqs
    found = {batch for batch in _BATCHES if batch < most} | {most}
    for edge in _edges(profile):
        for depth in range(profile.k_max + 1):
            at = edge // (depth + 1)
            found |= {batch for batch in (at - 1, at, at + 1) if 1 <= batch <= most}
    return tuple(sorted(found))


def _verify_tokens(profile: EngineProfile) -> tuple[int, ...]:
    most = profile.scheduler.max_num_seqs * (profile.k_max + 1)
    edges = {*(profile.penalties.capture_sizes or ()), *_edges(profile)}
    found = {1, 2, most, *edges, *(edge + 1 for edge in edges)}
    found |= {1 << power for power in range(most.bit_length())}
    return tuple(sorted(count for count in found if count <= most))
