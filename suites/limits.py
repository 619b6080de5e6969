"""What a suite may ask for at most: beyond these nothing ends, or nothing fits; a slip of the finger."""

from __future__ import annotations

from suites.fields import Fields

MOST_STREAMS = 100_000
MOST_REQUESTS_PER_STREAM = 1_000_000
MOST_ARRIVALS = 1_000_000
MOST_WORKERS = 256
MOST_REPEATS = 1_000
MOST_CONFIDENCE = 0.999  # each tail then holds one of the 2000 draws of the bootstrap (reports/interval.py)
MOST_SEED = 2**63 - 1  # 64 bits, as every other whole number of a suite
MOST_PER_S = 1e6  # requests a second
LONGEST_S = 1e6  # eleven days


def seconds_or_none(fields: Fields, name: str, *, zero: bool = False) -> float | None:
    """Seconds above 0 (or from 0 up, with `zero`) and at most LONGEST_S; None when absent."""
    return _bounded(fields, name, LONGEST_S, "seconds", zero)


def rate_or_none(fields: Fields, name: str, *, zero: bool = False) -> float | None:
    """Requests a second, above 0 (or from 0 up, with `zero`) and at most MOST_PER_S; None when absent."""
    return _bounded(fields, name, MOST_PER_S, "requests/s", zero)


def _bounded(fields: Fields, name: str, most: float, unit: str, zero: bool) -> float | None:
    said = f"must be 0 {unit} or more" if zero else f"must be above 0 {unit}"
    return fields.number_or_none(
        name,
        lambda value: (value > 0 or (zero and value == 0)) and value <= most,
        f"{said} and at most {most:.0f}",
    )
