"""`python -m ci.agreement`: what cannot be compared is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci import agreement


def refused(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    with pytest.raises(SystemExit) as ended:
        agreement.main([str(word) for word in words])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("python -m ci.agreement: error: ")


def test_what_is_no_run_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert refused(capsys, "/nonexist", "/nonexist").startswith("/nonexist: no such run folder;")
    assert refused(capsys, tmp_path, tmp_path).startswith(f"{tmp_path}: not a run folder")
    assert refused(capsys, tmp_path).startswith("the following arguments are required: RUN")


def test_runs_without_a_suite_are_not_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    assert refused(capsys, tmp_path, tmp_path).startswith("these are not two runs of one suite;")
