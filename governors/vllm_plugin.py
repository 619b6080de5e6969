"""vLLM's entry point (group `vllm.general_plugins`): governs a server that is told to.

Called in every process of the server. Without DEPTHGATE_GOVERNOR, DEPTHGATE_STEPS, DEPTHGATE_CONTROL or
`additional_config.depthgate` it changes nothing.
"""

from __future__ import annotations

import functools
import os
from typing import Any, Final

from governors.vllm_settings import PREFIX

ASKING: Final = ("GOVERNOR", "STEPS", "CONTROL")
_MARK: Final = "depthgate_registered"


def register() -> None:
    """Idempotent. The scheduler class is chosen unless `--scheduler-cls` names one."""
    from vllm.config.scheduler import SchedulerConfig
    from vllm.v1.worker.worker_base import WorkerBase

    if getattr(WorkerBase, _MARK, False):
        return
    setattr(WorkerBase, _MARK, True)
    choose_scheduler(SchedulerConfig)
    hook_workers(WorkerBase)


def asked_for(additional_config: object = None) -> bool:
    """Whether this server is to be governed, or at least watched."""
    if any(os.environ.get(PREFIX + key) for key in ASKING):
        return True
    return isinstance(additional_config, dict) and "depthgate" in additional_config


def choose_scheduler(config: Any) -> None:
    """SchedulerConfig.get_scheduler_cls answers with a governed class where none was named."""
    stock = config.get_scheduler_cls

    @functools.wraps(stock)
    def get_scheduler_cls(self: Any) -> Any:
        if self.scheduler_cls is not None or not asked_for():
            return stock(self)
        from governors.vllm_scheduler import scheduler_class

        return scheduler_class(asynchronous=bool(self.async_scheduling))

    config.get_scheduler_cls = get_scheduler_cls


def hook_workers(base: Any) -> None:
    """Every worker's __init__ puts the hooks into its process."""
    init = base.__init__

    @functools.wraps(init)
    def __init__(self: Any, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        init(self, vllm_config, *args, **kwargs)
        if asked_for(vllm_config.additional_config):
            from governors.vllm_hooks import hook_worker

            hook_worker(bool(getattr(vllm_config, "use_v2_model_runner", False)))

    base.__init__ = __init__
