"""Probing a running server: what it is, and what to do when it is not what was asked for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from engines.contract import Endpoint, EngineError, EngineLost, EngineRequest
from engines.openai_http import ARM_PATH, OpenAIEngine, base_url
from engines.registry import ENGINES, build_engine, build_engines
from suites.model import Arm, EngineSpec
from tests.engines.serving import PROFILE, serving

pytestmark = pytest.mark.http

REQUEST = EngineRequest(arm="a", governor="off")
Answer = Callable[[web.Request], web.Response]


def models(*ids: str, owner: str = "vllm") -> Answer:
    return lambda _: web.json_response({"data": [{"id": one, "owned_by": owner} for one in ids]})


def status(code: int, text: str = "") -> Answer:
    return lambda _: web.Response(status=code, text=text)


@asynccontextmanager
async def server(routes: dict[str, Answer]) -> AsyncIterator[tuple[str, list[web.Request]]]:
    seen: list[web.Request] = []

    async def any_route(request: web.Request) -> web.Response:
        seen.append(request)
        return routes.get(request.path, status(404))(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", any_route)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", seen
    finally:
        await runner.cleanup()


def probe(routes: dict[str, Answer], model: str | None = None, suffix: str = "") -> Endpoint:
    async def run() -> Endpoint:
        async with (
            server(routes) as (url, _),
            OpenAIEngine(url + suffix, model).serve(REQUEST) as endpoint,
        ):
            return endpoint

    return asyncio.run(run())


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_picks_the_only_model(suffix: str) -> None:
    endpoint = probe({"/v1/models": models("m"), "/health": status(200)}, suffix=suffix)
    assert (endpoint.model, endpoint.engine, endpoint.is_model, endpoint.profile) == (
        "m",
        "vllm",
        False,
        None,
    )
    assert not endpoint.base_url.endswith(("/", "/v1"))


def test_a_named_model_needs_no_model_route() -> None:
    endpoint = probe({}, model="mine")
    assert (endpoint.model, endpoint.engine) == ("mine", "openai-compatible server")


@pytest.mark.parametrize(
    ("routes", "model", "words"),
    [
        ({"/v1/models": models("a", "b")}, None, "serves a, b; name one"),
        ({"/v1/models": models(*[f"m{i}" for i in range(9)])}, None, "and 3 more"),
        ({"/v1/models": models()}, None, "serves no model"),
        ({"/v1/models": models("llama-8b")}, "llama-8", "did you mean 'llama-8b'"),
        ({"/v1/models": models("x\x1b[31m\ny", "b")}, None, r"x\?\[31m\?y, b"),
        ({"/v1/models": status(401)}, None, "OPENAI_API_KEY"),
        ({"/v1/models": status(404)}, None, "OpenAI-compatible"),
        ({"/v1/models": status(302)}, None, "302"),
        ({"/v1/models": status(200, "<html>")}, None, "not JSON"),
        ({"/v1/models": status(200, "[]")}, None, "no list"),
        ({"/v1/models": status(200, '{"data": [3, {"id": 4}]}')}, None, "serves no model"),
        ({"/v1/models": models("m"), "/health": status(503)}, None, "/health says 503"),
    ],
)
def test_refusals_say_what_to_do(routes: dict[str, Answer], model: str | None, words: str) -> None:
    with pytest.raises(EngineError, match=words) as caught:
        probe(routes, model)
    assert "\n" not in str(caught.value)


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(EngineError, match=r"no connection .*start the server"):
        asyncio.run(OpenAIEngine(f"http://127.0.0.1:{port}").probe())


def test_something_that_is_no_http_server() -> None:
    async def run() -> None:
        async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"SSH-2.0-OpenSSH\r\n")
            writer.close()

        async with await asyncio.start_server(babble, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            await OpenAIEngine(f"http://127.0.0.1:{port}").probe()

    with pytest.raises(EngineError, match="is that an HTTP server"):
        asyncio.run(run())


IN_FORCE = '{"governor": "fixed", "options": {"depth": 2}}'
CHECKED = {"/v1/models": models("m"), "/health": status(200)}


def check(routes: dict[str, Answer], request: EngineRequest, *, switch: bool | None) -> list[str]:
    """Methods of the requests to /depthgate/arm."""

    async def run() -> list[str]:
        async with server(CHECKED | routes) as (url, seen):
            await OpenAIEngine(url, switch=switch).check(request)
            return [one.method for one in seen if one.path == ARM_PATH]

    return asyncio.run(run())


def test_a_server_of_one_arm_has_to_run_that_arm_if_it_says_what_it_runs() -> None:
    fixed_2 = EngineRequest("fixed_2", "fixed", {"depth": 2})
    says = {ARM_PATH: status(200, IN_FORCE)}
    assert check(says, fixed_2, switch=False) == ["GET"]
    assert check({}, fixed_2, switch=False) == ["GET"]  # most servers do not say
    assert check({ARM_PATH: status(200, "<html>")}, fixed_2, switch=False) == ["GET"]
    with pytest.raises(EngineError, match=r"runs .*'depth': 2.*, and arm 'a' is .*'off'.*mend --arm"):
        check(says, REQUEST, switch=False)


def test_an_arm_that_a_switching_server_refuses_is_said_before_the_run() -> None:
    def answer(request: web.Request) -> web.Response:
        return status(400, "depth 8 is above k_max 4")(request) if request.method == "POST" else says(request)

    says = status(200, IN_FORCE)
    assert check({ARM_PATH: says}, REQUEST, switch=True) == ["GET", "POST"]
    with pytest.raises(EngineError, match="does not switch to arm 'a' \\(400: depth 8 is above k_max 4"):
        check({ARM_PATH: answer}, REQUEST, switch=True)


def test_a_server_that_others_use_is_no_refusal_of_the_arm() -> None:
    def answer(request: web.Request) -> web.Response:
        busy = status(409, "2 requests are running or waiting")
        return (busy if request.method == "POST" else status(200, IN_FORCE))(request)

    async def serve(url: str) -> None:
        async with OpenAIEngine(url, switch=True).serve(REQUEST):
            raise AssertionError("served")

    async def run() -> None:
        async with server(CHECKED | {ARM_PATH: answer}) as (url, _):
            for attempt in (OpenAIEngine(url, switch=True).check(REQUEST), serve(url)):
                with pytest.raises(EngineLost, match=r"2 requests are .*wait until they have ended") as lost:
                    await attempt
                assert "give a server for each arm" not in str(lost.value)

    asyncio.run(run())


def test_one_arm_alone_needs_no_server_that_switches_and_takes_one_that_does() -> None:
    assert check({}, REQUEST, switch=None) == ["GET", "GET"]
    assert check({ARM_PATH: status(200, IN_FORCE)}, REQUEST, switch=None) == ["GET", "POST"]
    with pytest.raises(EngineError, match="cannot switch governors"):
        check({}, REQUEST, switch=True)


def test_two_arms_on_one_server_need_its_switch_and_one_beside_arms_of_their_own_does_not() -> None:
    spec, own = EngineSpec("openai", url="http://a:1"), Arm("own", "off", url="http://b:1")
    arms = [Arm("a", "off"), Arm("b", "fixed")]

    def switches(*arms: Arm) -> dict[str, object]:
        return {name: vars(engine)["_switch"] for name, engine in build_engines(spec, arms).items()}

    assert switches(*arms, own) == {"a": True, "b": True, "own": False}
    assert switches(arms[0], own) == {"a": None, "own": False}


def test_how_deep_a_server_drafts_is_its_own_word() -> None:
    async def asked(answer: Answer) -> int | None:
        async with server({ARM_PATH: answer}) as (url, _):
            return await OpenAIEngine(url).k_max()

    assert asyncio.run(asked(status(200, '{"governor": "off", "k_max": 4}'))) == 4
    assert asyncio.run(asked(status(200, IN_FORCE))) is None
    assert asyncio.run(asked(status(404))) is None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("localhost:8000", "not an http"),
        ("ftp://x", "not an http"),
        ("http://", "not an http"),
        ("http://x:99999", "http://HOST:PORT"),
        ("http://user:secret@x", "no credentials"),
        ("http://x/?key=secret", "no credentials"),
    ],
)
def test_bad_urls(url: str, words: str) -> None:
    with pytest.raises(EngineError, match=words) as caught:
        base_url(url)
    assert "secret" not in str(caught.value)


def test_the_key_goes_into_the_header_alone_and_follows_no_redirect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")

    async def run() -> tuple[list[str | None], list[str | None]]:
        async with server({"/v1/models": models("m")}) as (elsewhere, stolen):
            away: Answer = lambda _: web.Response(status=307, headers={"Location": f"{elsewhere}/v1/models"})  # noqa: E731
            async with server({"/v1/models": away}) as (url, seen):
                with pytest.raises(EngineError, match="307") as caught:
                    await OpenAIEngine(url).probe()
                assert "secret" not in str(caught.value)
            return [r.headers.get("Authorization") for r in seen], [r.headers.get("x") for r in stolen]

    keys, stolen = asyncio.run(run())
    assert set(keys) == {"Bearer sk-secret"}
    assert stolen == []


def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-\nsecret")
    with pytest.raises(EngineError, match="set it anew") as caught:
        probe({"/v1/models": models("m")})
    assert "secret" not in str(caught.value)


def test_recognises_an_embedded_engine_at_the_other_end() -> None:
    async def run() -> Endpoint:
        async with serving() as served:
            return await OpenAIEngine(served.url).probe()

    endpoint = asyncio.run(run())
    assert endpoint.is_model
    assert endpoint.engine == "embedded engine (model)"
    assert endpoint.profile == PROFILE
    assert endpoint.drafter_class == "eagle"


def test_recognises_an_embedded_engine_whose_metrics_are_hidden() -> None:
    endpoint = probe({"/v1/models": models("m", owner="depthgate embedded engine (model)")})
    assert endpoint.is_model
    assert endpoint.profile is None


ARM = Arm("off", "off")


def test_registry_builds_both_kinds() -> None:
    assert set(ENGINES) == {"embedded", "vllm", "openai"}
    build_engine(EngineSpec("embedded", profile=PROFILE), ARM)
    build_engine(EngineSpec("openai"), Arm("off", "off", url="http://a:1"))
    build_engine(EngineSpec("openai", url="http://a:1"))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (EngineSpec("embeded", profile=PROFILE), "did you mean 'embedded'"),
        (EngineSpec("zzz"), "known: embedded, vllm, openai"),
        (EngineSpec("embedded"), "no profile"),
        (EngineSpec("openai"), "arm 'off' has no url"),
        (EngineSpec("openai", url="nope"), "not an http"),
    ],
)
def test_registry_refusals(spec: EngineSpec, words: str) -> None:
    with pytest.raises(EngineError, match=words):
        build_engine(spec, ARM)
