"""Fields: one table of a suite, read strictly; a fault names the file, the field, the value and the mend."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches

from suites.model import SuiteError
from suites.secrets import key_shown, secret_path

SHOWN_CHARACTERS = 60

# Names become parts of file names and of page anchors, and the suite comes from anywhere.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def nearest(name: str, known: Collection[str]) -> str:
    """`did you mean "x"?` or the list of what there is."""
    close = get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    return f'did you mean "{close[0]}"?' if close else f"known: {', '.join(sorted(known)) or 'none'}"


def shown(value: object) -> str:
    """A value as an error shows it: one line, control characters escaped, cut."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def _is_finite(value: object) -> bool:
    try:
        return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # an int beyond the floats
        return False


class Fields:
    """Takes typed fields out of `table`; `close()` then refuses what nobody took. null counts as absent."""

    def __init__(self, table: object, source: str, path: str = "") -> None:
        self.source = source
        self.path = path
        if not isinstance(table, Mapping):
            raise SuiteError(f"{source}: {path or 'suite'} = {shown(table)}: must be a table of fields")
        self._table = {str(key): value for key, value in table.items() if value is not None}
        self._taken: set[str] = set()

    def at(self, name: str) -> str:
        """The field's full path, `arms[2].governor`."""
        return f"{self.path}.{key_shown(name)}" if self.path else key_shown(name)

    def fault(self, name: str, mend: str) -> SuiteError:
        """The error to raise for field `name`."""
        value = f" = {shown(self._table[name])}" if name in self._table else ""
        return SuiteError(f"{self.source}: {self.at(name)}{value}: {mend}")

    def raw(self, name: str) -> object:
        """The value as TOML gave it, None when absent."""
        self._taken.add(name)
        return self._table.get(name)

    def close(self) -> None:
        """Raise on the first field that is not known here."""
        for name in self._table:
            if name not in self._taken:
                raise self.fault(name, f"no such field; {nearest(name, self._taken)}")

    def text(self, name: str) -> str:
        """A required, non-empty, printable string on one line."""
        value = self.raw(name)
        if value is None:
            raise self.fault(name, f'missing; add {name} = "…"')
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self.fault(name, "must be non-empty text on one line, in quotes")
        return value

    def text_or(self, name: str, default: str) -> str:
        """As `text`, with a default."""
        return default if self.raw(name) is None else self.text(name)

    def text_or_none(self, name: str) -> str | None:
        """As `text`, None when absent."""
        return None if self.raw(name) is None else self.text(name)

    def choice(self, name: str, choices: Collection[str], default: str) -> str:
        """One of `choices`."""
        value = self.text_or(name, default)
        if value not in choices:
            raise self.fault(name, f"not known; {nearest(value, choices)}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """true or false."""
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fault(name, "must be true or false, without quotes")
        return value

    def integer_or_none(self, name: str, minimum: int, maximum: int | None = None) -> int | None:
        """A whole number >= minimum and <= maximum, None when absent."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise self.fault(name, f"must be a whole number of at least {minimum}")
        if maximum is not None and value > maximum:
            raise self.fault(name, f"must be at most {maximum}")
        return value

    def integer(self, name: str, minimum: int, default: int, maximum: int | None = None) -> int:
        """As `integer_or_none`, with a default."""
        value = self.integer_or_none(name, minimum, maximum)
        return default if value is None else value

    def number_or_none(self, name: str, fits: Callable[[float], bool], mend: str) -> float | None:
        """A finite number that `fits`, as float; None when absent."""
        value = self.raw(name)
        if value is None:
            return None
        if not _is_finite(value):
            raise self.fault(name, f"must be a finite number; {mend}")
        assert isinstance(value, int | float)
        if not fits(value):
            raise self.fault(name, mend)
        return float(value)

    def number(self, name: str, fits: Callable[[float], bool], mend: str, default: float) -> float:
        """As `number_or_none`, with a default."""
        value = self.number_or_none(name, fits, mend)
        return default if value is None else value

    def items(self, name: str) -> list[object] | None:
        """A list, None when absent."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise self.fault(name, "must be a list in square brackets")
        return list(value)

    def tables(self, name: str) -> list[Fields]:
        """The tables of `[[name]]`, each with its own path."""
        return [
            Fields(item, self.source, f"{self.at(name)}[{index}]")
            for index, item in enumerate(self.items(name) or [])
        ]

    def options(self, name: str) -> dict[str, object]:
        """A free table whose values are JSON values (no dates, no NaN or infinity); {} when absent."""
        value = self.raw(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.fault(name, "must be a table of options")
        if (where := secret_path(value, self.at(name))) is not None:
            raise SuiteError(
                f"{self.source}: {where}: a suite stands in every run of it; drop the secret here and "
                "give it by the environment (OPENAI_API_KEY; a server inherits all of it)"
            )
        return self._table_of(value, self.at(name))

    def _table_of(self, value: Mapping[object, object], path: str) -> dict[str, object]:
        return {str(key): self._plain(item, f"{path}.{key_shown(key)}") for key, item in value.items()}

    def _plain(self, value: object, path: str) -> object:
        if isinstance(value, Mapping):
            return self._table_of(value, path)
        if isinstance(value, list | tuple):
            return [self._plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
        if isinstance(value, float) and not math.isfinite(value):
            raise SuiteError(f"{self.source}: {path} = {value}: must be a finite number")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise SuiteError(f"{self.source}: {path} = {shown(value)}: must fit in 64 bits")
        if not isinstance(value, str | bool | int | float):
            raise SuiteError(
                f"{self.source}: {path} = {shown(value)}: must be text, a number, true, false or a list"
            )
        return value


def read_name(fields: Fields, key: str) -> str:
    """A name that is safe in paths and pages."""
    name = fields.text(key)
    if not NAME.fullmatch(name):
        raise fields.fault(key, "must be 1 to 64 letters, digits, - or _ and begin with a letter or digit")
    return name


def check_unique(names: Iterable[str], source: str, path: str) -> None:
    """Raises SuiteError on a name that stands twice."""
    for name, count in Counter(names).items():
        if count > 1:
            raise SuiteError(f"{source}: {path}.name = {name!r}: {count} share this name; rename all but one")
