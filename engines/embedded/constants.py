"""The named physical constants from which step times are computed: device, host, forward pass, drafter."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class HardwareSpec:
    """The device. `*_roof_*` is what the maker states, the other what a served forward reaches.

    roofline_sharpness  p of the smooth maximum (memory^p + compute^p)^(1/p), >= 1: 1 = the two never overlap,
                        large = the hard roofline max(memory, compute)
    matvec_max_tokens   up to so many tokens a forward runs on matrix-vector kernels; None = no such limit
    matmul_weight_factor  above that limit weights are read at this fraction of the bandwidth, (0, 1]
    """

    name: str
    memory_bandwidth_roof_bytes_per_s: float
    memory_bandwidth_bytes_per_s: float
    flops_roof_per_s: float
    flops_per_s: float
    roofline_sharpness: float
    matvec_max_tokens: int | None = None
    matmul_weight_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class HostSpec:
    """CPU time of one step, seconds at the median host level; the step takes max(device, level * host).

    step_s, request_s   scheduling, input preparation, sampling, output handling: per step, per request in it
    launch_full_s, launch_piecewise_s, launch_eager_s   launching the target's forward in each graph mode
    verify_s, verify_request_s   more of it in a step that verifies drafts (metadata, rejection sampling)
    draft_first_s, draft_next_s   launching the drafter's first and each further forward
    zero_depth_s        more of it when the drafter must run at depth 0 (penalty zero_depth_sync)
    level_sd, level_time_s   the host wanders: sd of log(level), its correlation time in engine seconds
    jitter_sd           sd of the log of what differs from step to step
    slack_level, slack_swing, slack_margin   a host that waits for its device runs at this level instead of 1
                        and wanders by this fraction; fully so when it is ahead by that fraction of its time
    """

    step_s: float
    request_s: float
    launch_full_s: float
    launch_piecewise_s: float
    launch_eager_s: float
    verify_s: float
    draft_first_s: float
    draft_next_s: float
    verify_request_s: float = 0.0
    zero_depth_s: float = 0.0
    level_sd: float = 0.0
    level_time_s: float = 1.0
    jitter_sd: float = 0.0
    slack_level: float = 1.0
    slack_swing: float = 1.0
    slack_margin: float = 0.15


@dataclass(frozen=True, slots=True)
class MoeSpec:
    """Routed experts. A forward of n tokens reads E (1 - (1 - active/E)^n) experts, E = `experts_effective`.

    `experts_effective` <= `experts`: routing concentrates; equal = uniform routing.
    `expert_bytes`: weights of one expert index summed over the layers.
    """

    experts: int
    experts_effective: float
    active: int
    expert_bytes: float


@dataclass(frozen=True, slots=True)
class ForwardSpec:
    """One forward pass of a model (the target, or the drafter).

    weight_bytes         read in every forward whatever the tokens (routed experts come on top)
    flops_per_token      2 x active parameters
    kv_bytes_per_token   read by attention for every context token
    kv_window_bytes_per_token, kv_window_tokens   more for each of its last so many tokens: layers with
                         sliding-window attention (Gemma 3 and 4: 1024 tokens); None = the model has none
    activation_bytes_per_token   moved for every token of the forward
    overhead_s, request_s   device time that no byte or FLOP explains: per forward, per request in it
    """

    weight_bytes: float
    flops_per_token: float
    kv_bytes_per_token: float
    activation_bytes_per_token: float
    overhead_s: float
    request_s: float = 0.0
    moe: MoeSpec | None = None
    kv_window_bytes_per_token: float = 0.0
    kv_window_tokens: int | None = None


class DraftShape(StrEnum):
    """How the cost of drafting K tokens grows with K."""

    SEQUENTIAL = "sequential"  # MTP, EAGLE: one forward a depth, the first over all tokens of the step
    BLOCK = "block"  # DFlash and kin: one forward proposes all K tokens
    NGRAM = "ngram"  # looked up in the text on the host: no forward, and no state to keep at K=0


@dataclass(frozen=True, slots=True)
class DrafterSpec:
    """The drafter: its cost shape, its forward, and what rejection sampling costs the device.

    A draft model of its own is sequential with a whole model's forward. An n-gram drafter has no forward,
    whatever stands here; its look-up is the host's `draft_first_s`.

    rejection_s, rejection_request_s   in a step that verifies drafts: once, and per decoding request
    """

    shape: DraftShape
    forward: ForwardSpec
    rejection_s: float = 0.0
    rejection_request_s: float = 0.0
