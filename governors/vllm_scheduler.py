"""vLLM schedulers with a governor inside: `--scheduler-cls governors.vllm_scheduler.GovernedScheduler`.

`GovernedAsyncScheduler` is for async scheduling. The classes are made when they are first asked for, since
their bases are vLLM's; with the plugin installed neither has to be named (see governors.vllm_plugin).

One seam serves both questions. `_update_after_schedule` is the last call of schedule(): the step's requests,
tokens and drafts are settled in the SchedulerOutput, K for the drafter is filled in from vLLM's own rule
(`dynamic_sd_lookup`), and nothing has been booked. There a K is replaced and drafts are cut.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from governors.entry import GovernorError
from governors.vllm_engine import vllm_facts
from governors.vllm_gate import Gate
from governors.vllm_hooks import hook_worker
from governors.vllm_settings import read_settings
from governors.vllm_versions import require_seams, require_tried

if TYPE_CHECKING:
    from collections.abc import Callable

    from governors.vllm_outcome import StepCourse

NAMES = ("GovernedScheduler", "GovernedAsyncScheduler")

__all__ = ["GovernedAsyncScheduler", "GovernedScheduler"]  # noqa: F822 (made by __getattr__)


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return scheduler_class(asynchronous=name == "GovernedAsyncScheduler")


def scheduler_class(asynchronous: bool) -> type:
    """The class for this vLLM; made once. ImportError without vLLM."""
    name = NAMES[asynchronous]
    if name not in globals():
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler
        from vllm.v1.core.sched.scheduler import Scheduler

        base = AsyncScheduler if asynchronous else Scheduler
        made = governed(base, lambda scheduler: open_gate(scheduler, asynchronous))
        made.__name__ = made.__qualname__ = name
        globals()[name] = made
    return globals()[name]  # type: ignore[no-any-return]


def governed(base: Any, gate: Callable[[Any], Gate]) -> type:
    """A subclass of a vLLM scheduler that asks a Gate, made for it once it is set up."""

    class Governed(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.depthgate = gate(self)

        def schedule(self, *args: Any, **kwargs: Any) -> Any:
            self.depthgate.begin()
            return super().schedule(*args, **kwargs)

        def _update_after_schedule(self, scheduler_output: Any) -> None:
            self.depthgate.decide(self, scheduler_output)
            super()._update_after_schedule(scheduler_output)

        def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
            course: StepCourse | None = self.depthgate.receive(self, scheduler_output, model_runner_output)
            outputs = super().update_from_output(scheduler_output, model_runner_output)
            self.depthgate.deliver(self, course, lambda: tokens_out(outputs))
            return outputs

        def shutdown(self) -> None:
            self.depthgate.close()
            super().shutdown()

    return Governed


def open_gate(scheduler: Any, asynchronous: bool) -> Gate:
    """GovernorError: this version, server or governor cannot be; the server does not start, and says why."""
    import vllm
    from vllm.logger import init_logger

    settings = read_settings(os.environ, scheduler.vllm_config.additional_config)
    require_tried(vllm.__version__, settings.untried_vllm)
    require_seams()
    facts = vllm_facts(scheduler)
    if facts.asynchronous != asynchronous:
        right = f"governors.vllm_scheduler.{NAMES[facts.asynchronous]}"
        raise GovernorError(f"async_scheduling={facts.asynchronous}: start with --scheduler-cls {right}")
    logger = init_logger("vllm.depthgate")
    if facts.workers_here:
        hook_worker(facts.runner_v2)
    gate = Gate(facts, settings, lambda sentence: logger.warning("depthgate: %s", sentence))
    logger.info("depthgate: governor %s, %s", settings.governor or "none (vLLM's own rule)", facts.limits)
    return gate


def tokens_out(outputs: Any) -> int:
    """Tokens in the EngineCoreOutputs of a step, over all clients."""
    return sum(len(one.new_token_ids) for client in outputs.values() for one in client.outputs)
