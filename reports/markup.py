"""HTML that escapes by default: only an Element's own tags are markup, every plain string is text."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable

# Characters that HTML forbids, and bidirectional overrides: text from a run must not reorder a page.
_UNSHOWABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]"
)
_VOID = {"input", "meta"}
_IN_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class Markup(str):
    """A string that is HTML already. Made by `tag` and `trusted` only."""

    __slots__ = ()


Child = str | Markup | Iterable["Child"] | None


def showable(text: str) -> str:
    """`text` with each character that a page cannot show replaced by U+FFFD."""
    return _UNSHOWABLE.sub("\ufffd", text)


def trusted(source: str) -> Markup:
    """The project's own HTML, CSS or JavaScript, taken as it is; never text of a run."""
    return Markup(source)


def escaped(child: Child) -> Markup:
    """A child as HTML: Markup as it is, other strings escaped, iterables joined, None left out."""
    if child is None:
        return Markup("")
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return Markup(html.escape(showable(child), quote=True))
    return Markup("".join(escaped(part) for part in child))


def tag(name: str, /, *children: Child, **attributes: str | None) -> Markup:
    """`<name attributes>children</name>`; `class_` is class, inner `_` is `-`; None is left out."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    end = "" if name in _VOID else f"{escaped(children)}</{name}>"
    return Markup(f"<{name}{shown}>{end}")


def script_json(data: object) -> Markup:
    """JSON that is safe inside a script element: no `<`, `&`, U+2028; NaN is an error.

    Raises ValueError on NaN or infinity: an unknown number is None.
    """
    text = json.dumps(data, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return Markup("".join(_IN_SCRIPT.get(char, char) for char in text))
