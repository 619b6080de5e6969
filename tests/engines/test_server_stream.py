"""Streams over real HTTP: their shape, true counts, text whatever the governor, readers that leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import openai
import pytest

from engines.embedded.api import ApiRequest
from engines.embedded.outlet import SLOW_READER_BYTES, StreamOutlet
from engines.embedded.replies import EventWriter, ReplyIdentity
from engines.embedded.text import TokenText
from tests.engines.serving import SCHEDULE, Served, chat, parse_events, serving, streamed_text, until

pytestmark = pytest.mark.http

USAGE = {"include_usage": True, "continuous_usage_stats": True}
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def test_chat_stream_has_vllms_shape() -> None:
    async def ask() -> list[dict[str, Any]]:
        async with serving("fixed", {"depth": 2}) as served:
            return await served.events(CHAT, chat("abcdefgh", max_tokens=30, stream_options=USAGE))

    events = asyncio.run(ask())
    role, *content, usage = events
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert role["usage"]["completion_tokens"] == 0
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 2, "total_tokens": 32, "completion_tokens": 30}
    seen = 0
    for event in content:
        tokens = event["usage"]["completion_tokens"] - seen
        assert len(event["choices"][0]["delta"]["content"].split()) == tokens > 0
        seen += tokens
    assert seen == 30
    assert [event["choices"][0]["finish_reason"] for event in content] == [None] * (len(content) - 1) + [
        "length"
    ]
    assert 30 / 3 <= len(content) < 30  # several tokens a chunk, at most K + 1
    assert {event["model"] for event in events} == {"embedded/h200-qwen3-4b-eagle"}
    assert {event["system_fingerprint"] for event in events} == {
        "depthgate embedded engine (model), profile h200-qwen3-4b-eagle"
    }
    assert len({event["id"] for event in events}) == 1


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_usage": True}])
def test_usage_comes_only_when_asked_for(options: Mapping[str, object] | None) -> None:
    async def ask() -> list[dict[str, Any]]:
        async with serving() as served:
            return await served.events(CHAT, chat(stream_options=options))

    events = asyncio.run(ask())
    wanted = bool(options and options.get("include_usage"))
    assert ["usage" in event for event in events] == [False] * (len(events) - 1) + [wanted]


def test_whole_and_streamed_answers_agree_on_both_routes() -> None:
    async def ask() -> list[str]:
        async with serving("fixed", {"depth": 2}) as served:
            texts = []
            for path, body in ((CHAT, chat("same")), (COMPLETIONS, {"prompt": "same", "max_tokens": 12})):
                asked = {**body, "ignore_eos": True, "seed": 4, "return_token_ids": True}
                status, whole = await served.post(path, asked)
                assert status == 200
                assert whole["usage"]["completion_tokens"] == 12
                choice = whole["choices"][0]
                events = await served.events(path, asked)
                ids = [i for event in events for c in event["choices"] for i in c.get("token_ids", [])]
                assert ids == choice["token_ids"]
                texts += [
                    streamed_text(events),
                    choice["message"]["content"] if path == CHAT else choice["text"],
                ]
            return texts

    assert len(set(asyncio.run(ask()))) == 1


def test_greedy_text_is_the_same_whatever_the_governor() -> None:
    async def ask(governor: str, options: Mapping[str, object]) -> list[str]:
        async with serving(governor, options) as served:
            bodies = [chat(f"prompt {i}", max_tokens=25, seed=i % 2, ignore_eos=i > 2) for i in range(5)]
            return [streamed_text(events) for events in await _all(served, bodies)]

    async def _all(served: Served, bodies: list[dict[str, object]]) -> list[list[dict[str, Any]]]:
        return list(await asyncio.gather(*(served.events(CHAT, body) for body in bodies)))

    arms: list[tuple[str, Mapping[str, object]]] = [
        ("off", {}),
        ("fixed", {"depth": 2}),
        ("schedule", SCHEDULE),
    ]
    texts = [asyncio.run(ask(governor, options)) for governor, options in arms]
    assert texts[0] == texts[1] == texts[2]
    assert len(set(texts[0])) == 5


def test_length_follows_the_class_and_min_tokens() -> None:
    async def ask() -> tuple[int, int, str]:
        async with serving("fixed", {"depth": 2}) as served:
            body = {"prompt": "a", "max_tokens": 2000, "seed": 1}
            _, short = await served.post(COMPLETIONS, body, **{"X-Depthgate-Class": "gsm8k"})
            own = short["usage"]["completion_tokens"]
            _, longer = await served.post(
                COMPLETIONS, {**body, "min_tokens": own + 7}, **{"X-Depthgate-Class": "gsm8k"}
            )
            return own, longer["usage"]["completion_tokens"], short["choices"][0]["finish_reason"]

    own, longer, reason = asyncio.run(ask())
    assert longer == own + 7
    assert reason == "stop"


def test_openai_client_streams_with_usage_and_sees_its_own_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    async def ask() -> None:
        async with serving("fixed", {"depth": 2}, {"refuse_above": 1}) as served:
            client = openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0)
            async with client:
                model = (await client.models.list()).data[0].id
                messages: Any = [{"role": "user", "content": "hello"}]
                stream = await client.chat.completions.create(
                    model=model,
                    messages=messages,
                    max_tokens=20,
                    stream=True,
                    stream_options={"include_usage": True},
                    extra_body={"ignore_eos": True},
                )
                chunks = [chunk async for chunk in stream]
                assert chunks[-1].usage is not None
                assert chunks[-1].usage.completion_tokens == 20
                text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
                assert len(text.split()) == 20
                whole = await client.completions.create(model=model, prompt=[1, 2, 3], max_tokens=4)
                assert whole.usage is not None
                assert whole.usage.prompt_tokens == 3
                assert "embedded engine" in (whole.system_fingerprint or "")
                with pytest.raises(openai.BadRequestError, match="n = 3"):
                    await client.chat.completions.create(model=model, messages=messages, n=3)
                with pytest.raises(openai.NotFoundError):
                    await client.chat.completions.create(model="other", messages=messages)
                long = asyncio.create_task(served.events(CHAT, chat(max_tokens=400)))
                await until(lambda: served.core.running + served.core.waiting > 0)
                with pytest.raises(openai.RateLimitError, match="refuse_above"):
                    await client.chat.completions.create(model=model, messages=messages)
                long.cancel()

    asyncio.run(ask())


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_request_and_blocks(stream: bool) -> None:
    async def ask() -> None:
        async with serving("fixed", {"depth": 2}) as served:
            body = chat("leaves", max_tokens=3000, stream=stream)
            leaving = asyncio.create_task(served.client.post(CHAT, json=body))
            await until(lambda: served.core.running == 1)
            assert served.core.kv_blocks_free < served.core.kv_blocks_total
            if stream:
                response = await leaving
                await response.content.readany()
                response.close()
            else:
                leaving.cancel()
            await until(lambda: served.core.running == 0)
            assert served.core.kv_blocks_free == served.core.kv_blocks_total
            assert served.core.totals.requests_cancelled == 1
            metrics = await served.metrics()
            assert metrics["vllm:request_success_total[abort]"] == 1
            assert (await served.post(CHAT, chat()))[0] == 200

    asyncio.run(ask())


def test_a_client_that_leaves_while_waiting_is_freed() -> None:
    async def ask() -> None:
        async with serving(engine_options={"max_num_seqs": 1}) as served:
            first = asyncio.create_task(served.events(CHAT, chat(max_tokens=300)))
            await until(lambda: served.core.running == 1)
            second = asyncio.create_task(served.post(CHAT, chat("second")))
            await until(lambda: served.core.waiting == 1)
            second.cancel()
            await until(lambda: served.core.waiting == 0)
            assert served.core.running == 1
            first.cancel()

    asyncio.run(ask())


def test_http_1_0_gets_an_unframed_stream() -> None:
    async def ask() -> bytes:
        async with serving("fixed", {"depth": 2}) as served:
            host, port = served.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            body = json.dumps(chat(max_tokens=20, stream=True)).encode()
            head = f"POST {CHAT} HTTP/1.0\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            writer.write(head + body)
            answer = await reader.read()
            writer.close()
            return answer

    head, _, body = asyncio.run(ask()).partition(b"\r\n\r\n")
    assert b"chunked" not in head.lower()
    assert len(streamed_text(parse_events(body)).split()) == 20


class Pipe:
    """A transport whose reader can stop reading."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.unsent = 0

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def write(self, data: bytes) -> None:
        self.written += data


def test_a_slow_reader_gets_merged_events_and_holds_no_memory() -> None:
    request = ApiRequest(True, "p", 1, 5000, 0, True, None, True, True, True, False)
    events = EventWriter(ReplyIdentity("id", 0, "m", "f"), request, TokenText(1))

    async def stream() -> bytes:
        outlet = StreamOutlet(asyncio.get_running_loop(), events, "length")
        outlet.advance(1, False)
        assert outlet.started.done()
        pipe = Pipe()
        first = outlet.take()
        outlet.attach(pipe, chunked=False)  # type: ignore[arg-type]
        pipe.unsent = SLOW_READER_BYTES + 1
        for _ in range(2000):
            outlet.advance(2, False)
        assert pipe.written == b""
        pipe.unsent = 0
        outlet.advance(2, False)
        merged = len(parse_events(first + bytes(pipe.written) + b"data: [DONE]\n\n"))
        assert merged == 3  # role, the first token, and all the rest in one
        pipe.unsent = SLOW_READER_BYTES + 1
        outlet.advance(1, True)
        assert outlet.done.done()
        assert outlet.pending
        return first + bytes(pipe.written) + outlet.take()

    got = parse_events(asyncio.run(stream()))
    assert streamed_text(got) == TokenText(1).piece(0, 4004).decode()
    assert got[-1]["usage"]["completion_tokens"] == 4004
