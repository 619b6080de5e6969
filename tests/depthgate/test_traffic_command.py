"""`depthgate traffic preview`: a table, an object, and one line for what cannot be shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.depthgate.cli import depthgate, refusal
from tests.depthgate.test_bad_input import SUITE


def test_a_table_of_a_bundled_suite() -> None:
    done = depthgate("traffic", "preview", "quickstart", "--requests", "100", "--samples", "1")
    assert done.code == 0, done.err
    assert "gsm8k: 50 % by weight, 50 of these requests" in done.out
    assert "offline (licence: Apache-2.0 (made by depthgate))" in done.out
    assert done.out.count("\n  > ") == 2


def test_an_object_with_phases() -> None:
    done = depthgate("traffic", "preview", "scenario-class-mix-drift", "--requests", "50", "--json")
    found = json.loads(done.out)
    assert found["requests"] == 50
    assert len(found["digest"]) == 64
    assert all(abs(sum(shares.values()) - 1) < 1e-12 for shares in found["shares_by_phase"])
    assert found["shares_by_phase"][0] != found["shares_by_phase"][-1]
    assert {"name", "licence", "prompt_tokens", "samples"} <= set(found["classes"][0])


def test_faults_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach the Hub\n(offline)")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    path = tmp_path / "hub.toml"
    path.write_text(SUITE.replace('name = "gsm8k"', 'name = "gsm8k"\nsource = "hub:openai/gsm8k"', 1))
    assert "hub:openai/gsm8k: cannot be read (Couldn't reach the Hub (offline))" in refusal(
        "traffic", "preview", path
    )
    assert 'did you mean "quickstart"?' in refusal("traffic", "preview", "quikstart")
    assert "--requests: '0' must be a whole number from 1 to" in refusal(
        "traffic", "preview", "quickstart", "--requests", "0"
    )
