"""Whole numbers of more digits than Python reads (4300): refused in words of whoever wrote them."""

from __future__ import annotations

import tomllib


class LongNumber(ValueError):
    """The message is the fault and its mend."""

    def __init__(self) -> None:
        super().__init__("a number has too many digits; write one that fits in 64 bits")


def whole_number(digits: str) -> int:
    """The `parse_int` of json.loads. Raises LongNumber."""
    try:
        return int(digits)
    except ValueError:
        raise LongNumber from None


def read_toml(text: str) -> dict[str, object]:
    """Raises LongNumber, TOMLDecodeError; RecursionError where it is nested too deep."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        raise LongNumber from None
