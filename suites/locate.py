"""Where suites lie: bundled ones go by their name, any other by its path."""

from __future__ import annotations

from pathlib import Path

from suites.fields import nearest
from suites.model import SuiteError

BUNDLED = Path(__file__).parent


def suite_names() -> tuple[str, ...]:
    """Names of the bundled suites, sorted."""
    return tuple(sorted(path.stem for path in BUNDLED.glob("*.toml")))


def find_suite(name: str | Path) -> Path:
    """The file of a bundled suite's name or of a path; SuiteError names the nearest when there is none."""
    path = Path(name)
    if path.suffix == ".toml" or len(path.parts) > 1:
        if path.is_file():
            return path
        raise SuiteError(f"{str(path)!r}: no such suite file; bundled suites: {', '.join(suite_names())}")
    if str(name) in suite_names():
        return BUNDLED / f"{name}.toml"
    raise SuiteError(f"suite {str(name)!r}: not known; {nearest(str(name), suite_names())}")
