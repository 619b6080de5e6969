"""docs/governors.md: its code runs as printed, and its table names what the registry holds."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from governors.contract import DepthLimits, Reason
from governors.entry import GovernorContext, GovernorError
from governors.registry import GOVERNORS, build_governor
from tests.governors.observations import observation

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "governors.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_the_policy_on_the_page_works_as_an_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue_guard.py").write_text(_blocks("python")[0])
    info = tmp_path / "queue_guard-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: queue_guard\nVersion: 1.0\n")
    group, line = _blocks("toml")[0].splitlines()
    assert group == '[project.entry-points."depthgate.governors"]'
    (info / "entry_points.txt").write_text(f"[depthgate.governors]\n{line.replace(chr(34), '')}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "queue_guard", raising=False)

    context = GovernorContext(DepthLimits(k_max=3, max_num_seqs=8))
    governor = build_governor("queue_guard", {"patience": 2}, context)
    depths = [
        governor.decide(observation(requests_waiting=waiting)).depth_next for waiting in (0, 5, 0, 0, 0)
    ]
    assert depths == [3, 1, 1, 3, 3]
    governor = build_governor("queue_guard", {}, context)
    assert governor.decide(observation(requests_waiting=1)).reason == Reason.OVERLOADED
    with pytest.raises(GovernorError, match=r"queue_guard\.depth=4: give an integer from 0 to 3"):
        build_governor("queue_guard", {"depth": 4}, context)


def test_the_replay_on_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    exec(_blocks("python")[1], names)
    assert set(names["depths"]) == {0, 4}


def test_the_table_holds_every_bundled_policy_and_its_options() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)$", PAGE, flags=re.MULTILINE))
    assert list(rows) == list(GOVERNORS)
    for name, entry in GOVERNORS.items():
        said = rows[name] + (rows["schedule"] if name == "hysteresis_schedule" else "")
        said += rows["dspark"] if name == "dspark_argmax" else ""
        assert rows[name].strip().startswith(entry.layer)
        assert [option for option in entry.options if f"`{option}`" not in said] == []
