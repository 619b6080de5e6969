"""manifest.json: what a run was, written when it starts and again when it ends. It holds no secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from loadgen.journal import JournalError

PACKAGES = ("depthgate", "numpy", "aiohttp", "uvloop", "orjson", "pandas", "plotly")


def utc_now() -> str:
    """ISO 8601, whole seconds, UTC."""
    return datetime.now(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")


def package_versions() -> dict[str, str | None]:
    """Versions of what shapes a result; None = not installed."""
    return {name: _version(name) for name in PACKAGES}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def git_commit() -> str | None:
    """The checkout's commit, with "+changes" when it was not clean; None outside a checkout."""
    root = Path(__file__).parents[1]
    try:
        commit = _git(root, "rev-parse", "HEAD")
        dirty = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}+changes" if dirty else commit


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()


def command_line() -> list[str]:
    """The command as typed, for "how to reproduce". No flag takes a secret; keys come from outside."""
    return ["depthgate", *sys.argv[1:]]


def manifest_bytes(manifest: Mapping[str, object]) -> bytes:
    """The file as `write_manifest` writes it."""
    return (json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def write_manifest(run_dir: Path, manifest: Mapping[str, object]) -> None:
    """Atomically: a kill at any moment leaves the old file or the new one. JournalError: disk full, gone."""
    path = run_dir / "manifest.json"
    draft = path.with_suffix(".json.tmp")
    try:
        with draft.open("wb") as file:
            file.write(manifest_bytes(manifest))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise JournalError(
            f"cannot write {path}: {error.strerror}; free space or give another folder"
        ) from error
