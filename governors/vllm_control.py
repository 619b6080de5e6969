"""The control file of a running server: another governor, another journal, acknowledged beside it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

POLL_S: Final = 0.05
KEYS: Final = ("id", "governor", "options", "profile", "steps", "telemetry")

Apply = Callable[[Mapping[str, object]], Mapping[str, object]]


class ControlError(ValueError):
    """A control file that cannot be followed; one line that names the mend."""


class ControlFile:
    """Follows `path` in a thread, so that an idle engine is switched too.

    `apply` checks a request and arranges that every step begun after it returns obeys it; what it returns, or
    the error it raises, is written to `<path>.ack` with the request's id. Write the file by renaming another
    onto it: a half-written one is answered with an error.
    """

    def __init__(self, path: Path, apply: Apply, poll_s: float = POLL_S) -> None:
        self._path = path
        self._apply = apply
        self._poll_s = poll_s
        self._seen: tuple[int, int, int] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="depthgate-control", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def poll(self) -> bool:
        """Whether the file had changed, and so was answered."""
        try:
            status = self._path.stat()
        except OSError:
            return False
        seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        if seen == self._seen:
            return False
        self._seen = seen
        self._answer()
        return True

    def _run(self) -> None:
        while not self._stop.wait(self._poll_s):
            self.poll()

    def _answer(self) -> None:
        asked: Mapping[str, object] = {}
        try:
            asked = read_control(self._path)
            answer = {"id": asked.get("id"), "error": None, **self._apply(asked)}
        except Exception as error:  # a third party's governor may raise anything when it is built
            answer = {"id": asked.get("id"), "error": _sentence(error)}
        self._write(answer)

    def _write(self, answer: Mapping[str, object]) -> None:
        target = Path(f"{self._path}.ack")
        part = Path(f"{target}.part")
        try:
            part.write_text(json.dumps(answer, default=str) + "\n", encoding="utf-8")
            part.replace(target)
        except OSError:
            return  # whoever asked waits for an answer and says so; the engine goes on


def read_control(path: Path) -> Mapping[str, object]:
    """The request in the file. ControlError: no JSON object, or an unknown key."""
    text = path.read_text(encoding="utf-8")
    try:
        asked = json.loads(text)
    except ValueError as error:
        raise ControlError(f"{path} is no JSON: {error}; write it beside and rename it") from error
    if not isinstance(asked, dict):
        raise ControlError(f"{path} holds a {type(asked).__name__}; give an object of {', '.join(KEYS)}")
    for key in asked:
        if key not in KEYS:
            raise ControlError(f"{path}: {key!r} is not known; known: {', '.join(KEYS)}")
    return asked


def _sentence(error: Exception) -> str:
    return str(error) or type(error).__name__
