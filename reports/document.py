"""An HTML document in the house's style: self-contained, and locked to the scripts it was made with."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from reports.markup import Child, Markup, tag, trusted

_STYLE = Path(__file__).parent / "page.css"
FOOTER = tag(
    "footer", tag("p", "Made by depthgate. Self-contained: this page asks no other server for anything.")
)


def html_document(title: str, content: Child, scripts: Sequence[Markup] = (), styles: str = "") -> str:
    """The page as text: `content`, then `scripts`; `styles` are added to the house's."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(scripts)),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", trusted(_STYLE.read_text("utf-8") + styles)),
    )
    body = tag("body", content, [trusted(f"<script>{script}</script>") for script in scripts])
    return f'<!doctype html>\n<html lang="en">{head}{body}</html>\n'


def _policy(scripts: Sequence[str]) -> str:
    """Only the page's own scripts run, by hash; nothing is fetched from anywhere."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
