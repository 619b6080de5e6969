"""What a client gets back: completions, whole or as server-sent events, in OpenAI's and vLLM's shape.

Everything constant in a request's chunks is encoded once, a chunk is then one join of bytes: 32 streams at
steps of 4 ms leave 25 us a chunk. Words need no JSON escaping (text.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from engines.embedded.api import ApiRequest
from engines.embedded.text import TokenText

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class ReplyIdentity:
    """What every answer says about its origin: `fingerprint` names the embedded engine and the profile."""

    reply_id: str
    created: int
    model: str
    fingerprint: str


def usage_of(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """The usage object of an answer."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }


def whole_reply(
    identity: ReplyIdentity, request: ApiRequest, text: TokenText, tokens: int, finish_reason: str
) -> bytes:
    """The JSON body of a request that is not streamed."""
    content = text.piece(0, tokens).decode()
    choice: dict[str, object] = {"index": 0, "logprobs": None, "finish_reason": finish_reason}
    choice |= {"message": {"role": "assistant", "content": content}} if request.chat else {"text": content}
    if request.return_token_ids:
        choice["token_ids"] = text.ids(0, tokens)
    kind = "chat.completion" if request.chat else "text_completion"
    body = _envelope(identity, kind) | {"choices": [choice], "usage": usage_of(request.prompt_tokens, tokens)}
    return orjson.dumps(body)


class EventWriter:
    """Server-sent events of one streamed request."""

    __slots__ = ("_envelope", "_head", "_middle", "_open", "_request", "_tail", "_text")

    def __init__(self, identity: ReplyIdentity, request: ApiRequest, text: TokenText) -> None:
        self._request = request
        self._text = text
        kind = "chat.completion.chunk" if request.chat else "text_completion"
        self._envelope = b"data: " + orjson.dumps(_envelope(identity, kind))[:-1]
        self._head = self._envelope + (
            b',"choices":[{"index":0,"delta":{"content":"'
            if request.chat
            else b',"choices":[{"index":0,"text":"'
        )
        self._middle = (
            b'"},"logprobs":null,"finish_reason":' if request.chat else b'","logprobs":null,"finish_reason":'
        )
        self._open = self._middle + b"null"
        usage = b',"usage":{"prompt_tokens":' + str(request.prompt_tokens).encode()
        self._tail = (
            usage + b',"total_tokens":%d,"completion_tokens":%d}}\n\n' if request.continuous_usage else b""
        )

    def first(self) -> bytes:
        """The role event that opens a chat stream; nothing on the completions route."""
        if not self._request.chat:
            return b""
        role = b',"choices":[{"index":0,"delta":{"role":"assistant","content":""}'
        return self._envelope + role + b',"logprobs":null,"finish_reason":null}]' + self._end(0)

    def content(self, start: int, stop: int, finish_reason: str | None) -> bytes:
        """One event with the tokens start..stop-1, and the finish reason when they are the last."""
        middle = self._open if finish_reason is None else self._middle + b'"%b"' % finish_reason.encode()
        if self._request.return_token_ids:
            middle += b',"token_ids":' + orjson.dumps(self._text.ids(start, stop))
        return b"".join((self._head, self._text.piece(start, stop), middle, b"}]", self._end(stop)))

    def closing(self, tokens: int) -> bytes:
        """The usage event with `choices: []`, if it was asked for, and the terminal event."""
        if not self._request.include_usage:
            return DONE
        usage = orjson.dumps(usage_of(self._request.prompt_tokens, tokens))
        return self._envelope + b',"choices":[],"usage":' + usage + b"}\n\n" + DONE

    def _end(self, tokens: int) -> bytes:
        if not self._tail:
            return b"}\n\n"
        return self._tail % (self._request.prompt_tokens + tokens, tokens)


def error_event(message: str) -> bytes:
    """An error inside a 200 stream, as vLLM sends it; no terminal event follows: no client counts it done."""
    error = {"message": message, "type": "internal_error", "param": None, "code": None}
    return b"data: " + orjson.dumps({"error": error}) + b"\n\n"


def _envelope(identity: ReplyIdentity, kind: str) -> dict[str, object]:
    return {
        "id": identity.reply_id,
        "object": kind,
        "created": identity.created,
        "model": identity.model,
        "system_fingerprint": identity.fingerprint,
    }
