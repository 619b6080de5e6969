"""Seal and machine: what ran, where, from which commit; and the strip that says what is a model."""

from __future__ import annotations

import math
from collections.abc import Mapping

from reports.formats import UNKNOWN
from reports.markup import Markup, tag
from reports.page_input import PagePart
from reports.sections.blocks import card, value

CLOCKS = {
    "wall": "wall clock: requests were timed as they ran",
    "virtual": "virtual clock: no time passed, every duration is computed",
}
# Row title -> where the manifest holds it (depthgate/run.py writes it).
MANIFEST_ROWS: dict[str, tuple[str, ...]] = {
    "Suite sha256": ("suite_sha256",),
    "Overrides": ("overrides",),
    "Seed": ("seed",),
    "Commit": ("commit",),
    "Started": ("started_utc",),
    "Finished": ("finished_utc",),
    "CPU": ("machine", "cpu"),
    "Cores": ("machine", "cores"),
    "Memory": ("machine", "memory_bytes"),
    "Accelerators": ("machine", "accelerators"),
    "System": ("machine", "system"),
    "Python": ("machine", "python"),
    "Engine version": ("engine_version",),
    "Versions": ("versions",),
}


def model_strip(part: PagePart) -> Markup | None:
    """Every page of the embedded engine says that it is a model, and which one, before any figure."""
    judgement = part.judgement
    if not judgement.is_model:
        return None
    profile = judgement.profile or "not known"
    virtual = judgement.clock == "virtual"
    timing = (
        "No real time passed either: the clock is virtual."
        if virtual
        else "Requests ran over HTTP in real time."
    )
    return tag(
        "aside",
        tag("strong", "Embedded engine: a model."),
        " Step times are computed from profile ",
        tag("code", profile),
        ", not measured on that hardware. ",
        timing,
        class_="strip",
        aria_label="This engine is a model",
    )


def machine_section(part: PagePart) -> Markup:
    """A list of facts; the whole manifest is folded below it."""
    judgement = part.judgement
    facts = [
        ("Suite", judgement.suite),
        ("Seal", judgement.seal),
        ("Engine", judgement.engine),
        ("Profile", judgement.profile or UNKNOWN),
        ("Clock", CLOCKS.get(judgement.clock, judgement.clock)),
        ("Baseline arm", judgement.baseline or UNKNOWN),
        ("Run", judgement.run),
        *_sessions(judgement.manifest),
        *((title, _row_text(judgement.manifest, title)) for title in MANIFEST_ROWS),
    ]
    rows = [tag("div", tag("dt", title), tag("dd", value(text or UNKNOWN))) for title, text in facts]
    return card(
        part, "machine", "Seal and machine", tag("dl", rows, class_="facts wide"), _whole(judgement.manifest)
    )


def _sessions(manifest: Mapping[str, object]) -> list[tuple[str, str]]:
    """When a run was gone on with (docs/decisions/0016); nothing for one that ran in one go."""
    sessions = manifest.get("sessions")
    if not isinstance(sessions, list) or len(sessions) < 2:
        return []
    starts = [plain(_lookup(session, ("started_utc",))) for session in sessions[1:]]
    return [("Sessions", f"{len(sessions)}, resumed at {', '.join(starts)}")]


def _row_text(manifest: Mapping[str, object], title: str) -> str:
    found = _lookup(manifest, MANIFEST_ROWS[title])
    return memory(found) if title == "Memory" else plain(found)


def _lookup(manifest: object, path: tuple[str, ...]) -> object:
    for key in path:
        manifest = manifest.get(key) if isinstance(manifest, Mapping) else None
    return manifest


def memory(found: object) -> str:
    """Bytes as GiB; anything else as unknown."""
    return f"{found / 2**30:.1f} GiB" if isinstance(found, int) and found > 0 else UNKNOWN


def plain(found: object) -> str:
    """A manifest value in words: never None, braces or quotes."""
    if found is None:
        return UNKNOWN
    if isinstance(found, Mapping):
        return ", ".join(f"{key} {plain(item)}" for key, item in found.items()) or UNKNOWN
    if isinstance(found, list | tuple):
        return ", ".join(plain(item) for item in found) or UNKNOWN
    if isinstance(found, bool):
        return "yes" if found else "no"
    if isinstance(found, float) and not math.isfinite(found):
        return UNKNOWN
    return str(found)


def _whole(manifest: Mapping[str, object]) -> Markup | None:
    if not manifest:
        return None
    rows = [
        tag("tr", tag("th", path, scope="row"), tag("td", value(plain(found))))
        for path, found in _flat("", manifest)
    ]
    inner = tag("table", tag("tbody", rows), class_="manifest")
    return tag("details", tag("summary", "Whole manifest"), tag("div", inner, class_="scroll"))


def _flat(path: str, found: object) -> list[tuple[str, object]]:
    """Leaves with their dotted path."""
    if isinstance(found, Mapping) and found:
        return [
            leaf for key, item in found.items() for leaf in _flat(f"{path}.{key}" if path else str(key), item)
        ]
    if isinstance(found, list | tuple) and any(isinstance(item, Mapping) for item in found):
        return [leaf for at, item in enumerate(found) for leaf in _flat(f"{path}[{at}]", item)]
    return [(path, found)]
