"""One cell against one server: switch it, check that it obeyed, drive the load, keep what came back."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ci.h200.arms import ALL_LOADS, ARMS, Arm, Plan
from ci.h200.servers import SERVERS, Place, port
from engines.contract import Endpoint
from loadgen.cell import drive_cell
from loadgen.records import CellKey, CellRecord, RequestRecord
from loadgen.traffic import CellPrompts
from reports.throughput import token_spans
from suites.model import LoadSpec, TrafficClass

ACK_S = 10.0


class SwitchError(RuntimeError):
    """A server did not take the governor that it was given."""


class Bench:
    """Cells of one campaign. `texts`: prompts by traffic class."""

    def __init__(self, place: Place, texts: Mapping[str, Sequence[str]], say: Callable[[str], None]) -> None:
        self._place, self._texts, self._say = place, texts, say
        self._ids = itertools.count(time.time_ns() // 1_000_000)
        self._in_force: dict[str, Arm] = {}
        self._cells = place.work / "run" / "cells.jsonl"
        self._requests = place.work / "run" / "requests.jsonl"
        self._done = {
            (row["plan"], row["arm"], row["concurrency"], row["repeat"]) for row in _rows(self._cells)
        }

    async def cell(self, name: str, plan: Plan, arm: str, concurrency: int, repeat: int) -> int:
        """Drives the cell unless it is done already; gives the number of cells driven. Never raises."""
        if (name, arm, concurrency, repeat) in self._done:
            return 0
        try:
            await self.switch(ARMS[arm])
            await self._drive(name, plan, arm, concurrency, repeat)
        except Exception as error:
            self._say(f"cell {name} {arm} c{concurrency} r{repeat}: {type(error).__name__}: {error}")
            return 0
        return 1

    async def switch(self, arm: Arm) -> None:
        """Puts governor and switches in force. Raises SwitchError when the server does not say so."""
        if arm.governor is None or self._in_force.get(arm.server) == arm:
            return
        self._in_force.pop(arm.server, None)
        number = next(self._ids)
        switches = {"skip_drafter": False, "lookahead": None} | dict(arm.switches)
        _replace(self._place.of(arm.server, "ablations"), switches)
        _replace(self._place.of(arm.server, "control"), self._wish(arm, number))
        await self._acknowledged(arm, number)
        self._in_force[arm.server] = arm

    async def warm(self, server: str) -> None:
        """Every depth that the server has, at every load: short bursts whose figures are thrown away."""
        traffic = (TrafficClass("short", max_tokens=12),)
        arms = [Arm(server, "fixed", {"depth": k}) for k in SERVERS[server].depths] or [Arm(server)]
        for arm, concurrency in itertools.product(arms, ALL_LOADS):
            await self.switch(arm)
            load = LoadSpec((concurrency,), "burst", 1, timeout_s=60.0, route="completions")
            await self.drive(server, CellKey("warm", concurrency, 0), load, traffic)

    async def drive(
        self, server: str, key: CellKey, load: LoadSpec, traffic: Sequence[TrafficClass]
    ) -> tuple[CellRecord, list[RequestRecord]]:
        """One cell over HTTP; the same prompts for every arm."""
        records: list[RequestRecord] = []
        texts = [self._texts[item.name] for item in traffic]
        weights = {item.name: item.weight for item in traffic}
        prompts = CellPrompts(traffic, texts, f"{key.repeat}/{key.concurrency}", key.concurrency, weights)
        cell = await drive_cell(self.endpoint(server), key, load, prompts, on_record=records.append)
        return cell, records

    def endpoint(self, server: str) -> Endpoint:
        return Endpoint(f"http://127.0.0.1:{port(server)}", SERVERS[server].model, "vllm", is_model=False)

    async def _drive(self, name: str, plan: Plan, arm: str, concurrency: int, repeat: int) -> None:
        key = CellKey(arm, concurrency, repeat)
        cell, records = await self.drive(ARMS[arm].server, key, plan.load(concurrency), plan.traffic)
        spans = token_spans(records, cell, plan.mode)
        row: dict[str, object] = {"plan": name, "server": ARMS[arm].server, "mode": plan.mode}
        row["tokens_per_s"] = None if spans is None else spans.tokens_per_s
        row |= {"unix_s": time.time(), "load1": os.getloadavg()[0]}
        _append(self._cells, row | dataclasses.asdict(cell))
        if cell.invalid:
            self._say(f"cell {name} {arm} c{concurrency} r{repeat} is invalid: {cell.invalid[0]}")
        for record in records:
            _append(self._requests, {"plan": name} | _short(record))
        self._done.add((name, arm, concurrency, repeat))

    def _wish(self, arm: Arm, number: int) -> dict[str, object]:
        wish: dict[str, object] = {"id": number, "governor": arm.governor, "options": dict(arm.options)}
        wish["telemetry"] = arm.telemetry
        if arm.profile is not None:
            wish["profile"] = str(self._place.work / "profiles" / f"{arm.profile}.json")
        return wish

    async def _acknowledged(self, arm: Arm, number: int) -> None:
        path, end_s = self._place.of(arm.server, "control.ack"), time.monotonic() + ACK_S
        while time.monotonic() < end_s:
            answer = _read(path)
            if answer.get("id") == number:
                if answer.get("error"):
                    raise SwitchError(f"{arm.server} refuses {arm.governor}: {answer['error']}")
                return
            await asyncio.sleep(0.005)
        raise SwitchError(f"{arm.server} did not acknowledge {arm.governor} within {ACK_S:g} s")


def _short(record: RequestRecord) -> dict[str, object]:
    """A request without its chunk times, which are many: the gaps between them in three numbers."""
    row = dataclasses.asdict(record)
    times = row.pop("chunk_times_s")
    row.pop("chunk_tokens")
    return row | {"chunks": len(times), "last_chunk_s": times[-1] if times else None}


def _replace(path: Path, value: object) -> None:
    scratch = path.with_suffix(path.suffix + ".new")
    scratch.write_text(json.dumps(value), encoding="utf-8")
    scratch.rename(path)


def _read(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _append(path: Path, row: Mapping[str, object]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _rows(path: Path) -> list[dict[str, object]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
