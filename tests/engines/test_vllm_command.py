"""Which vLLM server an arm needs, and how it is started."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engines.contract import EngineError
from engines.vllm_command import (
    ServerKind,
    arming_schedule,
    check_version,
    command,
    server_environment,
    server_kind,
    speculative_config,
)
from engines.vllm_environment import VllmEnvironment
from engines.vllm_options import VllmOptions
from governors.entry import GovernorError

OPTIONS = VllmOptions(
    model="target", python=Path("/env/bin/python"), drafter="drafter", k_max=4, max_num_seqs=16
)
CPU = VllmEnvironment("0.32.0", cpu=True, torch="2.13.0+cpu", plugin=True, entry=True)
GPU = VllmEnvironment("0.26.0", cpu=False, torch="2.11.0", plugin=True, entry=True)
SCHEDULE = {"schedule": [[1, 4, 2], [5, 512, 0]]}
ARMED = ServerKind(4, armed=True)
PLAIN = ServerKind(None, armed=False)


@pytest.mark.parametrize(
    ("governor", "options", "share", "kind"),
    [
        ("off", {}, False, PLAIN),
        ("off", {}, True, PLAIN),
        ("fixed", {"depth": 2}, False, ServerKind(2, armed=False)),
        ("fixed", {"depth": 2}, True, ARMED),
        ("fixed", {"depth": 0}, False, ARMED),  # vLLM cannot be configured with K=0
        ("schedule", SCHEDULE, False, ARMED),
        ("schedule", {"schedule": [[1, 512, 3]]}, False, ARMED),  # armed is armed, as vLLM has it
        ("goodput_table", {}, False, ARMED),
        ("disable_above", {"depth": 2, "above": 4}, False, ARMED),
    ],
)
def test_kind_of_server(governor: str, options: dict[str, object], share: bool, kind: ServerKind) -> None:
    assert server_kind(governor, options, replace(OPTIONS, share_armed=share)) == kind


def test_a_drafter_that_cannot_change_k_serves_its_own_k_alone() -> None:
    suffix = replace(OPTIONS, method="suffix", share_armed=True)
    assert server_kind("fixed", {"depth": 4}, suffix) == ServerKind(4, armed=False)
    with pytest.raises(EngineError, match=r"'schedule' changes K, but a 'suffix' drafter cannot"):
        server_kind("schedule", SCHEDULE, suffix)
    with pytest.raises(EngineError, match="'suffix' drafter cannot"):
        server_kind("fixed", {"depth": 0}, suffix)


def test_arms_that_cannot_run_are_refused() -> None:
    with pytest.raises(EngineError, match="has no drafter; add drafter"):
        server_kind("fixed", {"depth": 2}, replace(OPTIONS, drafter=None))
    with pytest.raises(EngineError, match=r"max_num_seqs = 4: .* raise it above 4"):
        server_kind("schedule", SCHEDULE, replace(OPTIONS, max_num_seqs=4))
    with pytest.raises(GovernorError, match="depth"):
        server_kind("fixed", {"depth": 9}, OPTIONS)
    with pytest.raises(GovernorError, match="did you mean 'schedule'"):
        server_kind("shedule", SCHEDULE, OPTIONS)


@pytest.mark.parametrize(("k_max", "seqs"), [(1, 2), (4, 5), (4, 256), (7, 16)])
def test_an_arming_schedule_holds_every_depth_and_every_batch(k_max: int, seqs: int) -> None:
    ranges = arming_schedule(k_max, seqs)
    assert sorted(depth for _, _, depth in ranges) == list(range(k_max + 1))
    assert [n for low, high, _ in ranges for n in range(low, high + 1)] == list(range(1, seqs + 1))


def test_command_lines_of_the_three_kinds() -> None:
    plain = command(PLAIN, OPTIONS, CPU, 8123)
    static = command(ServerKind(2, armed=False), OPTIONS, CPU, 8123)
    armed = command(ARMED, replace(OPTIONS, args=("--dtype", "float32")), GPU, 8123)
    assert plain[:3] == ["/env/bin/python", "-m", "vllm.entrypoints.openai.api_server"]
    assert plain[plain.index("--port") + 1] == "8123"
    assert "--scheduler-cls" not in plain
    assert "--enforce-eager" in plain
    assert json.loads(static[static.index("--speculative-config") + 1]) == {
        "method": "draft_model", "model": "drafter", "num_speculative_tokens": 2
    }  # fmt: skip
    nice = command(PLAIN, replace(OPTIONS, nice=10), CPU, 8123)
    assert nice == ["nice", "-n", "10", *plain]
    assert "--enforce-eager" not in armed
    assert armed[-2:] == ["--dtype", "float32"]
    assert not {"--async-scheduling", "--no-async-scheduling", "--scheduler-cls"} & {*plain, *static, *armed}


@pytest.mark.parametrize(
    ("environment", "asked", "scheduler", "flag"),
    [
        (CPU, None, "GovernedScheduler", "--no-async-scheduling"),  # vLLM never schedules so on a CPU
        (GPU, None, "GovernedAsyncScheduler", "--async-scheduling"),
        (GPU, False, "GovernedScheduler", "--no-async-scheduling"),
    ],
)
def test_without_an_entry_point_the_scheduler_is_named(
    environment: VllmEnvironment, asked: bool | None, scheduler: str, flag: str
) -> None:
    bare = replace(environment, entry=False)
    words = command(ARMED, replace(OPTIONS, asynchronous=asked), bare, 8123)
    assert words[words.index("--scheduler-cls") + 1] == f"governors.vllm_scheduler.{scheduler}"
    assert flag in words


def test_what_the_user_says_of_speculation_wins() -> None:
    given = replace(OPTIONS, speculative={"rejection_sample_method": "synthetic", "model": "other"})
    config = speculative_config(ARMED, given)
    assert config["rejection_sample_method"] == "synthetic"
    assert config["model"] == "other"


def test_a_server_is_told_where_its_control_is_and_what_to_start_with() -> None:
    first: dict[str, object] = {"governor": "fixed", "options": {"depth": 0}}
    told = server_environment(replace(OPTIONS, untried=True), "/control", first)
    assert told["DEPTHGATE_CONTROL"] == "/control"
    assert told["DEPTHGATE_OPTIONS"] == '{"depth": 0}'
    assert told["DEPTHGATE_UNTRIED_VLLM"] == "1"


def test_versions_are_refused_in_words() -> None:
    check_version(CPU, OPTIONS, ARMED)
    with pytest.raises(GovernorError, match=r"0.19.1 was never tried \(tried: "):
        check_version(replace(CPU, release="0.19.1"), OPTIONS, PLAIN)
    runner_v2 = replace(OPTIONS, env={"VLLM_USE_V2_MODEL_RUNNER": "1"})
    with pytest.raises(EngineError, match="vllm#48494"):
        check_version(GPU, runner_v2, ARMED)
    check_version(GPU, runner_v2, PLAIN)
    check_version(replace(GPU, release="0.32.0"), runner_v2, ARMED)
