"""What a run left on disk, by hash: SHA256SUMS, written when it ends and checked when it is judged.

A torn line shows by itself; a file cut between two lines, or one digit that flipped, does not. `sha256sum -c`
reads the file too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

FILE = "SHA256SUMS"
RECORDS = ("cells.jsonl", "requests/*.jsonl", "steps/*.jsonl")  # what a judgement is made of


def write_fingerprints(run_dir: Path) -> str:
    """Writes SHA256SUMS; its own hash is for the manifest. OSError when it cannot be written."""
    text = "".join(f"{sha}  {name}\n" for name, sha in _found(run_dir).items())
    (run_dir / FILE).write_text(text)
    return hashlib.sha256(text.encode()).hexdigest()


def altered(run_dir: Path, manifest: Mapping[str, object]) -> list[str]:
    """A sentence for every file that is not as the run left it; none for a run that did not end."""
    promised = manifest.get("records_sha256")
    if promised is None:
        return []
    try:
        raw = (run_dir / FILE).read_bytes()
    except OSError:
        return [f"{FILE}: cannot be read: the records cannot be checked"]
    if hashlib.sha256(raw).hexdigest() != promised:
        return [f"{FILE}: not as the run left it: the records cannot be checked"]
    found = _found(run_dir)
    rows = (line.partition("  ") for line in raw.decode("utf-8", "replace").splitlines())
    return [f"{name}: not as the run left it" for sha, _, name in rows if found.get(name) != sha]


def _found(run_dir: Path) -> dict[str, str]:
    """Path within the run folder -> SHA-256, of every file of records that can be read."""
    files = sorted(path for pattern in RECORDS for path in run_dir.glob(pattern) if path.is_file())
    return {path.relative_to(run_dir).as_posix(): _sha256(path) for path in files}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
