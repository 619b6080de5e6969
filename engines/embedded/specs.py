"""What a profile says about scheduler, acceptance and penalties: frozen data, read by profile.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchedulerSpec:
    """vLLM's knobs under vLLM's names. `kv_blocks` counts blocks of `block_size` tokens."""

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    block_size: int
    kv_blocks: int


@dataclass(frozen=True, slots=True)
class ConfidenceSpec:
    """The drafter's confidence signal: reported = sigmoid(slope * logit(p) + bias + noise * N(0, 1)).

    slope 1, bias 0, noise 0 is perfectly calibrated; slope > 1 is over-confident.
    """

    slope: float = 1.0
    bias: float = 0.0
    noise: float = 0.0


@dataclass(frozen=True, slots=True)
class AcceptanceSpec:
    """Acceptance of one drafter class.

    by_class    traffic class -> *unconditional* acceptance per position, as engines publish it
                (a_1 >= a_2 ...); "default" serves classes that are not listed
    spread      sd of a request's own offset in logits (heterogeneity between requests)
    drift       sd of the stationary AR(1) offset within a request, in logits
    drift_tokens  correlation length of that drift, in output tokens
    batch_slope   change of the logit per doubling of the decoding batch (0 = independent of the batch)
    batch_knee_tokens  0: doublings count from one request; n: from n tokens a step, batch x (K+1); below them
                  acceptance does not feel the batch (llama.cpp#27117: clean at 4, K=1 recovers at 16)
    course      (seconds since the engine's first step, change of the logit), ascending: linear between them,
                constant before the first and after the last; () = acceptance does not change over time
    confidence  None = the drafter has no confidence head; observations then carry NaN
    """

    by_class: Mapping[str, tuple[float, ...]]
    spread: float = 0.0
    drift: float = 0.0
    drift_tokens: float = 100.0
    batch_slope: float = 0.0
    batch_knee_tokens: int = 0
    course: tuple[tuple[float, float], ...] = ()
    confidence: ConfidenceSpec | None = None


@dataclass(frozen=True, slots=True)
class PenaltySpec:
    """Engine penalties, each a named switch, off by default. Sources stand in the profile's TOML.

    capture_sizes        graph sizes in tokens; None = every size runs in a graph. Above the largest: eager.
    capture_padding      a batch between two sizes is padded up (vLLM); False: it runs eager (capture hole)
    full_holes           step tokens that miss their FULL graph though they fit, and run PIECEWISE (vLLM's
                         runner V2 at K=2 with 12 and 15 tokens, docs/measured)
    piecewise_downgrade  a governor that may change K turns FULL graphs into PIECEWISE (vllm#49548)
    zero_depth_sync      at K=0 the drafter still runs one forward, to keep its state
    depth_switch_cost_s  host time for each change of the executed depth
    speculative_round_s  time that a step which verifies drafts takes on top, whatever it holds (vllm#44697)
    draft_budget_tokens  drafts that a step verifies in all, first come first served: the oldest takes its
                         whole window, those behind decode one token; None = no bound (syv-ai#25)
    lookahead_static     KV lookahead is reserved for k_max, not for the depth in force
    policy_ignored       the depth that the drafter runs whatever the governor chose; None = policy applied
    drafter_starvation   factor on conditional acceptance after a depth-0 phase without sync, until the
                         request has been re-fed for as many tokens as it missed; 1 = no starvation
    """

    capture_sizes: tuple[int, ...] | None = None
    capture_padding: bool = True
    full_holes: tuple[int, ...] = ()
    piecewise_downgrade: bool = False
    zero_depth_sync: bool = False
    depth_switch_cost_s: float = 0.0
    speculative_round_s: float = 0.0
    draft_budget_tokens: int | None = None
    lookahead_static: bool = False
    policy_ignored: int | None = None
    drafter_starvation: float = 1.0
