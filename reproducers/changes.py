"""Changes of a suite: what a control takes away or puts in place. Each is a pure Suite -> Suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from suites.model import Suite

Change = Callable[[Suite], Suite]


def with_penalties(**values: object) -> Change:
    """Switches of the embedded engine; None drops the suite's own, so that the profile's holds."""

    def change(suite: Suite) -> Suite:
        penalties = suite.engine.options.get("penalties", {})
        assert isinstance(penalties, Mapping)
        return with_options(penalties=_merged(penalties, values))(suite)

    return change


def with_options(**values: object) -> Change:
    """Engine options, such as max_num_seqs; None drops the suite's own."""

    def change(suite: Suite) -> Suite:
        return replace(suite, engine=replace(suite.engine, options=_merged(suite.engine.options, values)))

    return change


def with_profile(name: str) -> Change:
    """The suite on another profile of the embedded engine, of the same drafter class or none named."""
    return lambda suite: replace(suite, engine=replace(suite.engine, profile=name))


def nine_of_ten(depth: int) -> tuple[float, ...]:
    """Acceptance by position, unconditional, where nine of ten drafts pass at every one."""
    return tuple(round(0.9**position, 4) for position in range(1, depth + 1))


def with_acceptance(by_position: Sequence[float]) -> Change:
    """Other text: every class is accepted so."""
    return with_options(acceptance={"by_class": {"default": list(by_position)}})


def with_arm(name: str, governor: str, **options: object) -> Change:
    """Another governor under the name of an arm that the suite has: the rule looks for the name."""

    def change(suite: Suite) -> Suite:
        assert any(arm.name == name for arm in suite.arms), f"no arm {name!r}"
        arms = (
            replace(arm, governor=governor, options=options) if arm.name == name else arm
            for arm in suite.arms
        )
        return replace(suite, arms=tuple(arms))

    return change


def with_load(**fields: Any) -> Change:
    """Fields of the load, such as concurrency or mode."""
    return lambda suite: replace(suite, load=replace(suite.load, **fields))


def together(*changes: Change) -> Change:
    """One after the other."""

    def change(suite: Suite) -> Suite:
        for each in changes:
            suite = each(suite)
        return suite

    return change


def _merged(before: Mapping[str, object], values: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in {**before, **values}.items() if value is not None}
