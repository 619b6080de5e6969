"""Any OpenAI-compatible server that is already running: probed, never started or stopped."""

from __future__ import annotations

import difflib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from engines import api_key
from engines.certificates import check_certificates
from engines.contract import Endpoint, EngineError, EngineLost, EngineRequest

if TYPE_CHECKING:
    import aiohttp

ARM_PATH = "/depthgate/arm"
PROBE_S = 10.0
_MAX_PROBE_BYTES = 4 * 1024 * 1024
_MODEL_INFO = re.compile(rb"^depthgate:model_info\{(.*)\} 1", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_EMBEDDED_OWNER = "depthgate embedded engine (model)"


class OpenAIEngine:
    """An engines.contract.Engine.

    `url`: with or without /v1. `model` None: the only one that it serves. `switch`: the server has to take
    every arm's governor in turn (it then needs /depthgate/arm); False: it is taken as it is; None: it serves
    one arm, and takes that arm's governor if it can. The API key comes from the environment variable
    OPENAI_API_KEY alone, and appears in no message and no record.
    """

    def __init__(self, url: str, model: str | None = None, *, switch: bool | None = False) -> None:
        self._url = base_url(url)
        self._model = model
        self._switch = switch

    @asynccontextmanager
    async def serve(self, request: EngineRequest) -> AsyncIterator[Endpoint]:
        """The endpoint as probed.

        Raises EngineError: not there, not healthy, no such API, model or arm; EngineLost: others use it too,
        so that it does not switch.
        """
        endpoint = await self.probe()
        if await self._switches():
            await self._to_arm(request)
        yield endpoint

    async def check(self, request: EngineRequest) -> None:
        """Before a run: probes, and has a server that has to switch take the arm, so that it refuses now."""
        await self.probe()
        if self._switch and not await self.can_switch():
            raise EngineError(
                f"{self._url}: cannot switch governors, so it serves one arm; "
                "give a server for each: --arm NAME=URL"
            )
        if await self._switches():
            await self._to_arm(request)
        elif (found := await self._in_force()) not in (None, arm := _arm_of(request)):
            raise EngineError(
                f"{self._url}: runs {found}, and arm {request.arm!r} is {arm}; start it so, or mend --arm"
            )

    async def _switches(self) -> bool:
        return await self.can_switch() if self._switch is None else self._switch

    async def can_switch(self) -> bool:
        """Whether the server says which governor is in force: then it takes another."""
        return await self._in_force() is not None

    async def k_max(self) -> int | None:
        """The most that it drafts in a step, as an embedded engine says it; None: the server does not say."""
        k_max = (await self._said_of_arm()).get("k_max")
        return k_max if isinstance(k_max, int) else None

    async def _in_force(self) -> dict[str, object] | None:
        """Governor and options, as an embedded engine says them; None: the server does not say."""
        said = await self._said_of_arm()
        if "governor" not in said:
            return None
        return {"governor": said["governor"], "options": said.get("options") or {}}

    async def _said_of_arm(self) -> dict[str, object]:
        """Its answer to GET /depthgate/arm; empty when that is no object, or there is no such route."""
        import aiohttp
        import orjson

        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PROBE_S)) as session:
            status, raw = await self._get(session, ARM_PATH)
        try:
            said = orjson.loads(raw) if status == 200 else None
        except orjson.JSONDecodeError:
            return {}
        return said if isinstance(said, dict) else {}

    async def _to_arm(self, request: EngineRequest) -> None:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=PROBE_S)
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=api_key.auth_headers()) as session,
            session.post(self._url + ARM_PATH, json=_arm_of(request), allow_redirects=False) as answer,
        ):
            if answer.status == 200:
                return
            said = _shown((await answer.content.read(2000)).decode("utf-8", "replace"), 300)
        if answer.status == 409:
            raise EngineLost(
                f"{self._url}: others use this server ({said}), and it switches to arm {request.arm!r} only "
                "when idle; wait until they have ended, or let nobody else use it"
            )
        raise EngineError(
            f"{self._url}: does not switch to arm {request.arm!r} ({answer.status}: {said}); "
            f"give a server for each arm: --arm {request.arm}=URL"
        )

    async def probe(self) -> Endpoint:
        """GET /health, /v1/models and /metrics; none of them changes anything on the server."""
        import aiohttp

        check_certificates(self._url)
        timeout = aiohttp.ClientTimeout(total=PROBE_S)
        try:
            async with aiohttp.ClientSession(timeout=timeout, headers=api_key.auth_headers()) as session:
                return await self._probe(session)
        except aiohttp.ClientConnectorError as error:
            raise EngineError(
                f"{self._url}: no connection ({error.os_error.strerror or 'unreachable'}); "
                "start the server there, or mend host and port"
            ) from error
        except TimeoutError as error:
            raise EngineError(f"{self._url}: no answer in {PROBE_S:g} s; is it still loading?") from error
        except aiohttp.ClientError as error:
            raise EngineError(f"{self._url}: {type(error).__name__}; is that an HTTP server?") from error

    async def _probe(self, session: aiohttp.ClientSession) -> Endpoint:
        health, _ = await self._get(session, "/health")
        if health >= 500:
            raise EngineError(f"{self._url}: /health says {health}; wait until it is up, or see its log")
        cards = await self._models(session)
        model = self._pick(list(cards))
        owner = cards.get(model, "")
        status, metrics = await self._get(session, "/metrics")
        info = _model_info(metrics) if status == 200 else {}
        return Endpoint(
            base_url=self._url,
            model=model,
            engine=info.get("engine") or _shown(owner) or "openai-compatible server",
            is_model=bool(info) or owner == _EMBEDDED_OWNER,
            profile=info.get("profile"),
            drafter_class=info.get("drafter_class"),
        )

    async def _models(self, session: aiohttp.ClientSession) -> dict[str, str]:
        """Model id -> owner; empty when there is no such route and the caller knows the model."""
        status, raw = await self._get(session, "/v1/models")
        if status in (401, 403):
            raise EngineError(f"{self._url}: /v1/models says {status}; set a valid key in {api_key.VARIABLE}")
        if status == 404 and self._model is not None:
            return {}
        if status != 200:
            raise EngineError(f"{self._url}: /v1/models says {status}; is that an OpenAI-compatible server?")
        return _cards(raw, self._url)

    def _pick(self, ids: list[str]) -> str:
        if self._model is not None:
            if ids and self._model not in ids:
                near = difflib.get_close_matches(self._model, ids, n=1)
                hint = f"did you mean {_shown(near[0])!r}?" if near else f"it serves {_listed(ids)}"
                raise EngineError(f"{self._url}: no model {self._model!r}; {hint}")
            return self._model
        if len(ids) == 1:
            return ids[0]
        what = f"serves {_listed(ids)}; name one of them" if ids else "serves no model; load one, or name it"
        raise EngineError(f"{self._url}: {what} (model = ...)")

    async def _get(self, session: aiohttp.ClientSession, path: str) -> tuple[int, bytes]:
        """Status and the start of the body. Redirects are not followed: the key is for this host alone."""
        async with session.get(self._url + path, allow_redirects=False) as response:
            body = bytearray()
            async for piece in response.content.iter_chunked(65_536):
                body += piece
                if len(body) > _MAX_PROBE_BYTES:
                    break
            return response.status, bytes(body)


def _arm_of(request: EngineRequest) -> dict[str, object]:
    return {"governor": request.governor, "options": dict(request.options)}


def base_url(url: str) -> str:
    """`url` without a trailing slash or /v1. Raises EngineError when it is no http(s) URL with a host."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise EngineError(f"url {url!r}: {error}; write http://HOST:PORT") from error
    if parts.scheme not in ("http", "https") or not host:
        raise EngineError(f"url {url!r}: not an http(s) URL; write http://HOST:PORT")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise EngineError(
            f"url of {host!r}: no credentials, query or fragment in it; a key goes into {api_key.VARIABLE}"
        )
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _cards(raw: bytes, url: str) -> dict[str, str]:
    import orjson

    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise EngineError(f"{url}: /v1/models is not JSON; is that an OpenAI-compatible server?") from error
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(data, list):
        raise EngineError(f"{url}: /v1/models has no list `data`; is that an OpenAI-compatible server?")
    cards = [card for card in data if isinstance(card, dict) and isinstance(card.get("id"), str)]
    return {card["id"]: str(card.get("owned_by") or "") for card in cards}


def _model_info(metrics: bytes) -> dict[str, str]:
    """Labels of an embedded engine's depthgate:model_info; empty for every other server."""
    found = _MODEL_INFO.search(metrics)
    if found is None:
        return {}
    return {name: _shown(value) for name, value in _LABEL.findall(found[1].decode("utf-8", "replace"))}


def _shown(text: str, limit: int = 80) -> str:
    """A server's word for messages and records: printable ASCII, cut."""
    plain = "".join(c if c.isascii() and c.isprintable() else "?" for c in api_key.without_key(text))
    return plain if len(plain) <= limit else f"{plain[: limit - 3]}..."


def _listed(ids: list[str], limit: int = 6) -> str:
    shown = ", ".join(_shown(one) for one in ids[:limit])
    return shown if len(ids) <= limit else f"{shown} and {len(ids) - limit} more"
