"""Files that commands write: nothing half written, and what was there stays when the disk is full."""

from __future__ import annotations

from pathlib import Path

import pytest

from depthgate.exits import UsageError
from depthgate.output_file import check_file, write_file


def test_what_was_there_survives_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.toml"
    write_file("--out", path, "before")

    def full(self: Path, text: str, **_: object) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(UsageError, match=r"--out .*p.toml: cannot write it \(No space left on device\)"):
        write_file("--out", path, "after")
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["p.toml"]


def test_a_device_is_written_to_and_not_replaced() -> None:
    with pytest.raises(UsageError, match="/dev/full: cannot write it"):
        write_file("--page", Path("/dev/full"), "x")
    write_file("--page", Path("/dev/null"), "x")
    assert Path("/dev/null").is_char_device()


def test_places_are_checked_before_the_work(tmp_path: Path) -> None:
    check_file("--out", tmp_path / "new.toml")
    with pytest.raises(UsageError, match="no such folder; make it first"):
        check_file("--out", tmp_path / "none" / "new.toml")
    with pytest.raises(UsageError, match="is a folder; name a file in it"):
        check_file("--out", tmp_path)
    with pytest.raises(UsageError, match="--csv -: is not written to stdout; name a file"):
        check_file("--csv", Path("-"))
