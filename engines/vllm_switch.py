"""Switching the governor of a running vLLM server: the control file that its plugin follows."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from engines.contract import EngineError
from engines.vllm_log import shown

ANSWER_S = 30.0
POLL_S = 0.02
FLUSH_S = 0.6  # the plugin's journal is written four times a second


class GovernorSwitch:
    """`control`: the file; `<control>.ack` beside it holds the answer. `dead`: nobody will answer."""

    def __init__(self, control: Path, dead: Callable[[], bool]) -> None:
        self._control = control
        self._answer = Path(f"{control}.ack")
        self._dead = dead
        self._id = 0

    async def to(
        self, governor: str, options: Mapping[str, object], profile: Path | None, steps: Path | None
    ) -> tuple[str, ...]:
        """Warnings of the plugin. Every step begun from now on obeys. EngineError: refused, or no answer."""
        self._id += 1
        asked: dict[str, object] = {
            "id": self._id,
            "governor": governor,
            "options": dict(options),
            "steps": None if steps is None else str(Path.cwd() / steps),
        }
        if profile is not None:
            asked["profile"] = str(profile)
        _write_whole(self._control, json.dumps(asked))
        answer = await self._answered()
        if answer.get("error"):
            raise EngineError(f"vLLM refuses governor {governor!r}: {shown(str(answer['error']))}")
        warnings = answer.get("warnings")
        return tuple(shown(str(one)) for one in warnings) if isinstance(warnings, list) else ()

    async def _answered(self) -> dict[str, object]:
        deadline_s = time.monotonic() + ANSWER_S
        while time.monotonic() < deadline_s:
            answer = _read(self._answer)
            if answer is not None and answer.get("id") == self._id:
                return answer
            if self._dead():
                raise EngineError("vLLM died while its governor was switched")
            await asyncio.sleep(POLL_S)
        raise EngineError(
            f"vLLM did not answer {self._control} within {ANSWER_S:g} s; is the plugin loaded? See its log"
        )


def _read(path: Path) -> dict[str, object] | None:
    try:
        answer = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None


def _write_whole(path: Path, text: str) -> None:
    """By renaming: whoever follows the file never sees half of it."""
    part = Path(f"{path}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
