"""Reading one policy's options: typed, ranged, and refused with the field, the value and the mend."""

from __future__ import annotations

import math
from collections.abc import Mapping

from governors.entry import GovernorError

RAISE_K_MAX = "raise the engine's k_max (vLLM: num_speculative_tokens)"


class OptionReader:
    """Options of one governor. A bool is never taken for a number; every refusal is a GovernorError."""

    __slots__ = ("governor", "options")

    def __init__(self, governor: str, options: Mapping[str, object]) -> None:
        self.governor = governor
        self.options = options

    def refuse(self, name: str, value: object, mend: str) -> GovernorError:
        """The error for option `name`; the caller raises it."""
        return GovernorError(f"{self.governor}.{name}={value!r}: {mend}")

    def required(self, name: str, mend: str) -> object:
        """The raw value of an option that has no default."""
        if name not in self.options:
            raise GovernorError(f"{self.governor}.{name} is missing: {mend}")
        return self.options[name]

    def integer(self, name: str, default: int | None, low: int, high: int, mend: str = "") -> int:
        """An integer in [low, high]; default None = required. `mend`: advice above `high`."""
        advice = f"give an integer from {low} to {high}"
        value = self.required(name, advice) if default is None else self.options.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refuse(name, value, advice)
        if value > high:
            raise self.refuse(name, value, mend or advice)
        if value < low:
            raise self.refuse(name, value, advice)
        return value

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A finite number in [low, high]."""
        value = self.options.get(name, default)
        good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not good or not low <= float(value) <= high:  # type: ignore[arg-type]
            raise self.refuse(name, value, f"give a number from {low:g} to {high:g}")
        return float(value)  # type: ignore[arg-type]

    def flag(self, name: str, default: bool) -> bool:
        """true or false; 0 and 1 are refused, so that a misplaced count is not read as a switch."""
        value = self.options.get(name, default)
        if not isinstance(value, bool):
            raise self.refuse(name, value, "give true or false")
        return value

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        """One of `allowed`."""
        value = self.options.get(name, default)
        if not isinstance(value, str) or value not in allowed:
            raise self.refuse(name, value, f"give one of {', '.join(allowed)}")
        return value
