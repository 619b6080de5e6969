"""The terminal: fits 80 columns, plain in a pipe, and no text of a run reaches it as a control sequence."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from reports.judgement import Judgement
from reports.reproduction import ReproductionVerdict
from reports.table import RunProgress, print_cells, print_verdicts, render_verdict_text, stdout_console
from tests.reports import fake_runs


def printed(judgement: Judgement, width: int = 80) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=False)
    print_cells(judgement, console)
    print_verdicts(judgement, console)
    return out.getvalue()


@pytest.mark.parametrize(("columns", "width"), [("0", 80), ("1", 80), ("132", 132)])
def test_a_console_of_no_width_has_80_columns(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert stdout_console().width == width


@pytest.mark.parametrize("width", [80, 130])
def test_table_fits_its_console_and_shows_every_cell(width: int) -> None:
    lines = printed(fake_runs.judgement(), width).splitlines()
    assert max(len(line) for line in lines) <= width
    rows = [
        line for line in lines if line.split()[:1] in (["off"], ["fixed_2"], ["schedule"]) and "(" in line
    ]
    assert len(rows) == 21
    assert "230 (193\u2013267)" in "\n".join(lines)


def test_pipe_gets_no_escape_sequence() -> None:
    assert "\x1b" not in printed(fake_runs.judgement())


def test_model_is_said_before_any_figure() -> None:
    assert printed(fake_runs.judgement()).startswith("Embedded engine: a model, profile h200-qwen3-4b-eagle")
    assert "model" not in printed(fake_runs.judgement(is_model=False)).splitlines()[0]


def test_remarks_name_their_cells_once() -> None:
    cells = tuple(replace(cell, notes=("streams queue",)) for cell in fake_runs.judgement().cells)
    cells = (replace(cells[0], invalid=("client lag 0.3 s",)), *cells[1:])
    text = printed(fake_runs.judgement(cells=cells))
    assert "! invalid: client lag 0.3 s (off c=1)" in text
    assert text.count("streams queue") == 1
    assert "!1" in text


def test_remarks_that_differ_in_numbers_are_one_line() -> None:
    cells = tuple(
        replace(cell, invalid=(f"repeat 0: {at}.5 ms late",))
        for at, cell in enumerate(fake_runs.judgement().cells)
    )
    text = printed(fake_runs.judgement(cells=cells))
    assert text.count("ms late") == 1
    assert "off c=1, off c=2, off c=4, off c=5 and 17 more" in " ".join(text.split())


def test_hostile_text_is_shown_and_does_nothing() -> None:
    hostile = "[bold]x[/]\x1b[2J\x9b31m"
    cells = tuple(replace(cell, arm=hostile, notes=(hostile,)) for cell in fake_runs.judgement().cells[:2])
    text = printed(fake_runs.judgement(cells=cells, headline=hostile, partial=(hostile,)))
    assert "\x1b" not in text
    assert "\x9b" not in text
    assert "[bold]x[/]" in text


def test_run_without_cells_says_so() -> None:
    assert "No cell was measured." in printed(fake_runs.judgement(cells=(), verdicts=()))


def test_verdict_text_of_a_judgement() -> None:
    text = render_verdict_text(fake_runs.judgement(gated=False, partial=("cells.jsonl is torn",)))
    assert text.startswith("BROKEN (exploratory: never counts as passed): schedule loses to off")
    assert "7 of 14 budget checks kept." in text
    assert "cells.jsonl is torn" in text
    assert "\n" not in text


def test_verdict_text_says_the_ruling_once() -> None:
    text = render_verdict_text(
        fake_runs.judgement(headline="Broken (exploratory, not gated): 12 of 56 budget checks")
    )
    assert text.startswith("BROKEN: 12 of 56 budget checks. 7 of 14")


def test_verdict_text_of_a_reproduction() -> None:
    text = render_verdict_text(fake_runs.reproduction())
    assert text.startswith("REPRODUCED: vllm#49548 threshold-collapse, ratio 0.27 (0.23\u20130.32)")
    missing = fake_runs.reproduction(verdict=ReproductionVerdict.NOT_REPRODUCED, ratio=None)
    assert render_verdict_text(missing).startswith(
        "NOT REPRODUCED: vllm#49548 threshold-collapse, ratio not known"
    )


def run_progress(console: Console) -> None:
    with RunProgress(2, "[red]title\x1b[2J", console) as progress:
        for concurrency, tokens_per_s in ((1, 296.0), (2, None)):
            progress.cell_started("off", concurrency, 0)
            for _ in range(concurrency):
                progress.request_done()
            progress.cell_done(
                "off", concurrency, 0, tokens_per_s, "" if tokens_per_s else "no request was done"
            )


def test_progress_is_plain_lines_in_a_pipe() -> None:
    out = io.StringIO()
    run_progress(Console(file=out, force_terminal=False, width=80))
    lines = out.getvalue().splitlines()
    assert lines[1:3] == [
        "[1/2] off c=1 repeat 0: 296 tokens/s",
        "[2/2] off c=2 repeat 0: \u2013 tokens/s, no request was done",
    ]
    assert "\x1b" not in out.getvalue()


def test_progress_is_a_live_grid_on_a_terminal() -> None:
    out = io.StringIO()
    run_progress(Console(file=out, force_terminal=True, width=80))
    assert "2/2 cells" in out.getvalue()
    assert "296" in out.getvalue()
    assert "\x1b[2J" not in out.getvalue()


def test_progress_of_a_quiet_console_says_nothing() -> None:
    out = io.StringIO()
    run_progress(Console(file=out, quiet=True, force_terminal=True))
    assert out.getvalue() == ""


def test_progress_ends_its_display_when_the_run_fails() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)

    def interrupted() -> None:
        with RunProgress(2, "run", console) as progress:
            progress.cell_started("off", 1, 0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "0 of 2 cells" in out.getvalue()
    assert "\x1b[?25h" in out.getvalue()  # the cursor is back


def test_judging_needs_neither_rich_nor_plotly_nor_pandas() -> None:
    program = (
        "import sys, reports.judgement, reports.table, reports.page_input, reports.frame, reports.junit\n"
        "print([m for m in ('rich', 'plotly', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
