"""A number and its noun."""

from __future__ import annotations

from suites.grammar import being, counted


def test_one_is_singular() -> None:
    assert [counted(count, "core") for count in (0, 1, 2)] == ["0 cores", "1 core", "2 cores"]
    assert [being(count, "core") for count in (1, 2)] == ["1 core is", "2 cores are"]
