"""A profile small enough to work out a step by hand: 100 bytes/s, 1000 FLOP/s, no overlap of the two."""

from __future__ import annotations

from dataclasses import replace

from engines.embedded.constants import DrafterSpec, DraftShape, ForwardSpec, HardwareSpec, HostSpec
from engines.embedded.cost import StepShape
from engines.embedded.profile import EngineProfile
from engines.embedded.specs import AcceptanceSpec, PenaltySpec, SchedulerSpec
from governors.profile import Binding

TINY = EngineProfile(
    name="tiny",
    summary="for tests",
    k_max=3,
    reference_context_tokens=10,
    binding=Binding("abacus", "tiny", "eagle", "none"),
    hardware=HardwareSpec("abacus", 100, 100, 1000, 1000, roofline_sharpness=1),
    host=HostSpec(
        step_s=0.1,
        request_s=0.01,
        launch_full_s=0.2,
        launch_piecewise_s=1.0,
        launch_eager_s=5.0,
        verify_s=0.05,
        verify_request_s=0.02,
        draft_first_s=0.1,
        draft_next_s=0.05,
    ),
    target=ForwardSpec(200, 10, 1, 2, overhead_s=0.5, request_s=0.25),
    drafter=DrafterSpec(DraftShape.SEQUENTIAL, ForwardSpec(20, 1, 0, 0, 0.1), 0.03, 0.01),
    scheduler=SchedulerSpec(8, 64, 128, 16, 64),
    acceptance=AcceptanceSpec({"default": (0.8, 0.6, 0.4)}),
    penalties=PenaltySpec(capture_sizes=(1, 2, 4, 8)),
)


def decode(batch: int, depth: int, context: int = 30, **changes: object) -> StepShape:
    """A steady decoding step of `batch` requests with `context` tokens each; a drafter is loaded."""
    shape = StepShape(
        decode_requests=batch,
        decode_tokens=batch * (depth + 1),
        decode_uniform=True,
        prefill_requests=0,
        prefill_tokens=0,
        context_tokens=batch * context,
        prefill_context_tokens=0,
        depth_next=depth,
        draft_requests=batch,
        depth_changed=False,
        schedule_armed=False,
        speculative=True,
    )
    return replace(shape, **changes)  # type: ignore[arg-type]
