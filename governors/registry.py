"""The bundled policies, one line each, and those that other distributions add through an entry point."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from governors import (
    cycle,
    disable_above,
    dspark,
    dspark_argmax,
    ema_ladder,
    fixed,
    goodput_table,
    hysteresis_schedule,
    off,
    schedule,
)
from governors.contract import DepthLimits, Governor
from governors.entry import GovernorContext, GovernorEntry, GovernorError, Options
from governors.profile import ProfileError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "ENTRY_POINT_GROUP",
    "GOVERNORS",
    "GovernorContext",
    "GovernorEntry",
    "GovernorError",
    "build_governor",
    "changes_depth",
    "depths",
    "governor_entry",
    "governor_names",
    "governor_warnings",
]

ENTRY_POINT_GROUP = "depthgate.governors"

GOVERNORS: dict[str, GovernorEntry] = {
    "off": off.ENTRY,
    "fixed": fixed.ENTRY,
    "disable_above": disable_above.ENTRY,
    "schedule": schedule.ENTRY,
    "hysteresis_schedule": hysteresis_schedule.ENTRY,
    "goodput_table": goodput_table.ENTRY,
    "ema_ladder": ema_ladder.ENTRY,
    "cycle": cycle.ENTRY,
    "dspark": dspark.ENTRY,
    "dspark_argmax": dspark_argmax.ENTRY,
}


def governor_names() -> tuple[str, ...]:
    """Every known name: the bundled ones, then the installed ones in order. Loads no third-party code."""
    return (*GOVERNORS, *sorted(_installed().keys() - GOVERNORS.keys()))


def governor_entry(name: str) -> GovernorEntry:
    """The entry called `name`; GovernorError names the nearest one, or the distribution that is at fault."""
    points = _installed().get(name, [])
    if len(points) > 1 or (points and name in GOVERNORS):
        clash = " and ".join(sorted({_distribution(point) for point in points}))
        other = ", and it is a bundled governor" if name in GOVERNORS else ""
        raise GovernorError(f"governor {name!r} is offered by {clash}{other}: rename one, or uninstall it")
    if name in GOVERNORS:
        return GOVERNORS[name]
    if points:
        return _load(points[0])
    raise GovernorError(f"unknown governor {name!r}{_nearest(name, governor_names())}")


def build_governor(name: str, options: Options, context: GovernorContext) -> Governor:
    """A fresh policy. GovernorError: unknown name or option, bad value, or a profile of another class."""
    return _checked(name, options, context).build(options, context)


def governor_warnings(name: str, options: Options, context: GovernorContext) -> tuple[str, ...]:
    """What these options do silently, in words. Raises as `build_governor` does."""
    entry = _checked(name, options, context)
    entry.build(options, context)
    said = entry.warn(options, context) if entry.warn else ()
    if not entry.needs_profile:
        return said
    if context.profile is None:
        return (*said, f"{name} has no profile: it refuses to trim and keeps k_max (reason no-model)")
    if context.drafter_class is None:
        bound = context.profile.binding.drafter_class
        return (
            *said,
            f"{name}: the engine's drafter class is not known; the profile is for {bound!r}, unchecked",
        )
    return said


def changes_depth(name: str, options: Options) -> bool:
    """Whether the policy may change K at run time with these options: then an engine arms its schedule."""
    entry = governor_entry(name)
    return entry.changes_depth_if(options) if entry.changes_depth_if else entry.changes_depth


def depths(name: str, options: Options, limits: DepthLimits) -> frozenset[int]:
    """Every K that the policy may pick with these options. Raises as `build_governor` does."""
    entry = governor_entry(name)
    if entry.depths is not None:
        return entry.depths(options, limits)
    return frozenset(range(limits.k_max + 1)) if changes_depth(name, options) else frozenset((limits.k_max,))


def _checked(name: str, options: Options, context: GovernorContext) -> GovernorEntry:
    entry = governor_entry(name)
    for option in options:
        if option not in entry.options:
            raise GovernorError(f"{name} has no option {option!r}{_nearest(option, entry.options)}")
    if entry.needs_profile and context.profile is not None and context.drafter_class is not None:
        try:
            context.profile.require_class(context.drafter_class)
        except ProfileError as error:
            raise GovernorError(f"{name}: {error}") from error
    return entry


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {close[0]!r}? Known" if close else "; known"
    return f"{hint}: {', '.join(names)}" if names else "; it takes none"


def _installed() -> dict[str, list[EntryPoint]]:
    return _installed_on(tuple(sys.path))


@lru_cache(maxsize=4)
def _installed_on(search_path: tuple[str, ...]) -> dict[str, list[EntryPoint]]:
    """Reads the metadata of every distribution there, some 40 ms of files: once a path, not once a cell."""
    from importlib.metadata import entry_points

    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        found.setdefault(point.name, []).append(point)
    return found


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unnamed distribution"


def _load(point: EntryPoint) -> GovernorEntry:
    where = f"governor {point.name!r} of {_distribution(point)} ({point.value})"
    try:
        entry = point.load()
    except Exception as error:  # third-party code may raise anything on import
        raise GovernorError(
            f"{where} does not load: {type(error).__name__}: {error}; mend or uninstall it"
        ) from error
    if not isinstance(entry, GovernorEntry):
        raise GovernorError(
            f"{where} is a {type(entry).__name__}; point it at a governors.entry.GovernorEntry"
        )
    if entry.name != point.name:
        raise GovernorError(f"{where} is named {entry.name!r} in its entry; use one name for both")
    return entry
