"""Journals of a large run into Parquet beside them: written, read back, compared, and only then removed.

A kill at any moment leaves the journal, the journal and its copy, or the copy: `request_file` names the one
to read. docs/decisions/0015.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from loadgen.journal import scan_requests
from loadgen.parquet import ParquetFault, scan_parquet, write_parquet
from loadgen.records import RequestRecord

COMPACTED = ".parquet"
SMALL_BYTES = 32 * 2**20  # of all request journals together: a smaller run stays in a form that eyes can read


def request_file(journal: Path) -> Path | None:
    """Where the records of `journal` are: there, or in its Parquet file; None = nowhere."""
    copy = journal.with_suffix(COMPACTED)
    return next((path for path in (journal, copy) if path.is_file()), None)


def compact_run(requests: Path, small_bytes: int = SMALL_BYTES) -> tuple[str, ...]:
    """Every journal in the folder `requests`, when together they are not small.

    Returns why a journal stayed one; () = none had to. A journal whose lines cannot all be read stays.
    """
    journals = sorted(requests.glob("*.jsonl"))
    if sum(path.stat().st_size for path in journals) <= small_bytes:
        return ()
    return tuple(filter(None, map(_compacted, journals)))


def compact(journal: Path) -> Path:
    """Raises ParquetFault or OSError; the journal then stays, and no half of a copy does."""
    copy = journal.with_suffix(COMPACTED)
    draft = copy.with_suffix(f"{COMPACTED}.tmp")
    try:
        write_parquet(draft, scan_requests(journal))
        _compare(journal, draft)
        draft.replace(copy)
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(journal.parent)  # the copy's name is on the disk before the journal's is gone
    journal.unlink()
    return copy


def _compacted(journal: Path) -> str | None:
    try:
        compact(journal)
    except ParquetFault as fault:
        return f"{journal.name} stays a journal: {fault}"
    except OSError as error:
        return f"{journal.name} stays a journal: {error.strerror or error}"
    return None


def _compare(journal: Path, copy: Path) -> None:
    for record, again in zip_longest(scan_requests(journal), _scan(copy)):
        if record != again:
            raise ParquetFault(f"{copy.name}: does not read back as it was written")


def _scan(path: Path) -> Iterator[RequestRecord]:
    for group in scan_parquet(path):
        yield from group


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
