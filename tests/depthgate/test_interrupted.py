"""What Ctrl-C leaves, as each verb says it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from depthgate import profile_command
from depthgate.__main__ import VERBS, main

KEPT = "depthgate: interrupted; what was recorded is kept"


def interrupt(*_: object) -> int:
    raise KeyboardInterrupt


def test_profile_writes_nothing_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(profile_command, "run_loop", interrupt)
    assert main(["profile", "--out", str(tmp_path / "a.json")]) == 130
    assert capsys.readouterr().err == (
        "depthgate: interrupted; of what was under way no profile is written\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run quickstart", KEPT),
        ("reproduce bistable", KEPT),
        ("load --url http://x --requests 1", KEPT),
        ("list", "depthgate: interrupted"),
        ("validate", "depthgate: interrupted"),
    ],
)
def test_only_verbs_that_record_say_that_it_is_kept(
    words: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = import_module(VERBS[words.split()[0]])
    monkeypatch.setattr(module, "main", interrupt)
    assert main(words.split()) == 130
    assert capsys.readouterr().err == f"{said}\n"
