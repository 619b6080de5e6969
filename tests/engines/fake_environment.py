"""A vLLM environment without vLLM: an interpreter that is tests/engines/fake_vllm.py, and model folders."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suites.model import EngineSpec

FAKE = Path(__file__).with_name("fake_vllm.py")


@dataclass(frozen=True, slots=True)
class FakeEnvironment:
    """`spec(...)` is an engine of it; `notes(kind)` is what its servers wrote down."""

    folder: Path

    def spec(self, *, env: dict[str, str] | None = None, **options: object) -> EngineSpec:
        given: dict[str, Any] = {
            "python": str(self.python),
            "drafter": str(self.model("drafter")),
            "max_num_seqs": 16,
            "env": {"FAKE_VLLM_NOTES": str(self.folder / "notes"), **(env or {})},
        }
        return EngineSpec(kind="vllm", model=str(self.model("target")), options=given | options)

    @property
    def python(self) -> Path:
        path = self.folder / "python"
        if not path.exists():
            path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(FAKE))} "$@"\n')
            path.chmod(0o755)
        return path

    def model(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text("{}")
        return folder

    def notes(self, kind: str) -> list[Any]:
        path = self.folder / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        return [row[kind] for row in map(json.loads, lines) if kind in row]

    def alive(self) -> list[int]:
        """Processes of its servers that still run (a zombie does not)."""
        return [pid for pids in self.notes("pids") for pid in pids if _runs(pid)]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False
