"""Reads a page as a browser would: visible text, elements, the figures in its data blocks."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

HIDDEN = {"script", "style", "title"}
VOID = {"meta", "input", "br", "link", "img"}


@dataclass
class Page(HTMLParser):
    """`elements`: (name, attributes) in order; `text`: what is seen; `scripts`: (attributes, source)."""

    source: str
    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    scripts: list[tuple[dict[str, str], str]] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.elements.append((tag, attributes))
        if tag == "script":
            self.scripts.append((attributes, ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> while {self.open[-1]} is open"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = (attributes, before + data)
        elif inside not in HIDDEN:
            self.pieces.append(data)

    @property
    def text(self) -> str:
        """Visible text, pieces joined by spaces."""
        return " ".join(self.pieces)

    @property
    def figures(self) -> list[dict[str, Any]]:
        """Every figure of every data block, variants flattened."""
        blocks = [
            json.loads(source)
            for attributes, source in self.scripts
            if attributes.get("class") == "plot-data"
        ]
        return [figure for block in blocks for figure in block.values()]

    def ids(self) -> list[str]:
        """All ids, in order."""
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]
