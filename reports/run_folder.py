"""A run folder as data: what is whole is kept, what is missing or torn is left out and said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from governors.telemetry import StepRecord
from loadgen.journal import read_cells, read_requests, read_steps
from loadgen.records import CellKey, CellRecord, RequestRecord
from reports.fingerprints import altered
from reports.plausible import plausible_cell, plausible_request, plausible_step
from suites.model import Suite, SuiteError
from suites.parse import parse_suite


class RunFolderError(ValueError):
    """The path is no run folder; one line with the mend."""


@dataclass(frozen=True, slots=True)
class CellData:
    """One measured point of one repeat: its closing line and every request of it."""

    record: CellRecord
    requests: tuple[RequestRecord, ...]


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

    def windows(self, arm: str, repeat: int) -> dict[CellKey, tuple[float, float]]:
        """Windows of the ended cells of one engine's life, in the order in which they ran."""
        return {
            key: (cell.record.window_start_s, cell.record.window_end_s)
            for key, cell in self.cells.items()
            if key.arm == arm and key.repeat == repeat
        }

    def steps(self, arm: str, repeat: int) -> tuple[list[StepRecord], str | None]:
        """Step records of one arm and repeat ([] when the engine wrote none), and what is torn about them."""
        path = self.path / "steps" / f"{arm}.r{repeat}.jsonl"
        if not path.is_file():
            return [], None
        records, torn = read_steps(path)
        if not all(map(plausible_step, records)):
            return [], f"steps/{path.name}: holds times or counts that cannot be"
        return records, torn and f"steps/{torn}"


def read_run(path: Path) -> RunFolder:
    """Read everything but the steps. RunFolderError when there is neither a manifest nor any record."""
    if not path.is_dir():
        raise RunFolderError(f"{path}: no such run folder; runs lie under out/")
    if not (path / "manifest.json").exists() and not (path / "cells.jsonl").exists():
        raise RunFolderError(f"{path}: not a run folder (neither manifest.json nor cells.jsonl in it)")
    manifest, fault = _manifest(path / "manifest.json")
    suite, suite_fault = _suite(manifest)
    faults = [fault or suite_fault] if fault or suite_fault else []
    if suite is None:
        return RunFolder(path, manifest, None, {}, tuple(fault for fault in faults if fault))
    if manifest.get("finished_utc") is None:
        faults.append("the run did not finish: its manifest has no finished_utc")
    cells, torn = _cells(path, suite)
    missing = (*faults, *torn, *_missing_cells(suite, cells), *altered(path, manifest))
    return RunFolder(path, manifest, suite, cells, tuple(fault for fault in missing if fault))


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


def _cells(path: Path, suite: Suite) -> tuple[dict[CellKey, CellData], list[str]]:
    closed = path / "cells.jsonl"
    if not closed.is_file():
        return {}, ["cells.jsonl: not there: no cell ended"]
    records, torn = read_cells(closed)
    said = [torn] if torn else []
    expected = set(expected_keys(suite))
    cells: dict[CellKey, CellData] = {}
    for record in records:
        key = CellKey(record.arm, record.concurrency, record.repeat)
        if key not in expected:
            said.append(f"cells.jsonl: {_named(key)} is not in the suite; left out")
            continue
        if not plausible_cell(record):
            said.append(f"cells.jsonl: {_named(key)} holds times or counts that cannot be; left out")
            continue
        requests, fault = _requests(path, key, record, suite)
        if fault:
            said.append(f"{fault}; {_named(key)} left out")
        else:
            cells[key] = CellData(record, requests)
    return cells, said


def expected_keys(suite: Suite) -> list[CellKey]:
    """Every cell that a whole run of the suite has."""
    return [
        CellKey(arm.name, concurrency, repeat)
        for arm in suite.arms
        for concurrency in suite.load.concurrency
        for repeat in range(suite.repeats)
    ]


def _requests(
    path: Path, key: CellKey, cell: CellRecord, suite: Suite
) -> tuple[tuple[RequestRecord, ...], str | None]:
    """The cell's requests, or the sentence why they are not to be trusted: half a cell is no cell."""
    file = path / "requests" / f"{key.arm}.c{key.concurrency}.r{key.repeat}.jsonl"
    name = f"requests/{file.name}"
    if not file.is_file():
        return (), f"{name}: not there"
    records, torn = read_requests(file)
    if torn:
        return (), f"requests/{torn}"
    if not all(map(plausible_request, records)):
        return (), f"{name}: holds times or counts that cannot be"
    if any(CellKey(record.arm, record.concurrency, record.repeat) != key for record in records):
        return (), f"{name}: holds requests of another cell"
    if cell.requests is not None and len(records) != cell.requests:
        return (), f"{name}: holds {len(records)} of {cell.requests} requests"
    expected = key.concurrency * (suite.load.requests_per_stream or 0)
    found = sum(not record.warmup for record in records)
    if cell.requests is None and suite.load.mode == "burst" and found != expected:
        return (), f"{name}: holds {found} of {expected} requests"
    return tuple(records), None


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
