"""A number of 5,001 digits is said as that, wherever it stands."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from engines.embedded.profile import ProfileError, load_profile
from suites.long_numbers import LongNumber, read_toml, whole_number
from suites.model import SuiteError
from suites.parse import load_suite
from tests.depthgate.cli import refusal

LONG = "1" * 5001
SAID = "a number has too many digits; write one that fits in 64 bits"


def test_what_is_long_and_what_is_no_toml() -> None:
    assert read_toml("seed = 12") == {"seed": 12}
    assert whole_number("-12") == -12
    with pytest.raises(LongNumber):
        whole_number(LONG)
    with pytest.raises(tomllib.TOMLDecodeError):
        read_toml("seed = ")


def test_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(f"seed = {LONG}")
    with pytest.raises(SuiteError) as suite:
        load_suite(path)
    assert str(suite.value) == f"{path}: {SAID}"
    with pytest.raises(ProfileError) as profile:
        load_profile(path)
    assert str(profile.value) == f"profile {path}: {SAID}"


def test_so_is_a_flag() -> None:
    said = refusal("load", "--url", "http://x", "--requests", "1", "--body", f'{{"a": {LONG}}}')
    assert said == f"depthgate: error: --body: {SAID}"
