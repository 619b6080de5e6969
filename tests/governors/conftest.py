"""`pytest tests/governors --rewrite-golden` rewrites the golden decisions; then read the diff."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write tests/golden/governors afresh")


@pytest.fixture
def rewrite_golden(request: pytest.FixtureRequest) -> bool:
    """False as well where this file is loaded too late to add its option (a run of the whole suite)."""
    return bool(request.config.getoption("--rewrite-golden", default=False))
