"""Sessions of a run: one process after the other that worked on it, each with its machine and versions.

A run that goes on with something else than it began with is one experiment no more: it stays judgeable, says
what changed, and is exploratory (docs/decisions/0016).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from depthgate.machine import describe_machine
from depthgate.manifest import command_line, git_commit, package_versions, utc_now

Manifest = dict[str, object]


def new_session() -> Manifest:
    """The one that begins now; `ended_utc` None: it goes on, or was killed. `engine` None: none is up yet."""
    return {
        "started_utc": utc_now(),
        "ended_utc": None,
        "machine": describe_machine(),
        "versions": package_versions(),
        "commit": git_commit(),
        "command": command_line(),
        "engine": None,
        "changed": [],
        "set_aside": [],
    }


def end_session(manifest: Manifest) -> str:
    """Marks the latest one as ended, now; the time (UTC)."""
    now = utc_now()
    _sessions(manifest)[-1]["ended_utc"] = now
    return now


def resumed(manifest: Mapping[str, object], set_aside: tuple[str, ...], clock: str) -> Manifest:
    """The manifest with a further session. `set_aside`: sentences about what of the run is not counted."""
    session: dict[str, Any] = {**new_session(), "set_aside": list(set_aside)}
    found = dict(manifest)
    before = found.get("sessions")
    found["sessions"] = [*(before if isinstance(before, list) else []), session]
    # A machine is no part of a run in virtual time.
    of_interest = ("versions", "commit") if clock == "virtual" else ("machine", "versions", "commit")
    _say(found, [name for name in of_interest if session[name] != manifest.get(name)])
    return found


def note_engine(manifest: Manifest, engine: str) -> bool:
    """Keeps what engine the session had; False when that is known. Another one than before is a change."""
    sessions = _sessions(manifest)
    if sessions[-1]["engine"] is not None:
        return False
    sessions[-1]["engine"] = engine
    if any(session.get("engine") not in (None, engine) for session in sessions):
        _say(manifest, ["engine"])
    return True


def _say(manifest: Manifest, changed: list[str]) -> None:
    """Into the session and into the seal, which the judge reads."""
    if not changed:
        return
    _sessions(manifest)[-1]["changed"] += changed
    seal = manifest.get("seal")
    status = seal if isinstance(seal, dict) else {}
    words = f"resumed with another {' and '.join(changed)} than it began with"
    before = "" if status.get("state") == "sealed" else f"{status.get('sentence')}; "
    manifest["seal"] = {"state": "unsealed", "sentence": f"{before}{words}", "seal": None}


def _sessions(manifest: Manifest) -> list[dict[str, Any]]:
    sessions = manifest["sessions"]
    assert isinstance(sessions, list)
    return sessions
