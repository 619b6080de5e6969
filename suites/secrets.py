"""Secrets: names and values that no suite and no flag may carry, found at any depth of a JSON value."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

# Of a body's field, a server's variable or flag. A token goes by whose it is: eos_token is none.
NAME = re.compile(
    r"(.*[_-])?(api[_-]?keys?|authorization|passw(or)?ds?|passphrase|private[_-]?key|credentials?"
    r"|access[_-]?key([_-]?id)?|secrets?([_-](access[_-])?keys?)?)"
    r"|(.*[_-])?(hf|hub|hugging_?face|github|gh|gitlab|slack|wandb|api|auth|oauth|access|bearer|refresh"
    r"|session|secret|security)[_-]token"
    r"|token",
    re.IGNORECASE,
)
VALUE = re.compile(r"(?<![A-Za-z0-9_-])(sk-[A-Za-z0-9_-]{16,}|(hf|gh[oprsu])_[A-Za-z0-9]{30,})")


def key_shown(name: object) -> str:
    """A key as a path shows it: what cannot be printed is escaped."""
    text = str(name)
    return text if text.isprintable() else repr(text)


def secret_path(value: object, path: str) -> str | None:
    """Where in `value`, which stands at `path`, a secret is; None = there is none. Never repeats it."""
    found = [(path, value)]
    for at, item in found:  # it grows: a value of any depth
        if isinstance(item, str) and _in_text(item):
            return at
        if isinstance(item, Mapping):
            for name, inner in item.items():
                where = f"{at}.{key_shown(name)}"
                if _is_name(str(name)):
                    return where
                found.append((where, inner))
        elif isinstance(item, list | tuple):
            found += [(f"{at}[{index}]", inner) for index, inner in enumerate(item)]
    return None


def _is_name(text: str) -> bool:
    """`api_key`, `--api-key`, `--override.api_key`."""
    return NAME.fullmatch(text.lstrip("-").rpartition(".")[2]) is not None


def _in_text(text: str) -> bool:
    """A flag, `NAME=value`, JSON inside either, or what looks like a key."""
    name, equals, rest = text.partition("=")
    named = (text.startswith("-") or equals) and _is_name(name)
    return bool(named or VALUE.search(text) or _in_json(text) or (equals and _in_json(rest)))


def _in_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        return secret_path(json.loads(text), "") is not None
    except (ValueError, RecursionError):
        return False
