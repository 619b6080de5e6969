"""Starting servers side by side, waiting until they are healthy, and ending exactly their process groups."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path

from ci.h200.servers import SERVERS, Place, command, environment, port

KILL_S = 8.0


def start(names: Iterable[str], place: Place) -> None:
    """Each in a session of its own, so that it outlives this process while the machine is held."""
    for name in names:
        server = SERVERS[name]
        infos, cache = place.work / "mi", place.of(name, "cache")
        if infos.is_dir() and not cache.exists():
            shutil.copytree(infos, cache)  # model inspection, kept: saves half a minute of start
        for suffix in ("control", "control.ack", "ablations"):
            place.of(name, suffix).unlink(missing_ok=True)
        words = command(server, place)
        place.of(name, "command").write_text(" ".join(map(_quoted, words)) + "\n", encoding="utf-8")
        with place.of(name, "log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(server, place, os.environ),
                cwd=place.work,
                start_new_session=True,
            )
        place.of(name, "pid").write_text(str(process.pid), encoding="utf-8")
        time.sleep(0.5)


def wait(names: Iterable[str], place: Place, limit_s: float, say: Callable[[str], None]) -> tuple[str, ...]:
    """The names that answer /health within `limit_s`; the tail of the log of each that does not."""
    left, healthy, begun_s = set(names), [], time.monotonic()
    while left and time.monotonic() - begun_s < limit_s:
        for name in sorted(left):
            if _healthy(name):
                healthy.append(name)
                say(f"up {name} after {time.monotonic() - begun_s:.0f} s")
            elif not alive(name, place):
                say(f"dead {name}\n{tail(name, place)}")
            else:
                continue
            left.discard(name)
        time.sleep(0.5)
    for name in sorted(left):
        say(f"not up {name}\n{tail(name, place)}")
        stop([name], place)
    return tuple(healthy)


def healthy(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if _healthy(name))


def stop(names: Iterable[str], place: Place) -> None:
    """SIGTERM to the process group, SIGKILL after KILL_S."""
    names = [name for name in names if alive(name, place)]
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for name in names:
            if alive(name, place):
                os.killpg(_pid(name, place), sign)
        end_s = time.monotonic() + KILL_S
        while time.monotonic() < end_s and any(alive(name, place) for name in names):
            time.sleep(0.2)


def alive(name: str, place: Place) -> bool:
    pid = _pid(name, place)
    with contextlib.suppress(OSError):  # not our child: an earlier call started it
        os.waitpid(pid, os.WNOHANG)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
        return stat.rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def tail(name: str, place: Place, lines: int = 25) -> str:
    """The first traceback of a log if it has one, else its end; long lines cut."""
    try:
        text = place.of(name, "log").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "no log"
    found = [at for at, line in enumerate(text) if "Error" in line and "Traceback" not in line]
    shown = text[max(0, found[0] - lines) : found[0] + 3] if found else text[-lines:]
    return "\n".join(line[:200] for line in shown)


def _healthy(name: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port(name)}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _pid(name: str, place: Place) -> int:
    try:
        return int(place.of(name, "pid").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return -1


def _quoted(word: str) -> str:
    return f"'{word}'" if set(word) & set(' {}"[]') else word
