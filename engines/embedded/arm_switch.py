"""Switching the governor of a running server, between requests: one server then serves every arm of a run.

`GET /depthgate/arm` says what is in force, and the engine's k_max, which stays;
`POST` of {"governor": ..., "options": {...}} changes it.
Only this machine may: a request from elsewhere gets 403, whatever address the server is bound to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any

import orjson
from aiohttp import web

from engines.contract import EngineError
from engines.embedded.assembly import Assembled
from engines.embedded.faults import ApiError, shown
from suites.grammar import being

PATH = "/depthgate/arm"


class ArmSwitch:
    """The governor in force, and how another takes its place.

    `assemble` makes an engine of (governor, options), `install` puts it to work, `busy`: open requests.
    `k_max`: most drafts of a step, whatever the arm.
    """

    def __init__(
        self,
        governor: str,
        options: Mapping[str, object],
        k_max: int,
        assemble: Callable[[str, Mapping[str, object]], Assembled],
        install: Callable[[Assembled], None],
        busy: Callable[[], int],
    ) -> None:
        self._governor = governor
        self._options = dict(options)
        self._k_max = k_max
        self._assemble = assemble
        self._install = install
        self._busy = busy

    def add_to(self, app: web.Application) -> None:
        """Both routes."""
        app.router.add_get(PATH, self._get)
        app.router.add_post(PATH, self._post)

    async def _get(self, http: web.Request) -> web.Response:
        _from_this_machine(http)
        return self._in_force()

    async def _post(self, http: web.Request) -> web.Response:
        _from_this_machine(http)
        governor, options = _asked(await http.read())
        if busy := self._busy():
            raise ApiError(f"{being(busy, 'request')} running or waiting; switch when none is", status=409)
        try:
            assembled = self._assemble(governor, options)
        except EngineError as error:
            raise ApiError(str(error), param="governor") from error
        self._install(assembled)
        self._governor, self._options = governor, options
        return self._in_force()

    def _in_force(self) -> web.Response:
        arm = {"governor": self._governor, "options": self._options, "k_max": self._k_max}
        return web.Response(body=orjson.dumps(arm), content_type="application/json")


def _from_this_machine(http: web.Request) -> None:
    remote = (http.remote or "").partition("%")[0]
    try:
        loopback = ip_address(remote).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise ApiError("the arm is switched from the server's own machine alone", status=403)


def _asked(raw: bytes) -> tuple[str, dict[str, object]]:
    try:
        body: Any = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ApiError(f'the body is not JSON ({error}); send {{"governor": "fixed"}}') from error
    governor = body.get("governor") if isinstance(body, dict) else None
    if not isinstance(governor, str):
        raise ApiError(f'governor = {shown(governor)}: send {{"governor": "fixed"}}', param="governor")
    options = body.get("options") or {}
    if not isinstance(options, dict):
        raise ApiError(f"options = {shown(options)}: must be a JSON object", param="options")
    return governor, options
