"""vLLM servers that are up, by kind: an engine's own for one run, or kept from run to run."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from engines.vllm_command import ServerKind
from engines.vllm_server import VllmServer
from engines.vllm_switch import GovernorSwitch


@dataclass(frozen=True, slots=True)
class Running:
    """A server that is up, how its governor is switched, and the seed of the repeat it started in."""

    server: VllmServer
    switch: GovernorSwitch
    seed: int


class VllmServers:
    """Of one engine's options but for k_max: a kind says its own. `running`: the last used is last.

    Whoever makes one ends it with `close`; engines that borrow it leave its servers up.
    """

    def __init__(self) -> None:
        self.running: dict[ServerKind, Running] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._starts = count()

    @property
    def room(self) -> Path:
        """A folder for control files, and for logs that no run asked for."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="depthgate-vllm-")
        return Path(self._folder.name)

    def new_control(self) -> Path:
        """A control file of its own for each start: an answer to an earlier server is none to this one."""
        return self.room / f"{next(self._starts)}.control"

    async def make_room(self, most: int) -> None:
        """Ends those used longest ago until fewer than `most` are up."""
        while len(self.running) >= most:
            await self.running.pop(next(iter(self.running))).server.stop()

    async def close(self) -> None:
        """Ends all of them."""
        servers = [running.server for running in self.running.values()]
        self.running.clear()
        await asyncio.gather(*(server.stop() for server in servers))
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
