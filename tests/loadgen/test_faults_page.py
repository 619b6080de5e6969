"""docs/faults.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "faults.md"


def test_every_test_of_the_table_exists() -> None:
    named = re.findall(r"`([a-z_]+/test_[a-z_]+\.py)::(test_[a-z0-9_]+)`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 25
    for file, test in named:
        source = (TESTS / file).read_text(encoding="utf-8")
        assert re.search(rf"^def {test}\(", source, re.MULTILINE), f"{file}::{test}"


def test_no_row_is_without_a_test() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    for row in rows:
        cell = row.rstrip("| ").rpartition(" | ")[2]
        assert "::test_" in cell or cell.startswith("same"), row
