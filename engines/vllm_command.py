"""Which vLLM server an arm needs, and the command line and environment that start it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from engines.contract import EngineError
from engines.vllm_environment import VllmEnvironment
from engines.vllm_options import VllmOptions
from governors.contract import DepthLimits
from governors.entry import GovernorContext
from governors.registry import build_governor, changes_depth, depths, governor_entry
from governors.vllm_engine import DEPTH_METHODS_V1
from governors.vllm_versions import require_tried

SCHEDULERS = {
    True: "governors.vllm_scheduler.GovernedAsyncScheduler",
    False: "governors.vllm_scheduler.GovernedScheduler",
}
V2_VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
V2_SCHEDULE_FROM = (0, 28)  # 0.26: a schedule dies at start on runner V2 (vllm#48494)


@dataclass(frozen=True, slots=True)
class ServerKind:
    """What of an arm cannot be switched in a running server: arms of one kind share one.

    depth   num_speculative_tokens; None = no drafter is loaded at all
    armed   with a schedule that holds every K from 0 to `depth`, so that a policy may pick any
    """

    depth: int | None
    armed: bool

    @property
    def label(self) -> str:
        """For file names and progress."""
        if self.depth is None:
            return "no-speculation"
        return f"{'armed' if self.armed else 'static'}-k{self.depth}"


def server_kind(governor: str, options: Mapping[str, object], vllm: VllmOptions) -> ServerKind:
    """GovernorError or EngineError for an arm that no server of these options can run.

    No speculation is a server without a drafter. K=0 on a server with one (`fixed` 0) is another arm: the
    drafter's forward still runs.
    """
    if not governor_entry(governor).speculative:
        return ServerKind(None, armed=False)
    if vllm.drafter is None and not vllm.speculative:
        raise EngineError(
            f'governor {governor!r} drafts, but engine "vllm" has no drafter; '
            'add drafter = "FOLDER or hub name" to engine.options'
        )
    limits = DepthLimits(vllm.k_max, vllm.max_num_seqs)
    build_governor(governor, options, GovernorContext(limits))
    wanted = depths(governor, options, limits)
    constant = len(wanted) == 1 and not changes_depth(governor, options)
    if constant and not vllm.share_armed and (depth := min(wanted)) > 0:
        return ServerKind(depth, armed=False)
    if constant and wanted == {vllm.k_max} and not _can_change_depth(vllm):
        return ServerKind(vllm.k_max, armed=False)
    if not _can_change_depth(vllm):
        raise EngineError(
            f"governor {governor!r} changes K, but a {vllm.method!r} drafter cannot (vllm#46399); "
            f"take one of {', '.join(sorted(DEPTH_METHODS_V1))}, or keep K fixed at k_max={vllm.k_max}"
        )
    if vllm.max_num_seqs <= vllm.k_max:
        raise EngineError(
            f"max_num_seqs = {vllm.max_num_seqs}: a schedule with every K up to {vllm.k_max} needs one "
            f"batch size for each; raise it above {vllm.k_max}"
        )
    return ServerKind(vllm.k_max, armed=True)


def _can_change_depth(vllm: VllmOptions) -> bool:
    return vllm.env.get(V2_VARIABLE) == "1" or vllm.method in DEPTH_METHODS_V1


def check_version(environment: VllmEnvironment, vllm: VllmOptions, kind: ServerKind) -> None:
    """EngineError or GovernorError for a vLLM in which the arms would not run as they say."""
    if not environment.plugin:
        raise EngineError(
            f"{vllm.python}: depthgate is not installed there, and vLLM loads its governors from there; "
            f"{vllm.python} -m pip install --no-deps depthgate (or -e CHECKOUT)"
        )
    if vllm.untried:
        return
    require_tried(environment.release, untried=False)
    if kind.armed and vllm.env.get(V2_VARIABLE) == "1" and environment.version < V2_SCHEDULE_FROM:
        raise EngineError(
            f"vLLM {environment.release}: a schedule dies at start on runner V2 (vllm#48494); "
            f'set {V2_VARIABLE} = "0", or take 0.28 or newer'
        )


def command(kind: ServerKind, vllm: VllmOptions, environment: VllmEnvironment, port: int) -> list[str]:
    """The server as a module: `vllm serve` of the CPU build asks for a distribution named vllm, and dies."""
    words = ["nice", "-n", str(vllm.nice)] if vllm.nice else []
    words += [str(vllm.python), "-m", "vllm.entrypoints.openai.api_server"]
    words += ["--host", "127.0.0.1", "--port", str(port), "--model", vllm.model]
    words += ["--max-num-seqs", str(vllm.max_num_seqs), "--no-enable-prefix-caching"]
    if environment.cpu:
        words += ["--enforce-eager"]
    asynchronous = vllm.asynchronous
    if kind.depth is not None:
        words += ["--speculative-config", json.dumps(speculative_config(kind, vllm))]
    if not environment.entry:  # no plugin that chooses the class once vLLM knows how it will schedule
        asynchronous = not environment.cpu if asynchronous is None else asynchronous
        words += ["--scheduler-cls", SCHEDULERS[asynchronous]]
    if asynchronous is not None:
        words += ["--async-scheduling" if asynchronous else "--no-async-scheduling"]
    return [*words, *vllm.args]


def speculative_config(kind: ServerKind, vllm: VllmOptions) -> dict[str, object]:
    """`--speculative-config` of a server with a drafter."""
    assert kind.depth is not None
    config: dict[str, object] = {"method": vllm.method, "num_speculative_tokens": kind.depth}
    if vllm.drafter is not None:
        config["model"] = vllm.drafter
    if kind.armed:
        config["num_speculative_tokens_per_batch_size"] = arming_schedule(kind.depth, vllm.max_num_seqs)
    return config | dict(vllm.speculative)


def arming_schedule(k_max: int, max_num_seqs: int) -> list[list[int]]:
    """A schedule with every K: k_max nearly everywhere, so that graphs are captured for wide batches; the
    others one batch size each at the far end. What it says is never followed: a policy decides."""
    edge = max_num_seqs - k_max
    return [
        [1, edge, k_max],
        *([edge + k_max - depth, edge + k_max - depth, depth] for depth in range(k_max - 1, -1, -1)),
    ]


def server_environment(vllm: VllmOptions, control: str, first: Mapping[str, object]) -> dict[str, str]:
    """Environment variables for the server beside those of this process. `first`: the arm to start with.

    The server without a drafter is told too: it keeps step records as the others do, at the same price.
    """
    found = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", **vllm.env}
    found["DEPTHGATE_CONTROL"] = control
    found["DEPTHGATE_GOVERNOR"] = str(first["governor"])
    found["DEPTHGATE_OPTIONS"] = json.dumps(first["options"])
    if vllm.governor_profile is not None:
        found["DEPTHGATE_PROFILE"] = str(vllm.governor_profile)
    if vllm.untried:
        found["DEPTHGATE_UNTRIED_VLLM"] = "1"
    return found
