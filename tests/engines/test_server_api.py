"""What a client may ask: each refusal in OpenAI's error shape, naming field, value and mend."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.embedded.api import ApiLimits, ApiRequest, parse_request, parse_traffic_class
from engines.embedded.faults import ApiError
from tests.engines.serving import chat, serving

pytestmark = pytest.mark.http

LIMITS = ApiLimits("served", max_model_len=1000, kv_tokens=5000)


def parse(body: object, *, is_chat: bool = True, limits: ApiLimits = LIMITS) -> ApiRequest:
    return parse_request(body, chat=is_chat, limits=limits)


@pytest.mark.parametrize(
    ("change", "param", "words"),
    [
        ({"max_tokens": 0}, "max_tokens", "at least 1"),
        ({"max_tokens": "12"}, "max_tokens", "must be an integer"),
        ({"max_tokens": True}, "max_tokens", "must be an integer"),
        ({"max_tokens": 1.5}, "max_tokens", "must be an integer"),
        ({"max_tokens": 998}, "max_tokens", "at most 997"),
        ({"max_tokens": 10**18}, "max_tokens", "1000000000000000000"),
        ({"max_completion_tokens": -3}, "max_completion_tokens", "at least 1"),
        ({"min_tokens": 13}, "min_tokens", "must not exceed max_tokens (12)"),
        ({"n": 2}, "n", "send n requests"),
        ({"n": 0}, "n", "at least 1"),
        ({"best_of": 3}, "best_of", "one choice"),
        ({"logprobs": True}, "logprobs", "not probabilities"),
        ({"stop": " the"}, "stop", "use max_tokens"),
        ({"stop": [3]}, "stop", "list of strings"),
        ({"seed": 2**63}, "seed", "from -9223372036854775808"),
        ({"temperature": -1}, "temperature", "at least 0"),
        ({"temperature": "hot"}, "temperature", "must be a number"),
        ({"stream": "yes"}, "stream", "true or false"),
        ({"ignore_eos": 1}, "ignore_eos", "true or false"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "only with stream"),
        ({"stream": True, "stream_options": []}, "stream_options", "JSON object"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage", "true or"),
        ({"messages": []}, "messages", "non-empty list"),
        ({"messages": "hi"}, "messages", "non-empty list"),
        ({"messages": ["hi"]}, "messages[0]", "JSON object"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role", "must be a string"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "string or a list"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content",
            "text only",
        ),
        ({"messages": [{"role": "user", "content": "x" * 4000}]}, "messages", "1000 tokens"),
        ({"model": 7}, "model", "must be a string"),
    ],
)
def test_chat_refusals_name_field_value_and_mend(change: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse(chat(**change))
    assert caught.value.status == 400
    assert caught.value.param == param
    assert words in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    "prompt",
    [None, "", [], 5, {}, [1, "a"], [1, -1], [1, 2**31], [True], [1.0], ["a", "b"], [[1], [2]], [[]], [None]],
)
def test_bad_completion_prompts(prompt: object) -> None:
    with pytest.raises(ApiError) as caught:
        parse({"prompt": prompt}, is_chat=False)
    assert caught.value.param == "prompt"


@pytest.mark.parametrize(("prompt", "tokens"), [("abcde", 2), ([5, 6, 7], 3), (["abcde"], 2), ([[5, 6]], 2)])
def test_completion_prompts(prompt: object, tokens: int) -> None:
    asked = parse({"prompt": prompt}, is_chat=False)
    assert (asked.prompt_tokens, asked.max_tokens) == (tokens, 16)


def test_chat_defaults_and_aliases() -> None:
    asked = parse({"messages": [{"role": "user", "content": "abcde"}]})
    assert (asked.max_tokens, asked.seed, asked.stream) == (998, None, False)
    both = parse(chat(max_tokens=5, max_completion_tokens=7))
    assert both.max_tokens == 7
    parts = [{"type": "text", "text": "ab"}, {"type": "text", "text": "cd"}]
    assert parse({"messages": [{"role": "user", "content": parts}]}).prompt == "abcd"
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": []}]
    assert parse({"messages": turns}).prompt == "a\n"
    assert parse(chat(stop=["</s>", "Question:"], temperature=0.0, top_p=1)).max_tokens == 12


def test_continuous_usage_needs_include_usage_as_in_vllm() -> None:
    only = parse(chat(stream=True, stream_options={"continuous_usage_stats": True}))
    assert (only.include_usage, only.continuous_usage) == (False, False)
    both = parse(chat(stream=True, stream_options={"continuous_usage_stats": True, "include_usage": True}))
    assert (both.include_usage, both.continuous_usage) == (True, True)


def test_the_kv_cache_bounds_a_request_too() -> None:
    with pytest.raises(ApiError, match="KV cache holds 100 tokens"):
        parse(chat(max_tokens=200), limits=ApiLimits("served", 1000, 100))


def test_traffic_class_header() -> None:
    assert parse_traffic_class(None) == "default"
    assert parse_traffic_class("gsm8k") == "gsm8k"
    assert parse_traffic_class("caf%C3%A9") == "café"
    for bad in ("", "x" * 65, "a\tb", "é"):
        with pytest.raises(ApiError, match="X-Depthgate-Class"):
            parse_traffic_class(bad)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = [
    "messages",
    "prompt",
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "n",
    "best_of",
    "logprobs",
    "echo",
    "stop",
    "stream",
    "stream_options",
    "seed",
    "temperature",
    "ignore_eos",
    "model",
    "return_token_ids",
]


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=6), st.booleans(), st.booleans())
def test_any_json_is_served_or_refused_in_words(body: dict[str, object], is_chat: bool, sound: bool) -> None:
    base = {"messages": [{"role": "user", "content": "hi"}], "prompt": "hi"} if sound else {}
    outcome = parsed({**base, **body}, is_chat)
    if isinstance(outcome, ApiError):
        assert outcome.status in (400, 404)
        assert outcome.message.isascii()
        assert len(outcome.message) < 400
    else:
        assert 1 <= outcome.max_tokens <= 1000 - outcome.prompt_tokens


def parsed(body: object, is_chat: bool) -> ApiRequest | ApiError:
    """Anything but these two is a fault of ours, and passes through."""
    try:
        return parse(body, is_chat=is_chat)
    except ApiError as error:
        return error


def test_http_faults_have_the_openai_shape() -> None:
    async def ask() -> list[tuple[int, dict[str, Any]]]:
        async with serving() as served:
            chat_path = "/v1/chat/completions"
            bad = [b"{", b"", b"\xff\xfe", b"[]", b'"hi"', b'{"messages": NaN}', b"[" * 5000]
            answers = [await served.post(chat_path, raw) for raw in bad]
            answers.append(await served.post(chat_path, chat(max_tokens=10**12)))
            answers.append(await served.post(chat_path, chat(model="gpt-4")))
            answers.append(await served.post("/v1/embeddings", {}))
            answers.append(await served.post("/v1/models", {}))
            answers.append(await served.post("/v1/completions", b"x" * (9 * 1024 * 1024)))
            answers.append(await served.post(chat_path, chat(), **{"X-Depthgate-Class": "y" * 100}))
            assert served.core.totals.steps == 0
            return answers

    answers = asyncio.run(ask())
    assert [status for status, _ in answers] == [400] * 8 + [404, 404, 405, 413, 400]
    for _, body in answers:
        assert set(body["error"]) == {"message", "type", "param", "code"}
        assert body["error"]["message"].isascii()
    assert answers[8][1]["error"]["code"] == "model_not_found"
    assert answers[7][1]["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize(("status", "kind"), [(429, "rate_limit_error"), (503, "service_unavailable_error")])
def test_refuses_above_the_configured_load(status: int, kind: str) -> None:
    async def ask() -> tuple[list[int], dict[str, Any], float, int]:
        async with serving(engine_options={"refuse_above": 2, "refuse_status": status}) as served:
            asked = [served.post("/v1/chat/completions", chat(f"p{i}")) for i in range(5)]
            answers = await asyncio.gather(*asked)
            refused = [body for code, body in answers if code != 200]
            after, _ = await served.post("/v1/chat/completions", chat("later"))
            metrics = await served.metrics()
            return (
                [code for code, _ in answers],
                refused[0],
                metrics["depthgate:requests_refused_total"],
                after,
            )

    codes, body, refused, after = asyncio.run(ask())
    assert sorted(codes) == sorted([200] * 2 + [status] * 3)
    assert body["error"]["type"] == kind
    assert "refuse_above is 2" in body["error"]["message"]
    assert refused == 3
    assert after == 200


def test_a_request_that_only_the_core_can_refuse_is_a_400() -> None:
    """The draft slots of a speculative engine round up to whole blocks: the core has the last word."""

    async def ask() -> tuple[int, dict[str, Any]]:
        async with serving("fixed", {"depth": 2}, {"kv_blocks": 4, "max_model_len": 4096}) as served:
            capacity = served.assembled.kv_tokens
            assert served.core.kv_blocks_total == 4
            return await served.post("/v1/chat/completions", chat("abcd", max_tokens=capacity + 50))

    status, body = asyncio.run(ask())
    assert status == 400
    assert body["error"]["code"] == "context_length_exceeded"


def test_unicode_prompts_are_served() -> None:
    async def ask() -> list[int]:
        async with serving() as served:
            texts = ["日本語 🌟", "a\u0000b", "\u202eright to left", "x" * 3000]
            answers = [await served.post("/v1/chat/completions", chat(text, max_tokens=2)) for text in texts]
            lone = b'{"messages":[{"role":"user","content":"\\ud800"}]}'
            answers.append(await served.post("/v1/chat/completions", lone))
            return [code for code, _ in answers]

    assert asyncio.run(ask()) == [200, 200, 200, 200, 400]


def test_orjson_refuses_lone_surrogates() -> None:
    """The route relies on it: a prompt that reaches the text stream is valid Unicode."""
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(b'"\\ud800"')
