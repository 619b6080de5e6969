"""A run folder as data: what is whole is kept, what is missing or torn is left out and said.

Requests of a large run stay on disk until a cell is gone over: memory is a matter of the largest cell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from governors.telemetry import StepRecord
from loadgen.columns import RequestColumns, joined
from loadgen.compaction import SMALL_BYTES, request_file
from loadgen.journal import read_cells, read_columns, read_steps
from loadgen.records import CellKey, CellRecord
from loadgen.run_files import cell_stem, life_stem
from reports.fingerprints import altered
from reports.plausible import plausible_cell, plausible_requests, plausible_step
from suites.canonical import suite_sha256
from suites.model import Suite, SuiteError
from suites.parse import parse_suite


class RunFolderError(ValueError):
    """The path is no run folder; one line with the mend."""


@dataclass(frozen=True, slots=True)
class StoredRequests:
    """A file of requests that was found whole; `read` reads it anew."""

    path: Path

    def read(self) -> RequestColumns:
        """Its columns; what cannot be read since is not in them."""
        parts: list[RequestColumns] = []
        read_columns(self.path, parts.append)
        return joined(parts)


@dataclass(frozen=True, slots=True)
class CellData:
    """One measured point of one repeat: its closing line and every request of it."""

    record: CellRecord
    kept: RequestColumns | StoredRequests

    @property
    def requests(self) -> RequestColumns:
        """Whoever takes them more than once takes them of `loaded()`."""
        return self.kept.read() if isinstance(self.kept, StoredRequests) else self.kept

    def loaded(self) -> CellData:
        """The same with its requests in memory."""
        return replace(self, kept=self.requests)


@dataclass(frozen=True, slots=True)
class EngineLife:
    """What one engine served of an arm and repeat: from the concurrency `since` on, None = from the start.

    `windows`: of its ended cells, in the order in which they ran.
    """

    since: int | None
    windows: Mapping[CellKey, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class RunFolder:
    """`suite` None: the manifest does not say what was run. `cells`: ended ones, as they ran.

    `missing`: sentences about what is not there; empty = the run is whole.
    """

    path: Path
    manifest: Mapping[str, object]
    suite: Suite | None
    cells: Mapping[CellKey, CellData]
    missing: tuple[str, ...]

    def lives(self, arm: str, repeat: int) -> list[EngineLife]:
        """One, unless the run was resumed within this repeat of the arm."""
        points = self.suite.load.concurrency if self.suite else ()
        found: dict[int | None, dict[CellKey, tuple[float, float]]] = {}
        since = None
        for concurrency in points:
            if self.steps_path(arm, repeat, concurrency).is_file():
                since = concurrency
            cell = self.cells.get(key := CellKey(arm, concurrency, repeat))
            if cell is not None:
                found.setdefault(since, {})[key] = (cell.record.window_start_s, cell.record.window_end_s)
        return [EngineLife(since, windows) for since, windows in found.items()]

    def steps_path(self, arm: str, repeat: int, since: int | None = None) -> Path:
        """Where the steps of one engine's life are, when it wrote some."""
        return self.path / "steps" / f"{life_stem(arm, repeat, since)}.jsonl"

    def steps(self, arm: str, repeat: int, since: int | None = None) -> tuple[list[StepRecord], str | None]:
        """Step records of one engine's life ([] when it wrote none), and what is torn about them."""
        path = self.steps_path(arm, repeat, since)
        if not path.is_file():
            return [], None
        records, torn = read_steps(path)
        if not all(map(plausible_step, records)):
            return [], f"steps/{path.name}: holds times or counts that cannot be"
        return records, torn and f"steps/{torn}"


def read_run(path: Path | RunFolder) -> RunFolder:
    """Read everything but the steps; one that was read already is given back.

    RunFolderError when there is neither a manifest nor any record.
    """
    if isinstance(path, RunFolder):
        return path
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{path}: is a file; name the run folder, out/NAME-TIME")
    if not path.is_dir():
        raise RunFolderError(f"{path}: no such run folder; runs lie under out/")
    if not any((path / name).exists() for name in ("manifest.json", "cells.jsonl", "requests")):
        raise RunFolderError(f"{path}: not a run folder (neither manifest.json nor cells.jsonl in it)")
    manifest, fault = _manifest(path / "manifest.json")
    suite, suite_fault = _suite(manifest)
    faults = [each for each in (fault or suite_fault,) if each]
    if suite is None:
        return RunFolder(path, manifest, None, {}, tuple(faults))
    if manifest.get("finished_utc") is None:
        faults.append("the run did not finish: its manifest has no finished_utc")
    if suite_sha256(suite) != manifest.get("suite_sha256"):
        faults.append("manifest.json: its suite is not the one that suite_sha256 was made of")
    changed = altered(path, manifest)
    cells, torn = _cells(path, suite, frozenset(changed))
    missing = (*faults, *torn, *_missing_cells(suite, cells), *changed.values())
    return RunFolder(path, manifest, suite, cells, missing)


def _manifest(path: Path) -> tuple[dict[str, object], str | None]:
    try:
        # NaN and Infinity are no JSON, but Python reads them: null is what an unknown is here.
        table = json.loads(path.read_bytes(), parse_constant=lambda _: None)
    except (OSError, ValueError, RecursionError) as error:
        return {}, f"manifest.json: cannot be read ({type(error).__name__}): the suite is not known"
    if not isinstance(table, dict):
        return {}, "manifest.json: not an object: the suite is not known"
    return table, None


def _suite(manifest: Mapping[str, object]) -> tuple[Suite | None, str | None]:
    if "suite" not in manifest:
        return None, "manifest.json: has no suite"
    try:
        return parse_suite(manifest["suite"], "manifest.json: suite"), None
    except SuiteError as error:
        return None, str(error)


def _cells(path: Path, suite: Suite, changed: frozenset[str]) -> tuple[dict[CellKey, CellData], list[str]]:
    """`changed`: files that are not as the run left them; requests in such a file are not taken."""
    closed = path / "cells.jsonl"
    if not closed.is_file():
        return {}, ["cells.jsonl: not there: no cell ended"]
    records, torn = read_cells(closed)
    said = [torn] if torn else []
    expected = set(expected_keys(suite))
    small = _is_small(path / "requests")
    cells: dict[CellKey, CellData] = {}
    for record in records:
        key = CellKey(record.arm, record.concurrency, record.repeat)
        if key not in expected:
            said.append(f"cells.jsonl: {_named(key)} is not in the suite; left out")
            continue
        if not plausible_cell(record):
            said.append(f"cells.jsonl: {_named(key)} holds times or counts that cannot be; left out")
            continue
        file = request_file(path / "requests" / f"{cell_stem(key)}.jsonl")
        if file is not None and f"requests/{file.name}" in changed:
            continue  # said already
        fault, kept = _requests(file, key, record, suite, small)
        if kept is None:
            said.append(f"{fault}; {_named(key)} left out")
        else:
            cells[key] = CellData(record, kept)
    return cells, said


def _is_small(requests: Path) -> bool:
    """Whether the records can all be held at once; what was compacted cannot."""
    total = sum(file.stat().st_size for file in requests.glob("*.jsonl"))
    return total <= SMALL_BYTES and not any(requests.glob("*.parquet"))


def expected_keys(suite: Suite) -> list[CellKey]:
    """Every cell that a whole run of the suite has."""
    return [
        CellKey(arm.name, concurrency, repeat)
        for arm in suite.arms
        for concurrency in suite.load.concurrency
        for repeat in range(suite.repeats)
    ]


def _requests(
    file: Path | None, key: CellKey, cell: CellRecord, suite: Suite, small: bool
) -> tuple[str | None, RequestColumns | StoredRequests | None]:
    """(why they are not to be trusted or None, the cell's requests): half a cell is no cell."""
    if file is None:
        return f"requests/{cell_stem(key)}.jsonl: not there", None
    name = f"requests/{file.name}"
    found, parts = _Found(), list[RequestColumns]()

    def look(columns: RequestColumns) -> None:
        found.add(columns)
        if small:
            parts.append(columns)

    torn = read_columns(file, look)
    if torn:
        return f"requests/{torn}", None
    if not found.plausible:
        return f"{name}: holds times or counts that cannot be", None
    if found.cells - {key}:
        return f"{name}: holds requests of another cell", None
    if cell.requests is not None and found.requests != cell.requests:
        return f"{name}: holds {found.requests} of {cell.requests} requests", None
    expected = key.concurrency * (suite.load.requests_per_stream or 0)
    if cell.requests is None and suite.load.mode == "burst" and found.counted != expected:
        return f"{name}: holds {found.counted} of {expected} requests", None
    return None, joined(parts) if small else StoredRequests(file)


@dataclass(slots=True)
class _Found:
    """What a file holds, part by part; `counted`: requests that are no warm-up."""

    requests: int = 0
    counted: int = 0
    plausible: bool = True
    cells: frozenset[CellKey] = frozenset()

    def add(self, columns: RequestColumns) -> None:
        self.requests += len(columns)
        self.counted += int((~columns.warmup).sum())
        self.plausible = self.plausible and plausible_requests(columns)
        self.cells |= columns.cells


def _missing_cells(suite: Suite, cells: Mapping[CellKey, CellData]) -> list[str]:
    absent = [key for key in expected_keys(suite) if key not in cells]
    by_arm: dict[str, list[CellKey]] = {}
    for key in absent:
        by_arm.setdefault(key.arm, []).append(key)
    total = len(suite.load.concurrency) * suite.repeats
    return [
        f"{arm}: {len(keys)} of {total} cells missing (c={', '.join(_points(keys))})"
        for arm, keys in by_arm.items()
    ]


def _points(keys: list[CellKey]) -> list[str]:
    return [str(point) for point in sorted({key.concurrency for key in keys})]


def _named(key: CellKey) -> str:
    return f"{key.arm[:64]!r} c={key.concurrency} repeat {key.repeat}"
