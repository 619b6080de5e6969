"""Profile: costs and acceptance fitted for one hardware, target model, drafter class and engine version."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise


class ProfileError(ValueError):
    """A profile that cannot be read or must not be used; one line: the field, the value, the mend."""


@dataclass(frozen=True, slots=True)
class Binding:
    """What the numbers were fitted on. They hold for nothing else, least of all another drafter class."""

    hardware: str
    target_model: str
    drafter_class: str
    engine_version: str

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, str) or not value:
                raise _refuse(f"binding.{field.name}", value, "give a non-empty string")


@dataclass(frozen=True, slots=True)
class Profile:
    """Every table may be empty: then the policies that need it refuse to trim (reason no-model).

    batches, depths  ascending axes of `step_s`: decoding requests, drafts a request (K)
    step_s           seconds, rows by batch, columns by depth: a whole *served* step, schedule to schedule
    verify_tokens    ascending: tokens the target verifies in a step, bonus tokens included
    verify_s         seconds of the step at those token counts, the drafter left out
    draft_s          seconds by `batches` to draft k_max tokens; None = not measured (or none to speak of)
    acceptance       unconditional acceptance by position, a_1 >= a_2 >= ..., each in 0..1
    captured_tokens  ascending graph sizes in tokens, empty = not known
    source           where the numbers come from
    is_model         they were computed, not measured: whatever reports them says so

    Raises ProfileError: wrong shape, an axis that does not ascend, a value negative or not finite.
    """

    binding: Binding
    batches: tuple[int, ...]
    depths: tuple[int, ...]
    step_s: tuple[tuple[float, ...], ...]
    verify_tokens: tuple[int, ...]
    verify_s: tuple[float, ...]
    draft_s: tuple[float, ...] | None
    acceptance: tuple[float, ...]
    captured_tokens: tuple[int, ...]
    source: str
    is_model: bool

    def __post_init__(self) -> None:
        _ascending("batches", self.batches, low=1)
        _ascending("depths", self.depths, low=0)
        _ascending("verify_tokens", self.verify_tokens, low=1)
        _ascending("captured_tokens", self.captured_tokens, low=1)
        _length("step_s", len(self.step_s), "batches", len(self.batches))
        for index, row in enumerate(self.step_s):
            _length(f"step_s[{index}]", len(row), "depths", len(self.depths))
            _seconds(f"step_s[{index}]", row)
        _length("verify_s", len(self.verify_s), "verify_tokens", len(self.verify_tokens))
        _seconds("verify_s", self.verify_s)
        if self.draft_s is not None:
            _length("draft_s", len(self.draft_s), "batches", len(self.batches))
            _seconds("draft_s", self.draft_s)
        _acceptance(self.acceptance)

    def require_class(self, drafter_class: str) -> None:
        """Refuse to serve a drafter of another class: parameters never transfer between classes."""
        if drafter_class != self.binding.drafter_class:
            raise ProfileError(
                f"profile.binding.drafter_class={self.binding.drafter_class!r}, but the engine's drafter is "
                f"{drafter_class!r}: parameters never transfer between classes; fit a profile for this one"
            )

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> Profile:
        """From parsed JSON or TOML. Unknown and missing fields are refused; a missing `draft_s` is None."""
        names = [field.name for field in fields(Profile)]
        _same_fields("profile", mapping, names, optional=("draft_s",))
        binding = mapping["binding"]
        if not isinstance(binding, Mapping):
            raise _refuse(
                "binding", binding, "give a table of hardware, target_model, drafter_class, engine_version"
            )
        _same_fields("binding", binding, [field.name for field in fields(Binding)])
        if not isinstance(mapping["is_model"], bool):
            raise _refuse("is_model", mapping["is_model"], "give true (computed) or false (measured)")
        if not isinstance(mapping["source"], str):
            raise _refuse("source", mapping["source"], "say in words where the numbers come from")
        rows = _sequence("step_s", mapping["step_s"])
        draft_s = mapping.get("draft_s")
        return cls(
            binding=Binding(**{name: binding[name] for name in binding}),
            batches=_integers("batches", mapping["batches"]),
            depths=_integers("depths", mapping["depths"]),
            step_s=tuple(_numbers(f"step_s[{index}]", row) for index, row in enumerate(rows)),
            verify_tokens=_integers("verify_tokens", mapping["verify_tokens"]),
            verify_s=_numbers("verify_s", mapping["verify_s"]),
            draft_s=None if draft_s is None else _numbers("draft_s", draft_s),
            acceptance=_numbers("acceptance", mapping["acceptance"]),
            captured_tokens=_integers("captured_tokens", mapping["captured_tokens"]),
            source=mapping["source"],
            is_model=mapping["is_model"],
        )

    def to_mapping(self) -> dict[str, object]:
        """The inverse of `from_mapping`: lists and dicts that JSON can hold."""
        plain: dict[str, object] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            plain[field.name] = list(value) if isinstance(value, tuple) else value
        plain["step_s"] = [list(row) for row in self.step_s]
        plain["binding"] = {field.name: getattr(self.binding, field.name) for field in fields(Binding)}
        return plain


def _refuse(field: str, value: object, mend: str) -> ProfileError:
    shown = repr(value)
    return ProfileError(f"profile.{field}={shown if len(shown) <= 80 else shown[:77] + '...'}: {mend}")


def _same_fields(
    where: str, given: Mapping[str, object], known: Sequence[str], optional: Sequence[str] = ()
) -> None:
    unknown = sorted(set(given) - set(known))
    missing = [name for name in known if name not in given and name not in optional]
    if unknown:
        raise ProfileError(f"{where}.{unknown[0]} is no field of a profile; known are {', '.join(known)}")
    if missing:
        raise ProfileError(
            f"{where}.{missing[0]} is missing; add it (an empty list where nothing was measured)"
        )


def _sequence(field: str, value: object) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise _refuse(field, value, "give a list")
    return value


def _integers(field: str, value: object) -> tuple[int, ...]:
    found = []
    for item in _sequence(field, value):
        if isinstance(item, bool) or not isinstance(item, int):
            raise _refuse(field, item, "give whole numbers")
        found.append(item)
    return tuple(found)


def _numbers(field: str, value: object) -> tuple[float, ...]:
    found = []
    for item in _sequence(field, value):
        if isinstance(item, bool) or not isinstance(item, int | float):
            raise _refuse(field, item, "give numbers")
        found.append(float(item))
    return tuple(found)


def _ascending(field: str, axis: tuple[int, ...], low: int) -> None:
    if axis and axis[0] < low:
        raise _refuse(field, axis, f"begin at {low} or above")
    if any(after <= before for before, after in pairwise(axis)):
        raise _refuse(field, axis, "sort it so that each entry is above the one before")


def _length(field: str, length: int, axis: str, wanted: int) -> None:
    if length != wanted:
        raise ProfileError(
            f"profile.{field} has {length} entries, profile.{axis} {wanted}: give one for each"
        )


def _seconds(field: str, values: tuple[float, ...]) -> None:
    for value in values:
        if not math.isfinite(value) or value < 0:
            raise _refuse(
                field, value, "give seconds: finite and not negative; leave out what was not measured"
            )


def _acceptance(acceptance: tuple[float, ...]) -> None:
    before = 1.0
    for value in acceptance:
        if not 0 <= value <= before:  # NaN fails too
            raise _refuse(
                "acceptance", acceptance, "give unconditional rates in 0..1 that do not rise with position"
            )
        before = value
