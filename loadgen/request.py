"""What a request says, whichever client sends it: its route, its headers, its body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import orjson

from engines.api_key import auth_headers
from loadgen.traffic import Prompt
from suites.model import LoadSpec

ROUTES = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """`timeout_s`: a request's deadline, from its due time. `extra_body`: fields added to every body.

    `usage`, `continuous_usage`: ask for token counts; leave out only for a server that rejects them.
    `keep_text`: exchanges hold what was said.
    """

    route: str = "chat"
    timeout_s: float = 300.0
    usage: bool = True
    continuous_usage: bool = True
    extra_body: dict[str, object] = field(default_factory=dict)
    keep_text: bool = False

    @classmethod
    def of(cls, load: LoadSpec) -> Self:
        """What a suite's load says of its requests."""
        return cls(load.route, load.timeout_s, extra_body=dict(load.body or {}))


def request_headers() -> dict[str, str]:
    """Of every request, with the API key. Raises EngineError for a key that no header can carry."""
    plain = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",
    }
    return plain | auth_headers()


def header_lines(headers: dict[str, str]) -> bytes:
    """Header lines. Raises ValueError on a line break inside a value, such as a key pasted with one."""
    for name, value in headers.items():
        if "\r" in value or "\n" in value:
            raise ValueError(f"header {name} holds a line break; remove it")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()


def request_body(
    model: str, settings: ClientSettings, prompt: Prompt, before: Sequence[Mapping[str, str]] = ()
) -> bytes:
    """The JSON body. `before`: messages of the conversation's earlier turns (chat route)."""
    body: dict[str, Any] = {"model": model, "stream": True, "temperature": 0}
    if settings.route == "chat":
        body["messages"] = [*before, {"role": "user", "content": prompt.text}]
    else:
        body["prompt"] = prompt.text
    body |= {"max_tokens": prompt.max_tokens, "seed": prompt.seed}
    if settings.usage:
        options = {"include_usage": True}
        body["stream_options"] = (
            options | {"continuous_usage_stats": True} if settings.continuous_usage else options
        )
    if prompt.ignore_eos:
        body["ignore_eos"] = True
    if prompt.min_tokens is not None:
        body["min_tokens"] = prompt.min_tokens
    return orjson.dumps(body | settings.extra_body | dict(prompt.body or {}))
