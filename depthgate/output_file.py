"""A file that a command was told to write: checked before any work, and written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from depthgate.exits import UsageError

STDOUT = Path("-")


def check_file(flag: str, path: Path) -> None:
    """UsageError before any work when a file cannot be made at `path`."""
    if not path.parent.is_dir():
        raise UsageError(f"{flag} {path}: no such folder; make it first")
    if path == STDOUT:
        raise UsageError(f"{flag} -: is not written to stdout; name a file")
    if path.is_dir():
        raise UsageError(f"{flag} {path}: is a folder; name a file in it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{flag} {path}: cannot write there; give a place that you own")


def write_file(flag: str, path: Path, text: str) -> None:
    """Through a draft: a full disk leaves what was there before. UsageError when it cannot be written.

    What is no plain file (a pipe, a device) is never replaced. Lone surrogates become question marks.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    plain = path.is_file() or not path.exists()
    try:
        (draft if plain else path).write_text(text, encoding="utf-8", errors="replace")
        if plain:
            draft.replace(path)
    except OSError as error:
        raise UsageError(f"{flag} {path}: cannot write it ({error.strerror}); name another file") from None
    finally:
        draft.unlink(missing_ok=True)
