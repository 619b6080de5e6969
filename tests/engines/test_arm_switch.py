"""Switching the arm of a running server: between requests, from this machine, else refused in words."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import aiohttp
import pytest
from aiohttp import web

from engines.contract import EngineError
from engines.embedded.arm_switch import PATH, ArmSwitch, _from_this_machine
from engines.embedded.faults import ApiError
from engines.embedded.routes import errors_in_shape


class Bench:
    """A switch with its surroundings written down."""

    def __init__(self) -> None:
        self.installed: list[Any] = []
        self.open_requests = 0

    def assemble(self, governor: str, options: Mapping[str, object]) -> Any:
        if governor == "absent":
            raise EngineError("unknown governor 'absent'; did you mean 'off'?")
        return (governor, dict(options))

    def ask(self, method: str, body: object = None) -> tuple[int, Any]:
        return asyncio.run(self._ask(method, body))

    async def _ask(self, method: str, body: object) -> tuple[int, Any]:
        switch = ArmSwitch("off", {}, 4, self.assemble, self.installed.append, lambda: self.open_requests)
        app = web.Application(middlewares=[errors_in_shape])
        switch.add_to(app)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}{PATH}"
        try:
            async with aiohttp.ClientSession() as session, session.request(method, url, json=body) as answer:
                return answer.status, await answer.json()
        finally:
            await runner.cleanup()


def test_switches() -> None:
    bench = Bench()
    assert bench.ask("GET") == (200, {"governor": "off", "options": {}, "k_max": 4})
    status, now = bench.ask("POST", {"governor": "fixed", "options": {"depth": 2}})
    assert (status, now) == (200, {"governor": "fixed", "options": {"depth": 2}, "k_max": 4})
    assert bench.installed == [("fixed", {"depth": 2})]


def test_not_while_requests_are_open() -> None:
    bench = Bench()
    bench.open_requests = 3
    status, said = bench.ask("POST", {"governor": "fixed"})
    assert status == 409
    assert said["error"]["message"].startswith("3 requests")
    assert not bench.installed


@pytest.mark.parametrize("body", [None, [], {}, {"governor": 7}, {"governor": "off", "options": [1]}])
def test_bad_bodies(body: object) -> None:
    status, said = Bench().ask("POST", body)
    assert status == 400
    assert said["error"]["message"]


def test_an_unknown_governor_leaves_the_arm_as_it_was() -> None:
    bench = Bench()
    status, said = bench.ask("POST", {"governor": "absent"})
    assert status == 400
    assert "did you mean" in said["error"]["message"]
    assert not bench.installed


@pytest.mark.parametrize("remote", ["10.0.0.1", "192.168.1.2", "2001:db8::1", "", "unix"])
def test_only_this_machine(remote: str) -> None:
    with pytest.raises(ApiError, match="own machine"):
        _from_this_machine(Mock(remote=remote))
    _from_this_machine(Mock(remote="127.0.0.1"))
    _from_this_machine(Mock(remote="::1"))
