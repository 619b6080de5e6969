"""What of an ended run is not of a whole cell goes to `aside/N`, where no reader counts it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from loadgen.journal import Journal, JournalError
from loadgen.records import CellKey
from loadgen.run_files import cell_stem, life_stem
from reports.fingerprints import FILE
from reports.run_folder import RunFolder
from suites.model import Suite


def set_aside(run: RunFolder, suite: Suite, done: frozenset[CellKey]) -> tuple[str, ...]:
    """Names of what was moved or cut, as in the run folder. Ended in the middle, it can be done again.

    `done`: the whole cells. Raises JournalError when a file cannot be moved.
    """
    sessions = run.manifest.get("sessions")
    aside = _Aside(run.path, run.path / "aside" / str(len(sessions) if isinstance(sessions, list) else 1))
    try:
        _requests(run.path, done, aside)
        _engines(run.path, suite, done, aside)
        _cells(run, done, aside)
        (run.path / FILE).unlink(missing_ok=True)  # of an end that was not reached
    except OSError as error:
        raise JournalError(f"cannot write {aside.folder}: {error.strerror}; free space") from error
    return tuple(aside.names)


def _requests(run_dir: Path, done: frozenset[CellKey], aside: _Aside) -> None:
    whole = {f"{cell_stem(key)}{suffix}" for key in done for suffix in (".jsonl", ".parquet")}
    for file in sorted((run_dir / "requests").glob("*")):
        if file.name not in whole:
            aside.move(file)


def _engines(run_dir: Path, suite: Suite, done: frozenset[CellKey], aside: _Aside) -> None:
    """Steps and traces stay when their engine served a whole cell; a line that was cut off goes."""
    first = suite.load.concurrency[0]
    whole = {
        life_stem(key.arm, key.repeat, since)
        for key in done
        for since in ((key.concurrency, None) if key.concurrency == first else (key.concurrency,))
    }
    for file in sorted((*run_dir.glob("steps/*.jsonl"), *run_dir.glob("trace/*.jsonl"))):
        if file.stem not in whole:
            aside.move(file)
        else:
            aside.cut(file)


def _cells(run: RunFolder, done: frozenset[CellKey], aside: _Aside) -> None:
    """cells.jsonl holds the whole cells and nothing else."""
    path, draft = run.path / "cells.jsonl", run.path / "cells.jsonl.tmp"
    draft.unlink(missing_ok=True)
    with Journal(draft) as journal:
        for key, cell in run.cells.items():
            if key in done:
                journal.append(cell.record)
    if path.is_file() and path.read_bytes() != draft.read_bytes():
        aside.copy(path)
    draft.replace(path)


class _Aside:
    """`names` fills up as files go."""

    def __init__(self, run_dir: Path, folder: Path) -> None:
        self._run_dir = run_dir
        self.folder = folder
        self.names: list[str] = []

    def move(self, file: Path) -> None:
        file.replace(self._place(file))

    def copy(self, file: Path) -> None:
        shutil.copy2(file, self._place(file))

    def cut(self, file: Path) -> None:
        """Cuts off what stands behind the last whole line; the file as it was lies aside."""
        whole = _whole_lines_bytes(file)
        if whole < file.stat().st_size:
            self.copy(file)
            os.truncate(file, whole)

    def _place(self, file: Path) -> Path:
        name = file.relative_to(self._run_dir)
        self.names.append(name.as_posix())
        place = self.folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        return place


def _whole_lines_bytes(file: Path) -> int:
    """Up to the last newline and with it; 0 without any."""
    end = file.stat().st_size
    with file.open("rb") as opened:
        while end > 0:
            start = max(0, end - 65536)
            opened.seek(start)
            found = opened.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0
