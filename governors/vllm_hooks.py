"""Hooks in vLLM's model runners (V1 and V2) that fill a WorkerLog; put in once a process, in the worker's."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from governors.contract import GraphMode
from governors.vllm_timing import WorkerLog, graph_mode, worker_clock
from governors.vllm_versions import require_seams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REPORT: Final = "depthgate_report"  # on a ModelRunnerOutput
TIMED: Final = "depthgate_timed"  # on a SchedulerOutput: time this step
_HOOKED: Final[dict[bool, WorkerLog]] = {}  # by runner; the patched classes are as global as this


def hook_worker(runner_v2: bool) -> None:
    """Idempotent. Without a TIMED step the hooks only count drafts. GovernorError: this vLLM lacks a seam."""
    if runner_v2 in _HOOKED:
        return
    require_seams("v2" if runner_v2 else "v1")
    log = _HOOKED[runner_v2] = WorkerLog(worker_clock())
    (_hook_v2 if runner_v2 else _hook_v1)(log)


def _hook_v1(log: WorkerLog) -> None:
    from vllm.forward_context import get_forward_context
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    def forward(call: Callable[[], Any]) -> Any:
        return log.forward(graph_mode(get_forward_context().cudagraph_runtime_mode), call)

    hook_steps(GPUModelRunner, log)
    hook_around(GPUModelRunner, "_model_forward", forward)
    hook_around(GPUModelRunner, "propose_draft_token_ids", lambda call: log.draft(call, drafts_a_request))


def _hook_v2(log: WorkerLog) -> None:
    from vllm.v1.worker.gpu import cudagraph_utils, model_runner

    hook_steps(model_runner.GPUModelRunner, log, hook_speculator)
    hook_around(
        cudagraph_utils.ModelCudaGraphManager, "run_fullgraph", lambda call: log.forward(GraphMode.FULL, call)
    )
    model_runner.set_forward_context = timed_context(model_runner.set_forward_context, log)


def hook_steps(runner: Any, log: WorkerLog, first: Callable[[Any, WorkerLog], None] | None = None) -> None:
    """Every execute_model with tokens begins a step of the log; sample_tokens ends it and reports."""
    execute, sample = runner.execute_model, runner.sample_tokens

    @functools.wraps(execute)
    def execute_model(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        timed = getattr(scheduler_output, TIMED, None)
        if timed is not None and scheduler_output.total_num_scheduled_tokens:
            if first is not None:
                first(self, log)
            log.begin(timed)
        return execute(self, scheduler_output, *args, **kwargs)

    @functools.wraps(sample)
    def sample_tokens(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = sample(self, *args, **kwargs)
        report = log.end()
        if report is not None and result is not None:
            setattr(_model_runner_output(result), REPORT, report)
        return result

    runner.execute_model = execute_model
    runner.sample_tokens = sample_tokens


def hook_around(owner: Any, name: str, hook: Callable[[Callable[[], Any]], Any]) -> None:
    """`hook` is given the call of method `name` to make."""
    method = getattr(owner, name)

    @functools.wraps(method)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        return hook(lambda: method(*args, **kwargs))

    setattr(owner, name, hooked)


def hook_speculator(runner: Any, log: WorkerLog) -> None:
    """Runner V2: the speculator's class varies, so its instance is hooked, at the runner's first step."""
    speculator = getattr(runner, "speculator", None)
    if speculator is None or getattr(speculator, "depthgate_hooked", False):
        return
    propose, k_max = speculator.propose, runner.num_speculative_steps

    @functools.wraps(propose)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        asked = kwargs.get("num_speculative_tokens", k_max)  # vLLM before 0.32 always drafts k_max
        return log.draft(lambda: propose(*args, **kwargs), lambda _: int(asked))

    speculator.propose = hooked
    speculator.depthgate_hooked = True


def timed_context(context: Any, log: WorkerLog) -> Any:
    """Runner V2 without a FULL graph: what runs inside its forward context is the target."""

    @contextmanager
    def timed(*args: Any, **kwargs: Any) -> Iterator[Any]:
        mode = graph_mode(kwargs.get("cudagraph_runtime_mode"))
        with context(*args, **kwargs) as inner, log.forwarding(mode):
            yield inner

    return timed


def drafts_a_request(drafts: Any) -> int:
    """Runner V1 returns a tensor (requests, K), or lists of which some may be shorter."""
    if isinstance(drafts, list):
        return max(map(len, drafts), default=0)
    return int(drafts.shape[1])


def _model_runner_output(result: Any) -> Any:
    """The ModelRunnerOutput within what sample_tokens returned (async scheduling wraps it)."""
    for name in ("_model_runner_output", "model_runner_output"):
        inner = getattr(result, name, None)
        if inner is not None:
            return inner
    return result
