"""What a run left on disk, by hash: SHA256SUMS, written when it ends and checked when it is judged.

A torn line shows by itself; a file cut between two lines, or one digit that flipped, does not. The manifest
holds the hash of the lines about the records; the last line is about the manifest. `sha256sum -c` reads the
file too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

FILE = "SHA256SUMS"
MANIFEST = "manifest.json"
# What a judgement is made of.
RECORDS = ("cells.jsonl", "requests/*.jsonl", "requests/*.parquet", "steps/*.jsonl")


def record_sums(run_dir: Path) -> str:
    """A line for every file of records, as `sha256sum` writes it. OSError when one cannot be read."""
    return "".join(f"{sha}  {name}\n" for name, sha in _found(run_dir).items())


def write_fingerprints(run_dir: Path, sums: str, manifest: bytes) -> None:
    """Writes SHA256SUMS: `record_sums`, and the manifest as it will be. OSError when it cannot be written."""
    (run_dir / FILE).write_text(f"{sums}{hashlib.sha256(manifest).hexdigest()}  {MANIFEST}\n")


def digest(sums: str) -> str:
    """Of `record_sums`, for the manifest."""
    return hashlib.sha256(sums.encode()).hexdigest()


def altered(run_dir: Path, manifest: Mapping[str, object]) -> dict[str, str]:
    """File -> a sentence, of every one that is not as the run left it; none for a run that did not end."""
    promised = manifest.get("records_sha256")
    try:
        raw = (run_dir / FILE).read_bytes()
    except OSError:
        return {} if promised is None else {FILE: f"{FILE}: cannot be read: the records cannot be checked"}
    lines = raw.decode("utf-8", "replace").splitlines(keepends=True)
    said = {name: sha for sha, _, name in (line.rstrip("\n").partition("  ") for line in lines)}
    found = _found(run_dir)
    if (run_dir / MANIFEST).is_file():
        found[MANIFEST] = _sha256(run_dir / MANIFEST)
    records = "".join(line for line in lines if not line.endswith(f"  {MANIFEST}\n"))
    if MANIFEST not in said or digest(records) != promised:
        if MANIFEST in said and said[MANIFEST] != found.get(MANIFEST):
            return {MANIFEST: f"{MANIFEST}: not as the run left it"}
        return {FILE: f"{FILE}: not as the run left it: the records cannot be checked"}
    names = [*said, *(name for name in found if name not in said)]
    return {name: f"{name}: not as the run left it" for name in names if found.get(name) != said.get(name)}


def _found(run_dir: Path) -> dict[str, str]:
    """Path within the run folder -> SHA-256, of every file of records that can be read."""
    files = sorted(path for pattern in RECORDS for path in run_dir.glob(pattern) if path.is_file())
    return {path.relative_to(run_dir).as_posix(): _sha256(path) for path in files}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
