"""`depthgate run --load locust`, killed in mid-run and resumed: nothing is left running, nothing is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from depthgate.manifest import write_manifest
from reports.run_folder import read_run
from tests.depthgate.cli import ROOT, depthgate, refusal

SUITE = """
name = "two-points"
question = "?"
seed = 2
repeats = 1
[engine]
kind = "embedded"
profile = "h100-llama3.1-8b-eagle"
[load]
mode = "burst"
concurrency = [2, 4]
requests_per_stream = 2
[[traffic]]
name = "gsm8k"
max_tokens = 24
[[arms]]
name = "off"
governor = "off"
baseline = true
"""


def holders(folder: Path) -> list[str]:
    """Processes whose output goes into the folder: guards, master, workers, engines."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (entry / "fd" / "1").readlink().is_relative_to(folder):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def waited(what: Callable[[], object]) -> None:
    """Until it is so; fails after a minute."""
    until_s = time.monotonic() + 60
    while not what():
        assert time.monotonic() < until_s
        time.sleep(0.01)


@pytest.mark.http
@pytest.mark.slow
def test_killed_and_resumed(tmp_path: Path) -> None:
    suite = tmp_path / "two-points.toml"
    suite.write_text(SUITE)
    flags = ["run", str(suite), "--out", str(tmp_path / "out"), "--load", "locust", "--workers", "2"]
    process = subprocess.Popen([sys.executable, "-m", "depthgate", *flags], cwd=ROOT, stderr=subprocess.PIPE)
    waited(lambda: list((tmp_path / "out").glob("*/requests/off.c4.r0.jsonl")))
    (folder,) = (tmp_path / "out").iterdir()
    assert len(holders(folder)) >= 3
    process.send_signal(signal.SIGKILL)
    process.communicate()
    waited(lambda: not holders(folder))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["load"]["kind"] == "locust"
    assert manifest["load"]["workers"] == 2
    write_manifest(folder, manifest | {"load": {**manifest["load"], "workers": 1}})
    done = depthgate("run", "--resume", folder, "--json")
    assert done.code in (0, 3, 4), done.err
    run = read_run(folder)
    assert [(key.concurrency, len(cell.requests)) for key, cell in run.cells.items()] == [(2, 4), (4, 8)]
    notes = [note for cell in run.cells.values() for note in cell.record.notes if "locust worker" in note]
    assert [note.split()[0] for note in notes] == ["2", "1"]
    assert holders(folder) == []


def test_an_open_load_is_refused_with_the_load_to_use(tmp_path: Path) -> None:
    suite = tmp_path / "open.toml"
    suite.write_text(SUITE.replace('mode = "burst"', 'mode = "open"\nrate_per_s = 2.0'))
    said = refusal("run", suite, "--load", "locust", "--out", tmp_path / "out")
    assert "has an open loop; use --load asyncio (the default)" in said
    assert not (tmp_path / "out").exists()
