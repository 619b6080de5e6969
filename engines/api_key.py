"""The API key: out of the environment, into a header, and into no message, record or page."""

from __future__ import annotations

import os

from engines.contract import EngineError

VARIABLE = "OPENAI_API_KEY"
SHORTEST = 8  # characters of a secret: "EMPTY", as servers without keys are given, is none
HIDDEN = "[API key]"


def auth_headers() -> dict[str, str]:
    """The Authorization header, or nothing. Raises EngineError for a key that no header can carry."""
    key = os.environ.get(VARIABLE, "")
    if not key:
        return {}
    if not key.isascii() or not key.isprintable():
        raise EngineError(f"{VARIABLE} holds characters that a header cannot carry; set it anew")
    return {"Authorization": f"Bearer {key}"}


def without_key(words: str) -> str:
    """A server's words; some say the key again when they refuse it. Before anything is cut off them."""
    key = os.environ.get(VARIABLE, "")
    return words.replace(key, HIDDEN) if len(key) >= SHORTEST else words
