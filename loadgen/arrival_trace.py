"""Due times from a file: one second a line, or JSONL with `due_s`, `timestamp` or `arrival_time`."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

import orjson

from loadgen.traffic import TrafficError
from suites.limits import LONGEST_S, MOST_ARRIVALS

KEYS = ("due_s", "timestamp", "arrival_time")
LONGEST_LINE = 100_000  # characters


@lru_cache(maxsize=8)
def read_arrival_trace(path: Path) -> tuple[float, ...]:
    """Seconds from the first arrival, ascending as the file must be. Empty and `#` lines are passed over.

    Raises TrafficError: no such file, no time in it or too many, a line that is none, times that go back or
    far beyond any run.
    """
    try:
        times = _times(path)
    except (OSError, UnicodeDecodeError) as error:
        raise TrafficError(f"trace {path}: cannot be read ({error}); check the path") from None
    if not times:
        raise TrafficError(f"trace {path}: holds no time; write one due second a line")
    for number in range(1, len(times)):
        if times[number] < times[number - 1]:
            raise TrafficError(
                f"trace {path}: arrival {number + 1} ({times[number]:g} s) is before the last; sort them"
            )
    if times[-1] - times[0] > LONGEST_S:
        raise TrafficError(
            f"trace {path}: spans {times[-1] - times[0]:.3g} s, more than {LONGEST_S:.0f}; are the times in "
            "seconds?"
        )
    return tuple(time - times[0] for time in times)


def _times(path: Path) -> list[float]:
    """As they stand there; read by the line, and not beyond LONGEST_LINE: no file is too large to refuse."""
    times: list[float] = []
    number = 0
    with path.open(encoding="utf-8-sig") as file:
        while line := file.readline(LONGEST_LINE):
            number += 1
            text = line.strip()
            if text and not text.startswith("#"):
                times.append(_seconds(path, number, text))
            if len(times) > MOST_ARRIVALS:
                raise TrafficError(f"trace {path}: more than {MOST_ARRIVALS} arrivals; cut it to a part")
    return times


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
