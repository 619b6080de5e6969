"""Step times from named constants: roofline of the device, launch costs of the host, the larger wins."""

from __future__ import annotations

import math
from bisect import bisect_left
from random import Random

from engines.embedded.constants import DraftShape, ForwardSpec, HardwareSpec, HostSpec
from engines.embedded.cost import StepCost, StepShape
from engines.embedded.profile import EngineProfile
from engines.embedded.specs import PenaltySpec
from governors.contract import GraphMode


class ForwardTime:
    """Device seconds of one forward pass: overhead + smooth maximum of memory and compute time."""

    __slots__ = (
        "_compute_s",
        "_kv_s",
        "_limit",
        "_moe",
        "_overhead_s",
        "_p",
        "_request_s",
        "_slow",
        "_token_s",
        "_weight_s",
        "_window",
        "_window_s",
    )

    def __init__(self, spec: ForwardSpec, hardware: HardwareSpec) -> None:
        bandwidth = hardware.memory_bandwidth_bytes_per_s
        self._weight_s = spec.weight_bytes / bandwidth
        self._kv_s = spec.kv_bytes_per_token / bandwidth
        self._window, self._window_s = spec.kv_window_tokens, spec.kv_window_bytes_per_token / bandwidth
        self._token_s = spec.activation_bytes_per_token / bandwidth
        self._compute_s = spec.flops_per_token / hardware.flops_per_s
        self._overhead_s = spec.overhead_s
        self._request_s = spec.request_s
        self._p = hardware.roofline_sharpness
        self._limit = math.inf if hardware.matvec_max_tokens is None else hardware.matvec_max_tokens
        self._slow = 1.0 / hardware.matmul_weight_factor
        self._moe = None
        if spec.moe is not None:
            experts = spec.moe.experts_effective
            self._moe = (experts * spec.moe.expert_bytes / bandwidth, 1.0 - spec.moe.active / experts)

    def seconds(self, tokens: int, requests: int, context_tokens: int) -> float:
        """`tokens` of `requests` whose attention reads `context_tokens` in all."""
        weights_s = self._weight_s
        if self._moe is not None:
            all_experts_s, missed = self._moe
            weights_s += all_experts_s * (1.0 - missed**tokens)
        if tokens > self._limit:
            weights_s *= self._slow
        memory_s = weights_s + self._kv_s * context_tokens + self._token_s * tokens
        if self._window is not None:
            memory_s += self._window_s * min(context_tokens, requests * self._window)
        return (
            self._overhead_s
            + self._request_s * requests
            + self._smooth_max(memory_s, self._compute_s * tokens)
        )

    def _smooth_max(self, memory_s: float, compute_s: float) -> float:
        if self._p == 1.0:
            return memory_s + compute_s
        high, low = (memory_s, compute_s) if memory_s >= compute_s else (compute_s, memory_s)
        if high == 0.0:
            return 0.0
        return float(high * (1.0 + (low / high) ** self._p) ** (1.0 / self._p))


class Graphs:
    """Which graph a step runs in, and how many tokens it is padded to."""

    __slots__ = ("_downgrade", "_holes", "_padding", "_sizes")

    def __init__(self, penalties: PenaltySpec) -> None:
        self._sizes = penalties.capture_sizes
        self._padding = penalties.capture_padding
        self._holes = frozenset(penalties.full_holes)
        self._downgrade = penalties.piecewise_downgrade

    def mode(self, shape: StepShape) -> tuple[GraphMode, int]:
        """The mode and the tokens that the target really runs; eager steps are not padded."""
        tokens = shape.decode_tokens + shape.prefill_tokens
        hole = tokens in self._holes
        if self._sizes is not None:
            at = bisect_left(self._sizes, tokens)
            if at == len(self._sizes) or (not self._padding and self._sizes[at] != tokens):
                return GraphMode.NONE, tokens
            tokens = self._sizes[at]
        downgraded = self._downgrade and shape.schedule_armed
        if shape.prefill_tokens or not shape.decode_uniform or downgraded or hole:
            return GraphMode.PIECEWISE, tokens
        return GraphMode.FULL, tokens


class HostTime:
    """CPU seconds of one step at the median host level."""

    __slots__ = ("_host", "_launch")

    def __init__(self, host: HostSpec) -> None:
        self._host = host
        self._launch = {
            GraphMode.FULL: host.launch_full_s,
            GraphMode.PIECEWISE: host.launch_piecewise_s,
            GraphMode.NONE: host.launch_eager_s,
        }

    def seconds(self, shape: StepShape, mode: GraphMode, draft_forwards: int) -> float:
        """`draft_forwards`: drafter passes launched after the target."""
        host = self._host
        total = (
            host.step_s
            + host.request_s * (shape.decode_requests + shape.prefill_requests)
            + self._launch[mode]
        )
        if shape.decode_tokens > shape.decode_requests:
            total += host.verify_s + host.verify_request_s * shape.decode_requests
        if draft_forwards:
            total += host.draft_first_s + host.draft_next_s * (draft_forwards - 1)
            if shape.depth_next == 0:
                total += host.zero_depth_s
        return total


class HostLevel:
    """The host's speed as it wanders: log(level) is AR(1) in engine time plus a jitter each step.

    A host with slack is steadier and faster than a busy one: see HostSpec.slack_level.
    """

    __slots__ = ("_jitter_sd", "_log_slack", "_margin", "_random", "_sd", "_slow", "_swing", "_time_s")

    def __init__(self, host: HostSpec, seed: int) -> None:
        self._random = Random(seed)
        self._sd, self._time_s, self._jitter_sd = host.level_sd, host.level_time_s, host.jitter_sd
        self._slow = self._random.gauss(0.0, 1.0) * self._sd
        self._log_slack, self._swing = math.log(host.slack_level), host.slack_swing
        self._margin = host.slack_margin

    def step_s(self, device_s: float, host_s: float) -> float:
        """The larger of the two, the host at the level of this step."""
        median_s, swing = self._with_slack(device_s, host_s)
        log_level = self._slow + self._jitter_sd * self._random.gauss(0.0, 1.0)
        return max(device_s, median_s * math.exp(swing * log_level))

    def expected_step_s(self, device_s: float, host_s: float) -> float:
        """Its mean over the level; draws nothing."""
        median_s, swing = self._with_slack(device_s, host_s)
        return expected_maximum_s(device_s, median_s, swing * math.hypot(self._sd, self._jitter_sd))

    def _with_slack(self, device_s: float, host_s: float) -> tuple[float, float]:
        ahead = device_s - host_s
        if ahead <= 0.0 or host_s == 0.0:
            return host_s, 1.0
        share = min(1.0, ahead / (self._margin * host_s))
        return host_s * math.exp(share * self._log_slack), 1.0 - share * (1.0 - self._swing)

    def advance(self, elapsed_s: float) -> None:
        """Let the slow part wander for `elapsed_s` of engine time."""
        if self._sd:
            kept = math.exp(-elapsed_s / self._time_s)
            self._slow = kept * self._slow + self._sd * math.sqrt(1.0 - kept * kept) * self._random.gauss(
                0.0, 1.0
            )


class RooflineCost:
    """CostModel of a profile. `cost` draws the host's level from the seed; `expected` is the mean over it."""

    def __init__(self, profile: EngineProfile, seed: int = 0) -> None:
        self._graphs = Graphs(profile.penalties)
        self._target = ForwardTime(profile.target, profile.hardware)
        self._drafter = ForwardTime(profile.drafter.forward, profile.hardware)
        self._rejection = (profile.drafter.rejection_s, profile.drafter.rejection_request_s)
        self._sequential = profile.drafter.shape is DraftShape.SEQUENTIAL
        self._looks_up = profile.drafter.shape is DraftShape.NGRAM
        self._host = HostTime(profile.host)
        self._level = HostLevel(profile.host, seed)
        self._sync = profile.penalties.zero_depth_sync
        self._switch_s = profile.penalties.depth_switch_cost_s
        self._round_s = profile.penalties.speculative_round_s

    def cost(self, shape: StepShape) -> StepCost:
        """One step, host level drawn; `target_s` and `draft_s` are the device's, the rest the host's."""
        mode, target_s, draft_s, host_s = self._parts(shape)
        step_s = self._level.step_s(target_s + draft_s, host_s) + self._fixed_s(shape)
        self._level.advance(step_s)
        return StepCost(target_s, draft_s, step_s, mode)

    def expected(self, shape: StepShape) -> StepCost:
        """The same with `step_s` averaged over the host's level; draws nothing."""
        mode, target_s, draft_s, host_s = self._parts(shape)
        step_s = self._level.expected_step_s(target_s + draft_s, host_s) + self._fixed_s(shape)
        return StepCost(target_s, draft_s, step_s, mode)

    def _parts(self, shape: StepShape) -> tuple[GraphMode, float, float, float]:
        mode, tokens = self._graphs.mode(shape)
        requests = shape.decode_requests + shape.prefill_requests
        context = shape.context_tokens + shape.prefill_context_tokens
        target_s = self._target.seconds(tokens, requests, context)
        forwards = self._draft_forwards(shape)
        draft_s = self._draft_seconds(shape, forwards)
        if shape.decode_tokens > shape.decode_requests:
            draft_s += self._rejection[0] + self._rejection[1] * shape.decode_requests
        return mode, target_s, draft_s, self._host.seconds(shape, mode, forwards)

    def _draft_forwards(self, shape: StepShape) -> int:
        if not shape.speculative or shape.draft_requests == 0:
            return 0
        if shape.depth_next == 0:
            return 1 if self._sync and not self._looks_up else 0
        return shape.depth_next if self._sequential else 1

    def _draft_seconds(self, shape: StepShape, forwards: int) -> float:
        if forwards == 0 or self._looks_up:
            return 0.0
        requests, context = shape.draft_requests, shape.context_tokens
        step_tokens = shape.decode_tokens + shape.prefill_tokens
        if not self._sequential:
            return self._drafter.seconds(requests * max(shape.depth_next, 1), requests, context)
        first_s = self._drafter.seconds(step_tokens, requests, context)
        if forwards == 1:
            return first_s
        return first_s + (forwards - 1) * self._drafter.seconds(requests, requests, context)

    def _fixed_s(self, shape: StepShape) -> float:
        verifies = shape.decode_tokens > shape.decode_requests
        return self._switch_s * shape.depth_changed + self._round_s * verifies


def expected_maximum_s(device_s: float, host_s: float, level_sd: float) -> float:
    """E max(device_s, host_s * exp(sd * N(0, 1))): the mean step when the host's level is log-normal."""
    if level_sd == 0.0 or host_s == 0.0:
        return max(device_s, host_s)
    if device_s == 0.0:
        return host_s * math.exp(0.5 * level_sd**2)
    z = math.log(device_s / host_s) / level_sd
    return device_s * _normal_cdf(z) + host_s * math.exp(0.5 * level_sd**2) * _normal_cdf(level_sd - z)


def _normal_cdf(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def decode_shape(batch: int, depth: int, context_tokens: int, *, armed: bool, speculative: bool) -> StepShape:
    """A steady decoding step: `batch` requests verify and draft `depth` each; `context_tokens` in all."""
    return StepShape(
        decode_requests=batch,
        decode_tokens=batch * (depth + 1),
        decode_uniform=True,
        prefill_requests=0,
        prefill_tokens=0,
        context_tokens=context_tokens,
        prefill_context_tokens=0,
        depth_next=depth,
        draft_requests=batch if speculative else 0,
        depth_changed=False,
        schedule_armed=armed,
        speculative=speculative,
    )


def modelled_step_s(
    profile: EngineProfile,
    batch: int,
    depth: int,
    context_tokens_per_request: int | None = None,
    *,
    armed: bool = False,
    speculative: bool | None = None,
) -> float:
    """Mean seconds of a steady decoding step. `speculative` None: a drafter is loaded when depth > 0.

    `context_tokens_per_request` None: the profile's reference context.
    """
    loaded = depth > 0 if speculative is None else speculative
    given = context_tokens_per_request
    context = profile.reference_context_tokens if given is None else given
    shape = decode_shape(batch, depth, batch * context, armed=armed, speculative=loaded)
    return RooflineCost(profile).expected(shape).step_s
