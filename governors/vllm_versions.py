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
    """`owner.function` of `module` takes `parameters` (a subset, by name); `owner` "" = the module itself.

    `attributes`: names that `owner` sets on itself or reads from its output, which the plugin uses.
    `worker`: only where a worker of this runner ("v1", "v2") runs.
    """

    module: str
    owner: str
    function: str
    parameters: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    worker: str | None = None


SEAMS: Final = (
    Seam(
        "vllm.v1.core.sched.scheduler",
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
    Seam("vllm.v1.core.sched.scheduler", "Scheduler", "schedule", ("self",)),
    Seam("vllm.v1.core.sched.scheduler", "Scheduler", "_update_after_schedule", ("self", "scheduler_output")),
    Seam(
        "vllm.v1.core.sched.scheduler",
        "Scheduler",
        "update_from_output",
        ("self", "scheduler_output", "model_runner_output"),
    ),
    Seam("vllm.v1.core.sched.scheduler", "Scheduler", "get_request_counts", ("self",)),
    Seam("vllm.v1.core.sched.scheduler", "Scheduler", "shutdown", ("self",)),
    Seam("vllm.v1.core.sched.interface", "SchedulerInterface", "has_unfinished_requests", ("self",)),
    Seam(
        "vllm.v1.core.sched.async_scheduler",
        "AsyncScheduler",
        "_update_after_schedule",
        ("self", "scheduler_output"),
    ),
    Seam("vllm.v1.core.block_pool", "BlockPool", "get_num_free_blocks", ("self",)),
    Seam("vllm.v1.core.block_pool", "BlockPool", "__init__", ("self",), ("num_gpu_blocks",)),
    Seam("vllm.v1.core.kv_cache_manager", "KVCacheManager", "__init__", ("self",), ("block_pool",)),
    Seam(
        "vllm.v1.request",
        "Request",
        "__init__",
        ("self",),
        ("num_output_placeholders", "num_computed_tokens"),
    ),
    Seam("vllm.v1.request", "Request", "num_tokens", ("self",)),
    Seam("vllm.config.scheduler", "SchedulerConfig", "get_scheduler_cls", ("self",)),
    Seam("vllm.v1.worker.worker_base", "WorkerBase", "__init__", ("self", "vllm_config")),
    Seam(
        "vllm.v1.worker.gpu_model_runner",
        "GPUModelRunner",
        "execute_model",
        ("self", "scheduler_output"),
        worker="v1",
    ),
    Seam("vllm.v1.worker.gpu_model_runner", "GPUModelRunner", "sample_tokens", ("self",), worker="v1"),
    Seam("vllm.v1.worker.gpu_model_runner", "GPUModelRunner", "_model_forward", ("self",), worker="v1"),
    Seam(
        "vllm.v1.worker.gpu_model_runner",
        "GPUModelRunner",
        "propose_draft_token_ids",
        ("self", "scheduler_output"),
        worker="v1",
    ),
    Seam(
        "vllm.v1.worker.gpu.model_runner",
        "GPUModelRunner",
        "execute_model",
        ("self", "scheduler_output"),
        worker="v2",
    ),
    Seam("vllm.v1.worker.gpu.model_runner", "GPUModelRunner", "sample_tokens", ("self",), worker="v2"),
    Seam(
        "vllm.v1.worker.gpu.cudagraph_utils", "ModelCudaGraphManager", "run_fullgraph", ("self",), worker="v2"
    ),
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


def require_seams() -> None:
    """GovernorError names every seam of the scheduler's side that this vLLM lacks."""
    missing = [fault for seam in SEAMS if seam.worker is None for fault in _faults(seam)]
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
    owner = getattr(importlib.import_module(seam.module), seam.owner, None)
    function = getattr(owner, seam.function, None)
    where = f"{seam.module}.{seam.owner}.{seam.function}"
    if function is None:
        return [where]
    if isinstance(function, property):
        return []
    known = inspect.signature(function).parameters
    return [f"{where}({name})" for name in seam.parameters if name not in known]
