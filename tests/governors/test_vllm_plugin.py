"""The plugin's two holds on vLLM, over doubles: which scheduler class, and hooks in every worker."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from governors import vllm_plugin, vllm_scheduler
from governors.entry import GovernorError


class Config:
    scheduler_cls: Any = None
    async_scheduling: bool = True

    def get_scheduler_cls(self) -> Any:
        return self.scheduler_cls or "stock"


class Worker:
    def __init__(self, vllm_config: Any, rank: int) -> None:
        self.rank = rank


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("GOVERNOR", "CONTROL", "STEPS"):
        monkeypatch.delenv(f"DEPTHGATE_{key}", raising=False)


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> tuple[type[Config], type[Worker]]:
    """Importable doubles of the two modules that `register` reaches into."""
    config: Any = type("Config", (Config,), {})
    worker: Any = type("Worker", (Worker,), {})
    for name, content in {
        "vllm": {},
        "vllm.config": {},
        "vllm.config.scheduler": {"SchedulerConfig": config},
        "vllm.v1": {},
        "vllm.v1.worker": {},
        "vllm.v1.worker.worker_base": {"WorkerBase": worker},
    }.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return config, worker


def test_importing_the_plugin_needs_no_vllm() -> None:
    code = "import governors.vllm_plugin, governors.vllm_scheduler, sys; print('vllm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_without_vllm_it_says_so() -> None:
    with pytest.raises(ImportError, match="vllm"):
        vllm_plugin.register()
    with pytest.raises(ImportError, match="vllm"):
        vllm_scheduler.__getattr__("GovernedScheduler")
    with pytest.raises(AttributeError, match="GoverndScheduler"):
        vllm_scheduler.__getattr__("GoverndScheduler")


def test_register_is_idempotent_and_changes_nothing_unasked(vllm: tuple[type[Config], type[Worker]]) -> None:
    config, worker = vllm
    vllm_plugin.register()
    once = (config.get_scheduler_cls, worker.__init__)
    vllm_plugin.register()
    assert (config.get_scheduler_cls, worker.__init__) == once
    assert config().get_scheduler_cls() == "stock"
    assert worker(SimpleNamespace(additional_config={}), 3).rank == 3


def test_a_governed_class_is_chosen_where_none_was_named(
    vllm: tuple[type[Config], type[Worker]], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, _ = vllm
    monkeypatch.setattr(vllm_scheduler, "scheduler_class", lambda asynchronous: f"governed {asynchronous}")
    monkeypatch.setenv("DEPTHGATE_GOVERNOR", "fixed")
    vllm_plugin.register()
    asked = config()
    assert asked.get_scheduler_cls() == "governed True"
    asked.async_scheduling = False
    assert asked.get_scheduler_cls() == "governed False"
    asked.scheduler_cls = "mine"
    assert asked.get_scheduler_cls() == "mine"


@pytest.mark.parametrize(
    ("environ", "config", "runner"),
    [({"DEPTHGATE_STEPS": "x"}, {}, False), ({}, {"depthgate": {"governor": "fixed"}}, True)],
)
def test_workers_are_hooked_by_runner(
    vllm: tuple[type[Config], type[Worker]],
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    config: dict[str, Any],
    runner: bool,
) -> None:
    _, worker = vllm
    hooked: list[bool] = []
    monkeypatch.setattr("governors.vllm_hooks.hook_worker", hooked.append)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    vllm_plugin.register()
    worker(SimpleNamespace(additional_config=config, use_v2_model_runner=runner), 0)
    assert hooked == [runner]


def test_a_sync_scheduler_for_an_async_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = SimpleNamespace(init_logger=lambda _: SimpleNamespace(info=print, warning=print))
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(__version__="0.32.0"))
    monkeypatch.setitem(sys.modules, "vllm.logger", logger)
    monkeypatch.setattr(vllm_scheduler, "require_seams", lambda: None)
    monkeypatch.setattr(vllm_scheduler, "vllm_facts", lambda _: SimpleNamespace(asynchronous=True))
    scheduler = SimpleNamespace(vllm_config=SimpleNamespace(additional_config={}))
    with pytest.raises(GovernorError, match=r"--scheduler-cls governors\.vllm_scheduler\.GovernedAsync"):
        vllm_scheduler.open_gate(scheduler, asynchronous=False)


def test_tokens_are_counted_over_all_clients() -> None:
    def client(*lengths: int) -> Any:
        return SimpleNamespace(outputs=[SimpleNamespace(new_token_ids=[0] * n) for n in lengths])

    assert vllm_scheduler.tokens_out({0: client(1, 3), 2: client(2)}) == 6


@pytest.mark.parametrize("name", ["DEPTHGATE_SHARED", "DEPTHGATE_TELEMETRY", "DEPTHGATE_UNTRIED_VLLM"])
def test_other_variables_do_not_govern_a_server(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert not vllm_plugin.asked_for()
    monkeypatch.setenv("DEPTHGATE_STEPS", "steps.jsonl")
    assert vllm_plugin.asked_for()
