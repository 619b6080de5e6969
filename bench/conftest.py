"""What `make bench` prints beside the times: ratios, which travel from machine to machine better."""

from __future__ import annotations

from collections.abc import Callable

import pytest

LINES = pytest.StashKey[list[str]]()


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Takes a line for the end of the run."""
    lines: list[str] = request.config.stash.setdefault(LINES, [])
    return lines.append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = config.stash.get(LINES, [])
    if lines:
        terminalreporter.section("ratios")
        for line in lines:
            terminalreporter.write_line(line)
