"""A disk that fills up while a run writes: one line that names the file, and a run that goes on later."""

from __future__ import annotations

import errno
import json
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import loadgen.compaction as compaction
from loadgen.parquet import write_parquet
from reports.judge import judge_run
from reports.judgement import Ruling
from tests.depthgate.cli import ROOT, depthgate
from tests.depthgate.test_resume import SUITE, UNSEALED
from tests.loadgen.test_compaction import many
from tests.loadgen.test_journal import write


def limited(bytes_: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`depthgate` under a limit on the size of a file, which fails a write as a full disk does."""
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (bytes_, bytes_))
    command = [sys.executable, "-m", "depthgate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=240, preexec_fn=limit)


def test_an_output_that_cannot_be_written_is_the_machine_s_fault() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "depthgate", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
    said = "depthgate: error: the output: cannot be written (No space left on device); free space, then judge"
    assert (done.returncode, done.stderr.startswith(said)) == (4, True), done.stderr


@pytest.mark.parametrize(
    ("bytes_", "file"),
    [(0, "manifest.json"), (6000, "steps/off.r0.jsonl"), (40000, "steps/off.r0.jsonl")],
)
def test_a_run_that_cannot_write_says_so_and_goes_on_later(tmp_path: Path, bytes_: int, file: str) -> None:
    suite = tmp_path / "small.toml"
    suite.write_text(SUITE)
    done = limited(bytes_, "run", suite, "--clock", "virtual", "--out", tmp_path / "out", "--json")
    (run_dir,) = (tmp_path / "out").iterdir()
    assert done.returncode == 4
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("depthgate: ")]
    assert "Traceback" not in done.stderr
    assert f"cannot write {run_dir / file}: File too large; free space or give another folder" in said
    judged = depthgate("judge", run_dir, "--json")
    assert "Traceback" not in judged.err
    (judgement,) = json.loads(judged.out)
    assert judgement["partial"]
    assert judgement["ruling"] != "kept"
    if bytes_:  # without a manifest there is nothing to go on with
        assert said.endswith(f"; then: depthgate run --resume {run_dir}")
        assert depthgate("run", "--resume", run_dir).code == UNSEALED
        assert judge_run(run_dir).partial == ()


def test_a_run_whose_manifest_was_never_written_is_judged_invalid(tmp_path: Path) -> None:
    """Killed between its folder and its manifest."""
    (tmp_path / "requests").mkdir()
    judgement = judge_run(tmp_path)
    assert judgement.ruling is Ruling.INVALID
    assert judgement.headline.startswith("Invalid: manifest.json: cannot be read")


def test_no_room_for_a_copy_leaves_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = write(tmp_path / "off.c2.r0.jsonl", *many(20))

    def full(path: Path, records: object) -> None:
        write_parquet(path, many(3))  # half of it, then no more
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(compaction, "write_parquet", full)
    said = compaction.compact_run(tmp_path, small_bytes=0)
    assert said == ("off.c2.r0.jsonl stays a journal: No space left on device",)
    assert list(tmp_path.iterdir()) == [journal]
