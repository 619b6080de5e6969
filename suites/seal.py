"""Sealing: writing a suite's hash down before its run, so that budgets cannot be fitted to results.

`suites/x.toml` is sealed by `suites/x.seal.json` beside it. The seal is a promise between colleagues, not a
signature: its value comes from being committed before the run.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from suites.canonical import suite_sha256
from suites.model import SuiteError
from suites.parse import load_suite


class SealState(StrEnum):
    """Only a run of a `sealed` suite is gated; the others are exploratory."""

    SEALED = "sealed"
    UNSEALED = "unsealed"
    ALTERED = "altered"


@dataclass(frozen=True, slots=True)
class Seal:
    """`sha256` of the canonical content at `sealed_utc` (ISO 8601); `commit` None outside git.

    `history`: the seals that this one replaced, oldest first, as plain dicts.
    """

    suite: str
    sha256: str
    sealed_utc: str
    commit: str | None
    tool_version: str
    history: tuple[dict[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class SealStatus:
    """`sentence` is what a reader sees; `seal` None when there is none or it cannot be read."""

    state: SealState
    sentence: str
    seal: Seal | None = None

    def to_json(self) -> dict[str, object]:
        """What a manifest holds under `seal`."""
        return {"state": str(self.state), "sentence": self.sentence, "seal": self.seal and asdict(self.seal)}


def seal_path(suite_path: Path) -> Path:
    """`x.toml` -> `x.seal.json`."""
    return suite_path.with_name(f"{suite_path.stem}.seal.json")


def seal_suite(path: Path, *, force: bool = False, now: datetime | None = None) -> Seal:
    """Write the seal of a valid suite; one that is sealed and unaltered keeps the seal it has.

    Raises SuiteError when the suite changed after sealing and `force` is not given.
    """
    suite = load_suite(path)
    status = check_seal(path)
    if status.state is SealState.SEALED and status.seal is not None:
        return status.seal
    if status.state is SealState.ALTERED and not force:
        raise SuiteError(f"{status.sentence}; to seal what it says now, use force (the former seal is kept)")
    seal = Seal(
        suite=suite.name,
        sha256=suite_sha256(suite),
        sealed_utc=(now or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="seconds"),
        commit=_commit(path),
        tool_version=_tool_version(),
        history=_history(seal_path(path), status.seal),
    )
    _write(seal_path(path), seal)
    return seal


def check_seal(path: Path) -> SealStatus:
    """Whether the suite at `path` is what was sealed; SuiteError when the suite itself is not valid."""
    digest = suite_sha256(load_suite(path))
    file = seal_path(path)
    if not file.exists():
        return SealStatus(SealState.UNSEALED, f"{path.name} is not sealed; run depthgate seal {path.name}")
    try:
        seal = _read(file)
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = type(error).__name__
        return SealStatus(SealState.ALTERED, f"{file}: not a readable seal ({why}); restore it from git")
    if seal.sha256 != digest:
        sentence = f"{path.name} was altered after it was sealed at {seal.sealed_utc}"
        return SealStatus(
            SealState.ALTERED, f"{sentence} (sealed {seal.sha256[:12]}, now {digest[:12]})", seal
        )
    return SealStatus(SealState.SEALED, f"sealed at {seal.sealed_utc} as {digest[:12]}", seal)


def _read(file: Path) -> Seal:
    table = json.loads(file.read_text(encoding="utf-8"))
    sealed = datetime.fromisoformat(table["sealed_utc"])
    if sealed.tzinfo is None:
        raise ValueError("no time zone")
    commit = table.get("commit")
    return Seal(
        suite=str(table["suite"]),
        sha256=str(table["sha256"]),
        sealed_utc=sealed.isoformat(),
        commit=None if commit is None else str(commit),
        tool_version=str(table["tool_version"]),
        history=tuple(dict(item) for item in table.get("history", ())),
    )


def _history(file: Path, former: Seal | None) -> tuple[dict[str, object], ...]:
    if former is not None:
        return (*former.history, {key: item for key, item in asdict(former).items() if key != "history"})
    if file.exists():
        return ({"unreadable": file.read_bytes().decode("utf-8", "replace")[:2000]},)
    return ()


def _write(file: Path, seal: Seal) -> None:
    whole = file.with_name(file.name + ".part")
    whole.write_text(json.dumps(asdict(seal), indent=2) + "\n", encoding="utf-8")
    whole.replace(file)  # a seal is there whole or not at all


def _commit(path: Path) -> str | None:
    command = ["git", "-C", str(path.resolve().parent), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _tool_version() -> str:
    try:
        return metadata.version("depthgate")
    except metadata.PackageNotFoundError:
        return "unknown"
