"""Due times from a file: one second a line, or JSONL with `due_s`, `timestamp` or `arrival_time`."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

import orjson

from loadgen.traffic import TrafficError

KEYS = ("due_s", "timestamp", "arrival_time")


@lru_cache(maxsize=8)
def read_arrival_trace(path: Path) -> tuple[float, ...]:
    """Seconds from the first arrival, ascending as the file must be. Empty and `#` lines are passed over.

    Raises TrafficError: no such file, no time in it, a line that is none, times that go back.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TrafficError(f"trace {path}: cannot be read ({error}); check the path") from None
    times = [
        _seconds(path, number, line.strip())
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.startswith("#")
    ]
    if not times:
        raise TrafficError(f"trace {path}: holds no time; write one due second a line")
    for number in range(1, len(times)):
        if times[number] < times[number - 1]:
            raise TrafficError(
                f"trace {path}: arrival {number + 1} ({times[number]:g} s) is before the last; sort them"
            )
    return tuple(time - times[0] for time in times)


def _seconds(path: Path, number: int, line: str) -> float:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = None
    if isinstance(value, dict):
        value = next((value[key] for key in KEYS if key in value), None)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TrafficError(
            f'trace {path}: line {number} = {line[:40]!r}: write a number of seconds, or {{"due_s": 1.5}}'
        )
    return float(value)
