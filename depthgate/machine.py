"""The machine a run was made on: its description, and 1 Hz samples while the run goes on. Unknown is None."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

SAMPLE_PERIOD_S = 1.0


def describe_machine() -> dict[str, object]:
    """What a reader needs to judge a wall-clock figure. No host name, no user, no environment."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_bytes": _meminfo("MemTotal"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "accelerators": _accelerators(),
    }


def _cpu_model() -> str | None:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or None


def _meminfo(key: str) -> int | None:
    for line in _lines("/proc/meminfo"):
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return None


def _accelerators() -> list[str] | None:
    """GPU names by nvidia-smi; None = no tool that could tell."""
    if not shutil.which("nvidia-smi"):
        return None
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _cpu_ticks() -> dict[str, int] | None:
    """Ticks since boot by state, all cores (proc(5), /proc/stat)."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    lines = _lines("/proc/stat")
    if not lines:
        return None
    return dict(zip(names, map(int, lines[0].split()[1:9]), strict=False))


def sample(before: dict[str, int] | None, after: dict[str, int] | None) -> dict[str, object]:
    """One machine sample; shares of all cores between two readings of the tick counters."""
    busy = steal = None
    if before and after:
        spent = {name: after[name] - before.get(name, 0) for name in after}
        total = sum(spent.values())
        if total > 0:
            busy = round(1 - (spent["idle"] + spent["iowait"]) / total, 4)
            steal = round(spent.get("steal", 0) / total, 4)
    load = _lines("/proc/loadavg")
    return {
        "time_s": round(time.monotonic(), 3),
        "cpu_busy": busy,
        "cpu_steal": steal,
        "load1": float(load[0].split()[0]) if load else None,
        "memory_available_bytes": _meminfo("MemAvailable"),
    }


class MachineSampler:
    """Appends a sample a second to a JSONL file from a thread; a full disk ends the samples, not the run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="machine-sampler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=2 * SAMPLE_PERIOD_S)

    def _loop(self) -> None:
        before = _cpu_ticks()
        try:
            with self._path.open("a") as file:
                while not self._stop.wait(SAMPLE_PERIOD_S):
                    after = _cpu_ticks()
                    file.write(json.dumps(sample(before, after)) + "\n")
                    file.flush()
                    before = after
        except OSError:
            return
