"""What a client may ask of the completion routes: a JSON body in, a checked ApiRequest out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import unquote

from engines.embedded.faults import ApiError, shown
from engines.embedded.text import Prompt, count_tokens

CLASS_HEADER = "X-Depthgate-Class"
_COMPLETION_DEFAULT_TOKENS = 16  # OpenAI's and vLLM's default on /v1/completions
_SEEDS = (-(2**63), 2**63 - 1)


@dataclass(frozen=True, slots=True)
class ApiLimits:
    """What the served model can take. `kv_tokens`: tokens that the whole KV cache holds."""

    model: str
    max_model_len: int
    kv_tokens: int

    @property
    def context(self) -> int:
        """Prompt and output tokens that a single request may have."""
        return min(self.max_model_len, self.kv_tokens)


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A checked request. `seed` None: the server's own. `continuous_usage` implies `include_usage`."""

    chat: bool
    prompt: Prompt
    prompt_tokens: int
    max_tokens: int
    min_tokens: int
    ignore_eos: bool
    seed: int | None
    stream: bool
    include_usage: bool
    continuous_usage: bool
    return_token_ids: bool


def parse_request(body: object, *, chat: bool, limits: ApiLimits) -> ApiRequest:
    """Raises ApiError: 404 for another model, 400 for everything else that cannot be served as asked."""
    fields = Fields(body)
    _check_model(fields, limits.model)
    _refuse_unsupported(fields)
    prompt = _chat_prompt(fields) if chat else _completion_prompt(fields)
    prompt_tokens = max(1, count_tokens(prompt))
    max_tokens = _max_tokens(fields, prompt_tokens, limits, chat=chat)
    stream = fields.boolean("stream")
    include, continuous = _stream_options(fields, stream=stream)
    return ApiRequest(
        chat=chat,
        prompt=prompt,
        prompt_tokens=prompt_tokens,
        max_tokens=max_tokens,
        min_tokens=_min_tokens(fields, max_tokens),
        ignore_eos=fields.boolean("ignore_eos"),
        seed=fields.integer("seed", *_SEEDS),
        stream=stream,
        include_usage=include,
        continuous_usage=continuous,
        return_token_ids=fields.boolean("return_token_ids"),
    )


def parse_traffic_class(header: str | None) -> str:
    """The request's traffic class from X-Depthgate-Class (percent-encoded, as headers are ASCII).

    It picks the acceptance process and the length; a class that the profile does not list is as "default".
    """
    if header is None:
        return "default"
    if not header.isascii() or not header.isprintable() or not 0 < len(header) <= 64:
        raise ApiError(
            f"{CLASS_HEADER}={shown(header)}: must be 1 to 64 printable ASCII characters; or leave it out"
        )
    return unquote(header)


class Fields:
    """Typed reads from a JSON object; JSON null counts as absent. A wrong type raises ApiError."""

    def __init__(self, body: object, path: str = "") -> None:
        if not isinstance(body, dict):
            where = f"{path[:-1]} = {shown(body)}" if path else f"the body is {shown(body)}"
            raise ApiError(f"{where}: must be a JSON object", param=path[:-1] or None)
        self._values = cast(Mapping[str, object], body)
        self._path = path

    def get(self, name: str) -> object:
        return self._values.get(name)

    def fault(self, name: str, mend: str) -> ApiError:
        field = self._path + name
        return ApiError(f"{field} = {shown(self.get(name))}: {mend}", param=field)

    def boolean(self, name: str) -> bool:
        value = self.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.fault(name, "must be true or false")
        return value

    def integer(self, name: str, low: int, high: int | None = None) -> int | None:
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fault(name, "must be an integer")
        if value < low or (high is not None and value > high):
            bound = f"at least {low}" if high is None else f"from {low} to {high}"
            raise self.fault(name, f"must be {bound}")
        return value

    def number(self, name: str, low: float) -> None:
        """Checks a sampling parameter that the model of the engine has no use for."""
        value = self.get(name)
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int | float) or value < low:
            raise self.fault(name, f"must be a number of at least {low:g}")


def _check_model(fields: Fields, served: str) -> None:
    model = fields.get("model")
    if model is None or model == served:
        return
    if not isinstance(model, str):
        raise fields.fault("model", f"must be a string; this server has {served!r}")
    raise ApiError(
        f"model = {shown(model)}: not served here; ask for {served!r} or leave model out",
        status=404,
        param="model",
        code="model_not_found",
    )


def _refuse_unsupported(fields: Fields) -> None:
    fields.number("temperature", 0.0)
    for name in ("n", "best_of"):
        if fields.integer(name, 1) not in (None, 1):
            raise fields.fault(
                name, "the embedded engine gives one choice a request; send n requests instead"
            )
    for name in ("logprobs", "top_logprobs", "prompt_logprobs", "echo"):
        if fields.get(name) not in (None, False):
            raise fields.fault(name, "the embedded engine models time, not probabilities; leave it out")
    _check_stops(fields)


def _check_stops(fields: Fields) -> None:
    """Output is lower-case words and spaces: a stop sequence of other characters can never match."""
    stop = fields.get("stop")
    stops = [stop] if isinstance(stop, str) else stop
    if stops is None:
        return
    if not isinstance(stops, list) or not all(isinstance(one, str) for one in stops):
        raise fields.fault("stop", "must be a string or a list of strings")
    if any(one and set(one) <= set(" abcdefghijklmnopqrstuvwxyz") for one in stops):
        raise fields.fault("stop", "the embedded engine does not stop at words; use max_tokens")


def _chat_prompt(fields: Fields) -> str:
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise fields.fault("messages", "must be a non-empty list of {role, content} objects")
    return "\n".join(
        _message_text(Fields(message, f"messages[{at}].")) for at, message in enumerate(messages)
    )


def _message_text(message: Fields) -> str:
    if not isinstance(message.get("role"), str):
        raise message.fault("role", 'must be a string such as "user"')
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None and message.get("role") == "assistant":
        return ""
    if not isinstance(content, list):
        raise message.fault("content", "must be a string or a list of text parts")
    parts = [part.get("text") if isinstance(part, dict) else None for part in content]
    if not all(isinstance(part, str) for part in parts):
        raise message.fault(
            "content", 'parts must be {"type": "text", "text": ...}; the embedded engine reads text only'
        )
    return "".join(cast(list[str], parts))


def _completion_prompt(fields: Fields) -> Prompt:
    prompt = fields.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str) and prompt:
        return prompt
    if isinstance(prompt, list) and prompt and all(type(one) is int and 0 <= one < 2**31 for one in prompt):
        return tuple(cast(list[int], prompt))
    if isinstance(prompt, list) and len(prompt) > 1 and all(isinstance(one, str | list) for one in prompt):
        raise fields.fault("prompt", "one prompt a request; send a request for each of them")
    raise fields.fault(
        "prompt", "must be a non-empty string or list of token ids (integers from 0 to 2^31-1)"
    )


def _max_tokens(fields: Fields, prompt_tokens: int, limits: ApiLimits, *, chat: bool) -> int:
    name = "max_completion_tokens" if fields.get("max_completion_tokens") is not None else "max_tokens"
    asked = fields.integer(name, 1)
    room = limits.context - prompt_tokens
    if room < 1:
        raise _too_long("messages" if chat else "prompt", f"{prompt_tokens} prompt tokens", limits)
    if asked is None:
        return room if chat else min(room, _COMPLETION_DEFAULT_TOKENS)
    if asked > room:
        raise _too_long(
            name, f"{name} = {shown(asked)} after {prompt_tokens} prompt tokens", limits, f"at most {room}"
        )
    return asked


def _too_long(param: str, what: str, limits: ApiLimits, mend: str = "a shorter prompt") -> ApiError:
    bound = (
        f"the model's context is {limits.max_model_len} tokens"
        if limits.max_model_len <= limits.kv_tokens
        else f"the KV cache holds {limits.kv_tokens} tokens"
    )
    return ApiError(f"{what}: {bound}; ask for {mend}", param=param, code="context_length_exceeded")


def _min_tokens(fields: Fields, max_tokens: int) -> int:
    asked = fields.integer("min_tokens", 0) or 0
    if asked > max_tokens:
        raise fields.fault("min_tokens", f"must not exceed max_tokens ({max_tokens})")
    return asked


def _stream_options(fields: Fields, *, stream: bool) -> tuple[bool, bool]:
    """(include_usage, continuous_usage), by vLLM's rule: continuous usage needs include_usage."""
    if fields.get("stream_options") is None:
        return False, False
    options = Fields(fields.get("stream_options"), "stream_options.")
    include = options.boolean("include_usage")
    continuous = options.boolean("continuous_usage_stats")
    if not stream:
        raise fields.fault("stream_options", "only with stream = true; set it or leave stream_options out")
    return include, include and continuous
