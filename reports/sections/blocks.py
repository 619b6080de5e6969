"""Blocks that the sections are built of: a card, a table, a chip, a value that may be unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from reports.formats import RULING_MARKS, UNKNOWN
from reports.markup import Child, Markup, tag
from reports.page_input import PagePart


def card(part: PagePart, key: str, title: str, *children: Child) -> Markup:
    """A titled section with an anchor."""
    anchor = f"{part.anchor}-{key}"
    heading = tag("h3", title, id=f"{anchor}-title")
    return tag("section", heading, children, class_="card", id=anchor, aria_labelledby=f"{anchor}-title")


def note(*children: Child) -> Markup:
    """A line of explanation under a title or figure."""
    return tag("p", children, class_="note")


def absent(why: str) -> Markup:
    """Says in words that a section has nothing to show, and why."""
    return tag("p", why, class_="absent")


def value(text: str, why_unknown: str = "not known") -> Markup:
    """A value; the dash of an unknown one says so when pointed at."""
    if text == UNKNOWN:
        return tag("span", UNKNOWN, class_="unknown", title=why_unknown, aria_label=why_unknown)
    return tag("span", text)


def chip(ruling: str, text: str | None = None) -> Markup:
    """A ruling as mark and word: colour is never the only sign."""
    mark = tag("span", RULING_MARKS.get(ruling, "·"), class_="mark", aria_hidden="true")
    return tag("span", mark, " ", text or ruling, class_=f"chip {ruling}")


def ruling_line(mark: str, word: str, badge: Markup) -> Markup:
    """The first line of a banner: a large mark, the ruling's word, and what it is of."""
    large = tag("span", mark, class_="big-mark", aria_hidden="true")
    return tag("p", large, tag("strong", word), " ", badge, class_="ruling")


def table(
    head: Sequence[Child], rows: Iterable[Sequence[Child]], class_: str = "", caption: str = ""
) -> Markup:
    """A table in its own horizontal scroller; the first cell of each row is its heading."""
    body = [tag("tr", tag("th", row[0], scope="row"), [tag("td", cell) for cell in row[1:]]) for row in rows]
    inner = tag(
        "table",
        tag("caption", caption) if caption else None,
        tag("thead", tag("tr", [tag("th", cell, scope="col") for cell in head])),
        tag("tbody", body),
        class_=class_ or None,
    )
    return scroller(inner, caption or "table")


def scroller(child: Markup, label: str) -> Markup:
    """A box that scrolls sideways by itself, reachable by keyboard."""
    return tag("div", child, class_="scroll", tabindex="0", role="region", aria_label=label)


def arm_label(part: PagePart, arm: str) -> Markup:
    """The arm's name with a dot of its colour."""
    style = part.styles[arm]
    dot = tag("span", class_="dot", style=f"--dot:var(--c{style.colour[1:]})", aria_hidden="true")
    return tag("span", dot, arm, class_="arm")


def selector(group: str, legend: str, options: Mapping[str, str], chosen: str) -> Markup:
    """Radio buttons (value -> label) that the page's script reads to pick a variant of the card's figures."""
    labels = []
    for option, shown in options.items():
        state = {"checked": "checked"} if option == chosen else {}
        button = tag("input", type="radio", name=group, value=option, **state)
        labels.append(tag("label", button, tag("span", shown)))
    return tag("fieldset", tag("legend", legend, class_="unseen"), labels, class_="selector")
