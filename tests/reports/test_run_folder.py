"""Run folders that were cut, garbled or emptied: judged by what is there, and said to be partial."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reports.fingerprints import altered, digest, record_sums, write_fingerprints
from reports.judge import judge_run
from reports.judgement import Ruling
from reports.run_folder import RunFolderError, read_run
from reports.steps import read_cell_steps
from tests.reports.hand_made import step, suite, write_lines, write_manifest, write_run

FAST = {"off": 10.0, "fast": 8.0}
CUTS = 16


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", suite(points=(1,)), FAST)


def _cut(path: Path, part: float) -> bool:
    """Cut the file at a share of its length; False when that leaves it whole."""
    whole = path.read_bytes()
    kept = whole[: round(part * len(whole))]
    path.write_bytes(kept)
    return kept != whole


@pytest.mark.parametrize("part", [index / CUTS for index in range(CUTS)])
@pytest.mark.parametrize("name", ["manifest.json", "cells.jsonl", "requests/fast.c1.r1.jsonl"])
def test_a_file_cut_anywhere_is_judged_and_never_kept(run: Path, name: str, part: float) -> None:
    assert judge_run(run).ruling is Ruling.KEPT
    assert _cut(run / name, part)
    judgement = judge_run(run)
    assert judgement.partial
    assert judgement.ruling is not Ruling.KEPT


def test_a_file_cut_at_the_end_of_any_line_is_seen(tmp_path: Path) -> None:
    """No torn line tells of it: the cell's closing line knows how many requests there were."""
    run = write_run(tmp_path / "run", suite(points=(4,)), FAST)
    file = run / "requests/fast.c4.r0.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    for kept in range(4):
        file.write_text("".join(lines[:kept]))
        judgement = judge_run(run)
        assert f"requests/fast.c4.r0.jsonl: holds {kept} of 4 requests; 'fast' c=4 repeat 0 left out" in (
            judgement.partial
        )
        assert judgement.ruling is not Ruling.KEPT


@pytest.mark.parametrize("cut", [2, 7, 100, 500])
def test_a_torn_end_of_cells_keeps_the_cells_before_it(run: Path, cut: int) -> None:
    whole = (run / "cells.jsonl").read_bytes()
    (run / "cells.jsonl").write_bytes(whole[:-cut])
    found = read_run(run)
    assert 0 < len(found.cells) < 6
    assert judge_run(run).ruling is Ruling.INCONCLUSIVE


@pytest.mark.parametrize(
    "garbage", [b"\xff\xfe\x00\n", b"{}\n", b"[]\n", b"null\n", b'{"arm": 5}\n', b"\n\n{"]
)
@pytest.mark.parametrize("name", ["cells.jsonl", "requests/fast.c1.r1.jsonl"])
def test_garbage_lines_do_not_pass_as_records(run: Path, name: str, garbage: bytes) -> None:
    file = run / name
    file.write_bytes(garbage + file.read_bytes())
    judgement = judge_run(run)
    assert judgement.partial
    assert judgement.ruling is not Ruling.KEPT


@pytest.mark.parametrize(
    "text", ["", "[]", "5", "{", "{}", '{"suite": 3}', '{"suite": {"name": "x"}}', "[" * 9999]
)
def test_a_manifest_that_says_nothing_makes_the_run_invalid(run: Path, text: str) -> None:
    (run / "manifest.json").write_text(text)
    judgement = judge_run(run)
    assert judgement.ruling is Ruling.INVALID
    assert not judgement.gated
    assert judgement.headline.startswith("Invalid: manifest.json")


def test_nan_in_a_manifest_is_null(run: Path) -> None:
    manifest = (run / "manifest.json").read_text()
    (run / "manifest.json").write_text(manifest[:-1] + ', "speed": NaN}')
    judgement = judge_run(run)
    assert judgement.manifest["speed"] is None
    json.dumps(judgement.manifest, allow_nan=False)


def test_what_is_no_run_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no such run folder"):
        judge_run(tmp_path / "nowhere")
    (tmp_path / "cells.jsonl.bak").write_text("")
    with pytest.raises(RunFolderError, match="is a file; name the run folder"):
        judge_run(tmp_path / "cells.jsonl.bak")
    with pytest.raises(RunFolderError, match="not a run folder"):
        judge_run(tmp_path)


def test_a_run_that_was_killed_is_partial(run: Path) -> None:
    write_manifest(run, suite(points=(1,)), finished_utc=None)
    judgement = judge_run(run)
    assert judgement.partial == ("the run did not finish: its manifest has no finished_utc",)
    assert judgement.ruling is Ruling.INCONCLUSIVE
    assert judgement.headline.startswith("Inconclusive (partial run): what was measured holds")


def test_a_manifest_alone_is_a_run_that_got_nowhere(tmp_path: Path) -> None:
    write_manifest(tmp_path, suite(points=(1,)), finished_utc=None)
    judgement = judge_run(tmp_path)
    assert judgement.cells == ()
    assert "cells.jsonl: not there: no cell ended" in judgement.partial
    assert {verdict.ruling for verdict in judgement.verdicts} == {Ruling.INCONCLUSIVE}


def test_cells_of_other_arms_and_paths_in_names_are_left_out(run: Path) -> None:
    rows = (run / "cells.jsonl").read_text().splitlines(keepends=True)
    stray = json.loads(rows[0]) | {"arm": "../../etc/passwd"}
    (run / "cells.jsonl").write_text("".join([*rows, json.dumps(stray) + "\n"]))
    judgement = judge_run(run)
    assert any("is not in the suite; left out" in sentence for sentence in judgement.partial)


def test_requests_of_another_cell_are_not_taken(run: Path) -> None:
    (run / "requests/fast.c1.r1.jsonl").write_bytes((run / "requests/off.c1.r1.jsonl").read_bytes())
    assert any("holds requests of another cell" in sentence for sentence in judge_run(run).partial)


@pytest.mark.parametrize(
    "change",
    [
        {"chunk_tokens": [1]},
        {"chunk_tokens": [-1] + [1] * 9},
        {"output_tokens": 2**62},
        {"done_s": 1.7e308, "due_s": 1.7e308},
    ],
)
def test_numbers_that_cannot_be_are_not_figures(run: Path, change: dict[str, object]) -> None:
    file = run / "requests/fast.c1.r1.jsonl"
    file.write_text(json.dumps(json.loads(file.read_text()) | change) + "\n")
    judgement = judge_run(run)
    assert any("holds times or counts that cannot be" in sentence for sentence in judgement.partial)
    assert judgement.ruling is not Ruling.KEPT


@pytest.mark.parametrize(
    "change",
    [
        {"chunk_times_s": [1e308] * 10},
        {"chunk_times_s": [float(10 - index) for index in range(10)]},
        {"sent_s": 1e9},
        {"first_byte_s": -1e30},
        {"first_token_s": 1e30},
    ],
)
def test_times_out_of_order_are_not_figures(run: Path, change: dict[str, object]) -> None:
    file = run / "requests/fast.c1.r1.jsonl"
    file.write_text(json.dumps(json.loads(file.read_text()) | change) + "\n")
    judgement = judge_run(run)
    assert any("holds times or counts that cannot be" in sentence for sentence in judgement.partial)
    assert judgement.ruling is not Ruling.KEPT


@pytest.mark.parametrize("change", [{"window_start_s": 1e30}, {"drafts": -1}, {"draft_tokens": 2**40}])
def test_a_cell_whose_numbers_cannot_be_is_left_out(run: Path, change: dict[str, object]) -> None:
    rows = [json.loads(row) for row in (run / "cells.jsonl").read_text().splitlines()]
    rows[3] |= change
    (run / "cells.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judgement = judge_run(run)
    assert any("holds times or counts that cannot be; left out" in sentence for sentence in judgement.partial)
    assert judgement.ruling is not Ruling.KEPT


def _fingerprinted(run: Path) -> Path:
    of = suite(points=(1,))
    for arm in of.arms:
        for repeat in range(of.repeats):
            steps = [step(number, number / 10, 2) for number in range(8)]
            write_lines(run / f"steps/{arm.name}.r{repeat}.jsonl", steps)
    sums = record_sums(run)
    write_manifest(run, of, records_sha256=digest(sums))
    write_fingerprints(run, sums, (run / "manifest.json").read_bytes())
    return run


@pytest.mark.parametrize("name", ["steps/fast.r0.jsonl", "requests/fast.c1.r1.jsonl", "cells.jsonl"])
def test_one_digit_that_flipped_is_seen(run: Path, name: str) -> None:
    file = _fingerprinted(run) / name
    assert altered(run, read_run(run).manifest) == {}
    whole = file.read_bytes()
    at = next(index for index, byte in enumerate(whole) if byte == ord("0"))
    file.write_bytes(whole[:at] + b"1" + whole[at + 1 :])
    judgement = judge_run(run)
    assert f"{name}: not as the run left it" in judgement.partial
    assert judgement.ruling is not Ruling.KEPT


def test_steps_cut_between_two_lines_are_seen(run: Path) -> None:
    file = _fingerprinted(run) / "steps/fast.r0.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:5]))
    assert judge_run(run).partial == ("steps/fast.r0.jsonl: not as the run left it",)


@pytest.mark.parametrize("text", [None, "", "00  /etc/passwd\n", "\xff"])
def test_fingerprints_that_are_not_the_runs_check_nothing(run: Path, text: str | None) -> None:
    file = _fingerprinted(run) / "SHA256SUMS"
    file.unlink()
    if text is not None:
        file.write_text(text)
    (said,) = judge_run(run).partial
    assert said.startswith("SHA256SUMS: ")
    assert said.endswith("the records cannot be checked")


def test_a_step_whose_numbers_cannot_be_is_said(run: Path) -> None:
    said = "steps/fast.r0.jsonl: holds times or counts that cannot be"
    for odd in (step(1, 0.1, 2, end_s=-1.0), step(1, 0.1, 2, emitted=2**63)):
        write_lines(run / "steps/fast.r0.jsonl", [step(0, 0.0, 2), odd])
        found = read_run(run)
        assert found.steps("fast", 0) == ([], said)
        assert said in read_cell_steps(found)[1]


@pytest.mark.parametrize("value", [{"a": 1}, [], None, 5])
@pytest.mark.parametrize("name", ["sha256", "sealed_utc"])
def test_a_seal_of_other_types_seals_nothing(run: Path, name: str, value: object) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["seal"]["seal"][name] = value
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert not judge_run(run).gated
