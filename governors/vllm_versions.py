"""Which vLLM versions were tried, and every seam that the plugin holds on to: checked at start and in tests.

vLLM says that its scheduler interface is not public: a version that was never tried is refused, and of one
that was the names and parameters are checked before the first step.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import Final

from governors.entry import GovernorError

TRIED: Final = ("0.24", "0.26", "0.28", "0.32", "0.33")
OVERRIDE: Final = "DEPTHGATE_UNTRIED_VLLM=1"


@dataclass(frozen=True, slots=True)
class Seam:
    """`owner.function` of `module` takes `parameters` (these among others); owner "" = the module itself.

    attributes  names that methods of `owner` set on self, and that the plugin reads
    worker      only where a worker of this runner ("v1", "v2") runs
    """

    module: str
    owner: str
    function: str
    parameters: tuple[str, ...] = ("self",)
    attributes: tuple[str, ...] = ()
    worker: str | None = None


_SCHEDULER: Final = "vllm.v1.core.sched.scheduler"
_RUNNER_V1: Final = "vllm.v1.worker.gpu_model_runner"
_RUNNER_V2: Final = "vllm.v1.worker.gpu.model_runner"
_OUTPUT: Final = ("self", "scheduler_output")

SEAMS: Final = (
    Seam(
        _SCHEDULER,
        "Scheduler",
        "__init__",
        ("self", "vllm_config"),
        (
            "vllm_config",
            "requests",
            "finished_req_ids",
            "num_spec_tokens",
            "dynamic_sd_lookup",
            "kv_cache_manager",
            "connector",
            "num_sampled_tokens_per_step",
        ),
    ),
    Seam(_SCHEDULER, "Scheduler", "schedule"),
    Seam(_SCHEDULER, "Scheduler", "_update_after_schedule", _OUTPUT),
    Seam(_SCHEDULER, "Scheduler", "update_from_output", (*_OUTPUT, "model_runner_output")),
    Seam(_SCHEDULER, "Scheduler", "get_request_counts"),
    Seam(_SCHEDULER, "Scheduler", "shutdown"),
    Seam("vllm.v1.core.sched.interface", "SchedulerInterface", "has_unfinished_requests"),
    Seam("vllm.v1.core.sched.async_scheduler", "AsyncScheduler", "_update_after_schedule", _OUTPUT),
    Seam("vllm.v1.core.block_pool", "BlockPool", "__init__", attributes=("num_gpu_blocks",)),
    Seam("vllm.v1.core.block_pool", "BlockPool", "get_num_free_blocks"),
    Seam("vllm.v1.core.kv_cache_manager", "KVCacheManager", "__init__", attributes=("block_pool",)),
    Seam(
        "vllm.v1.request",
        "Request",
        "__init__",
        attributes=("num_output_placeholders", "num_computed_tokens"),
    ),
    Seam("vllm.v1.request", "Request", "num_tokens"),
    Seam("vllm.config.scheduler", "SchedulerConfig", "get_scheduler_cls"),
    Seam("vllm.v1.worker.worker_base", "WorkerBase", "__init__", ("self", "vllm_config")),
    Seam(_RUNNER_V1, "GPUModelRunner", "execute_model", _OUTPUT, worker="v1"),
    Seam(_RUNNER_V1, "GPUModelRunner", "sample_tokens", worker="v1"),
    Seam(_RUNNER_V1, "GPUModelRunner", "_model_forward", worker="v1"),
    Seam(_RUNNER_V1, "GPUModelRunner", "propose_draft_token_ids", _OUTPUT, worker="v1"),
    Seam("vllm.forward_context", "", "get_forward_context", (), worker="v1"),
    Seam("vllm.forward_context", "", "set_forward_context", ("cudagraph_runtime_mode",), worker="v2"),
    Seam(_RUNNER_V2, "GPUModelRunner", "execute_model", _OUTPUT, worker="v2"),
    Seam(_RUNNER_V2, "GPUModelRunner", "sample_tokens", worker="v2"),
    Seam("vllm.v1.worker.gpu.cudagraph_utils", "ModelCudaGraphManager", "run_fullgraph", worker="v2"),
)

# Dataclass fields: (module, class, fields).
FIELDS: Final = (
    (
        "vllm.v1.core.sched.output",
        "SchedulerOutput",
        (
            "num_scheduled_tokens",
            "total_num_scheduled_tokens",
            "scheduled_spec_decode_tokens",
            "finished_req_ids",
            "preempted_req_ids",
            "num_invalid_spec_tokens",
            "num_spec_tokens_to_schedule",
        ),
    ),
    ("vllm.v1.outputs", "ModelRunnerOutput", ("req_ids", "req_id_to_index", "sampled_token_ids")),
    ("vllm.forward_context", "ForwardContext", ("cudagraph_runtime_mode",)),
)


def require_tried(version: str, untried: bool) -> None:
    """GovernorError for a version that was never tried, unless `untried` says to go on."""
    if untried or ".".join(version.split(".")[:2]) in TRIED:
        return
    raise GovernorError(
        f"vLLM {version} was never tried (tried: {', '.join(TRIED)}); take one of these, or set {OVERRIDE} "
        "and check the results"
    )


def require_seams(worker: str | None = None) -> None:
    """GovernorError names every seam that this vLLM lacks: the scheduler's, or a worker's ("v1", "v2")."""
    missing = [fault for seam in SEAMS if seam.worker == worker for fault in _faults(seam)]
    missing += [
        f"{module}.{owner}.{name}"
        for module, owner, names in FIELDS
        for name in names
        if name not in getattr(importlib.import_module(module), owner).__dataclass_fields__
    ]
    if missing:
        raise GovernorError(
            f"this vLLM lacks {', '.join(missing)}: the plugin would not work; take vLLM {', '.join(TRIED)}"
        )


def _faults(seam: Seam) -> list[str]:
    module = importlib.import_module(seam.module)
    owner = getattr(module, seam.owner, None) if seam.owner else module
    function = getattr(owner, seam.function, None)
    where = f"{seam.module}.{seam.owner}.{seam.function}"
    if function is None:
        return [where]
    if isinstance(function, property):
        return []
    known = inspect.signature(function).parameters
    return [f"{where}({name})" for name in seam.parameters if name not in known]
