"""`depthgate validate` on small tables, and its figures over all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from depthgate.__main__ import main
from tests.depthgate.cli import refusal


def test_json_of_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["validate", "strix-27b-q4", "--json", "--cells"])
    said = json.loads(capsys.readouterr().out)
    assert {"cells", "median_abs_error", "p90_abs_error", "sign_right", "by_table"} <= set(said)
    assert said["cells"] == 9
    assert code == (1 if False in said["met"].values() else 0)
    table = said["by_table"]["strix-27b-q4"]
    assert table["source"] == "https://github.com/ggml-org/llama.cpp/pull/27342"
    assert {cell["role"] for cell in table["predictions"]} == {"left out alone"}
    errors = sorted(abs(cell["predicted"] / cell["measured"] - 1) for cell in table["predictions"])
    assert said["median_abs_error"] == pytest.approx(errors[4])


def test_a_missed_bar_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    """Four community cells that contradict each other: see docs/validation.md."""
    assert main(["validate", "gb10-gemma4-26b-a4b"]) == 1
    assert "MISSED: median <= 6 %" in capsys.readouterr().out


def test_a_table_named_twice_counts_once(capsys: pytest.CaptureFixture[str]) -> None:
    main(["validate", "gb10-qwen3.5-122b", "gb10-qwen3.5-122b", "--json"])
    assert json.loads(capsys.readouterr().out)["cells"] == 3


def test_page(tmp_path: Path) -> None:
    path = tmp_path / "v.html"
    main(["validate", "strix-27b-q4", "--page", str(path)])
    assert "llama.cpp" in path.read_text()


def test_bad_input(tmp_path: Path) -> None:
    assert "is a folder; name a file" in refusal("validate", "strix-27b-q4", "--page", str(tmp_path))
    assert "table 'strix-27b': no such table; did you mean" in refusal("validate", "strix-27b")
    words = refusal("validate", "strix-27b-q4", "--page", str(tmp_path / "no" / "v.html"))
    assert "no such folder; make it first" in words


@pytest.mark.slow
def test_figures_that_docs_state(capsys: pytest.CaptureFixture[str]) -> None:
    """docs/validation.md: median and sign meet their bars, the 90th percentile does not."""
    assert main(["validate", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["cells"] == 592
    assert said["met"] == {"median_abs_error": True, "p90_abs_error": False, "sign_right": True}
    assert said["median_abs_error"] == pytest.approx(0.059, abs=0.001)
    assert said["p90_abs_error"] == pytest.approx(0.213, abs=0.005)
    assert said["sign_right"] == pytest.approx(0.971, abs=0.005)
