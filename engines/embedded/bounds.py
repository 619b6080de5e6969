"""What a profile's constants may be: physical bounds, each refused in one line with its mend."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from engines.embedded.constants import ForwardSpec, HardwareSpec
from engines.embedded.specs import AcceptanceSpec, PenaltySpec, SchedulerSpec
from governors.profile import ProfileError

if TYPE_CHECKING:
    from engines.embedded.profile import EngineProfile

_SIGNED = {"acceptance.batch_slope", "acceptance.confidence.bias", "acceptance.confidence.slope"}
_POSITIVE = {
    "k_max",
    "reference_context_tokens",
    "hardware.memory_bandwidth_roof_bytes_per_s",
    "hardware.memory_bandwidth_bytes_per_s",
    "hardware.flops_roof_per_s",
    "hardware.flops_per_s",
    "hardware.matvec_max_tokens",
    "hardware.matmul_weight_factor",
    "host.level_time_s",
    "host.slack_level",
    "host.slack_margin",
    "acceptance.drift_tokens",
}
# (end of a constant's path, least, most), the first that fits counts: wider than anything that was measured,
# and so narrow that no time, count or logit made of them leaves its type.
_RANGES: tuple[tuple[str, float, float], ...] = (
    ("level_sd", 0, 3),
    ("jitter_sd", 0, 3),
    ("slack_level", 1e-3, 1e3),
    ("slack_swing", 0, 1),
    ("slack_margin", 1e-3, 1e3),
    ("level_time_s", 1e-6, 1e6),
    ("bandwidth_roof_bytes_per_s", 1, 1e18),
    ("bandwidth_bytes_per_s", 1, 1e18),
    ("flops_roof_per_s", 1, 1e24),
    ("flops_per_s", 1, 1e24),
    ("roofline_sharpness", 0, 1e3),
    ("matmul_weight_factor", 1e-3, 1),
    ("acceptance.spread", 0, 5),
    ("acceptance.drift", 0, 5),
    ("acceptance.batch_slope", -5, 5),
    ("confidence.slope", -5, 5),
    ("confidence.bias", -40, 40),
    ("confidence.noise", 0, 5),
    ("k_max", 1, 1000),
    ("max_num_seqs", 0, 100_000),
    ("_bytes", 0, 1e15),
    ("bytes_per_token", 0, 1e12),
    ("flops_per_token", 0, 1e18),
    ("_s", 0, 1e3),
    ("", 0, 1e9),  # counts: tokens, blocks, experts
)
_MOST_CAPTURED = 1_000_000  # tokens of a graph
_MOST_LOGIT = 40.0  # beyond it acceptance is 0 or 1 in floats
_MOST_COURSE_S = 1e9


def check_profile(profile: EngineProfile) -> None:
    """Raises ProfileError at the first constant out of bounds."""
    for path, value in _numbers(profile, ""):
        if value < 0 and path not in _SIGNED:
            raise ProfileError(f"{path} = {value:g}: negative; write a number >= 0")
        if value == 0 and path in _POSITIVE:
            raise ProfileError(f"{path} = 0: must be above 0; write a positive number")
        _check_range(path, value)
    _check_hardware(profile.hardware)
    for where, forward in (("target", profile.target), ("drafter.forward", profile.drafter.forward)):
        _check_forward(forward, where)
    _check_scheduler(profile.scheduler)
    _check_acceptance(profile.acceptance, profile.k_max)
    _check_penalties(profile.penalties, profile.k_max)


def _check_range(path: str, value: float) -> None:
    least, most = next(ends[1:] for ends in _RANGES if path.endswith(ends[0]))
    if value < least:
        raise ProfileError(f"{path} = {value:g}: must be at least {least:g}")
    if value > most:
        raise ProfileError(f"{path} = {value:g}: must be at most {most:g}")


def _numbers(spec: object, prefix: str) -> Iterator[tuple[str, float]]:
    for item in dataclasses.fields(spec):  # type: ignore[arg-type]
        value, path = getattr(spec, item.name), f"{prefix}{item.name}"
        if dataclasses.is_dataclass(value):
            yield from _numbers(value, f"{path}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield path, value


def _check_hardware(hardware: HardwareSpec) -> None:
    for name, unit in (("memory_bandwidth", "bytes_per_s"), ("flops", "per_s")):
        reached, roof = getattr(hardware, f"{name}_{unit}"), getattr(hardware, f"{name}_roof_{unit}")
        if reached > roof:
            raise ProfileError(
                f"hardware.{name}_{unit} = {reached:g}: above the roof {roof:g}; nothing is faster than that"
            )
    if hardware.roofline_sharpness < 1:
        raise ProfileError(
            f"hardware.roofline_sharpness = {hardware.roofline_sharpness:g}: must be >= 1; 1 = no overlap"
        )


def _check_forward(forward: ForwardSpec, where: str) -> None:
    if forward.moe is None:
        return
    if not forward.moe.active <= forward.moe.experts_effective <= forward.moe.experts:
        raise ProfileError(
            f"{where}.moe.experts_effective = {forward.moe.experts_effective:g}: "
            f"must lie between active = {forward.moe.active} and experts = {forward.moe.experts}"
        )
    if forward.moe.active < 1:
        raise ProfileError(
            f"{where}.moe.active = {forward.moe.active}: must be >= 1; drop [{where}.moe] if dense"
        )


def _check_scheduler(scheduler: SchedulerSpec) -> None:
    for item in dataclasses.fields(scheduler):
        value = getattr(scheduler, item.name)
        if value < 1:
            raise ProfileError(
                f"scheduler.{item.name} = {value}: must be >= 1; write a positive whole number"
            )


def _check_acceptance(acceptance: AcceptanceSpec, k_max: int) -> None:
    _check_course(acceptance.course)
    if "default" not in acceptance.by_class:
        raise ProfileError("acceptance.by_class.default: missing; it serves the classes that are not listed")
    for name, rates in acceptance.by_class.items():
        where = f"acceptance.by_class.{name}"
        if any(not 0 <= rate <= 1 for rate in rates):
            raise ProfileError(f"{where} = {list(rates)}: acceptance lies in 0..1; write fractions")
        if any(later > earlier for earlier, later in pairwise(rates)):
            raise ProfileError(
                f"{where} = {list(rates)}: unconditional acceptance never rises with position; sort it out"
            )
        if len(rates) < k_max:
            raise ProfileError(
                f"{where}: {len(rates)} positions for k_max = {k_max}; add positions or lower k_max"
            )


def _check_course(course: tuple[tuple[float, float], ...]) -> None:
    where = f"acceptance.course = {[list(point) for point in course]}"
    if any(len(point) != 2 for point in course):
        raise ProfileError(f"{where}: points of [seconds, logit]; write [[0, 0.0], [60, -1.5]]")
    if any(later[0] <= earlier[0] for earlier, later in pairwise(course)):
        raise ProfileError(f"{where}: its seconds must ascend; sort them, without repeats")
    if any(abs(at_s) > _MOST_COURSE_S or abs(logit) > _MOST_LOGIT for at_s, logit in course):
        raise ProfileError(f"{where}: at most {_MOST_COURSE_S:g} s and {_MOST_LOGIT:g} logits; lower them")


def _check_penalties(penalties: PenaltySpec, k_max: int) -> None:
    sizes = penalties.capture_sizes or ()
    if any(size < 1 for size in sizes) or any(later <= earlier for earlier, later in pairwise(sizes)):
        raise ProfileError(
            f"penalties.capture_sizes = {list(sizes)}: must rise from 1 up; sort them, without repeats"
        )
    if any(tokens < 1 for tokens in penalties.full_holes):
        raise ProfileError(
            f"penalties.full_holes = {list(penalties.full_holes)}: tokens of a step, from 1 up"
        )
    for name, found in (("capture_sizes", sizes), ("full_holes", penalties.full_holes)):
        if found and max(found) > _MOST_CAPTURED:
            raise ProfileError(f"penalties.{name}: {max(found)} tokens; must be at most {_MOST_CAPTURED}")
    if penalties.drafter_starvation > 1:
        raise ProfileError(
            f"penalties.drafter_starvation = {penalties.drafter_starvation:g}: a factor in 0..1; 1 = none"
        )
    if penalties.policy_ignored is not None and penalties.policy_ignored > k_max:
        raise ProfileError(
            f"penalties.policy_ignored = {penalties.policy_ignored}: above k_max = {k_max}; lower it"
        )
