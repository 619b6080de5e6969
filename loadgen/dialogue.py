"""Conversations under way: a turn carries what was said before it, the server's own answers included."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from loadgen.sse import SseParser
from loadgen.traffic import Prompt
from loadgen.transcript import DONE, TEXT_FIELDS

Message = dict[str, str]
CONTENT = ("content",)  # what a client sends back; reasoning is dropped by chat templates


class Dialogues:
    """Of one cell. A conversation in which an answer failed ends there: its later turns are `broken`."""

    def __init__(self) -> None:
        self._said: dict[str, list[Message]] = {}

    def before(self, prompt: Prompt) -> Sequence[Message]:
        """What was said before this turn."""
        return self._said.get(prompt.conversation or "", ())

    def broken(self, prompt: Prompt) -> bool:
        """Whether the answer before this turn is missing."""
        return prompt.turn > 0 and prompt.conversation not in self._said

    def answered(self, prompt: Prompt, text: str | None) -> None:
        """The answer to this turn; None = it is not whole."""
        if prompt.conversation is None:
            return
        said = [*self.before(prompt), {"role": "user", "content": prompt.text}]
        self._said.pop(prompt.conversation, None)
        if text is not None and not prompt.last:
            self._said[prompt.conversation] = [*said, {"role": "assistant", "content": text}]


def context(before: Sequence[Message], text: str) -> str:
    """The whole of a turn as the embedded engine reads it: all that was said, a line each."""
    return "\n".join([*(message["content"] for message in before), text])


def spoken(body: bytes, fields: Sequence[str] = CONTENT) -> str | None:
    """The text of a streamed answer, None unless it is whole ([DONE] came and every event is sound)."""
    said: list[str] = []
    for event in SseParser().feed(body + b"\n\n"):
        if event.data == DONE:
            return "".join(said)
        try:
            chunk = orjson.loads(event.data)
            choices = chunk.get("choices") or []
            if chunk.get("error") is not None:
                return None
            said += [text for choice in choices for text in _texts(choice, fields)]
        except (orjson.JSONDecodeError, AttributeError, TypeError):
            return None
    return None


def every_word(body: bytes) -> str | None:
    """As `spoken`, reasoning included: what usage counts."""
    return spoken(body, [field for field in TEXT_FIELDS if field != "tool_calls"])


def _texts(choice: dict[str, object], fields: Sequence[str]) -> list[str]:
    delta = choice.get("delta")
    held = [delta.get(field) for field in fields] if isinstance(delta, dict) else [choice.get("text")]
    return [text for text in held if isinstance(text, str)]
