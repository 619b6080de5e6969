"""The embedded engine's HTTP routes: OpenAI's API, vLLM's metrics, and on every answer that it is a model."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import orjson
from aiohttp import HttpVersion11, web

from engines.embedded.api import CLASS_HEADER, ApiLimits, ApiRequest, parse_request, parse_traffic_class
from engines.embedded.assembly import Assembled
from engines.embedded.clockwork import Clockwork
from engines.embedded.faults import ApiError
from engines.embedded.intake import Intake, take_in
from engines.embedded.journal import StepJournal
from engines.embedded.metrics import EngineMetrics, Gauges
from engines.embedded.outlet import EngineStopped, StreamOutlet, WholeOutlet
from engines.embedded.replies import EventWriter, ReplyIdentity, whole_reply
from engines.embedded.requests import StepResult
from engines.embedded.text import TokenText
from suites.grammar import being

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 8 * 1024 * 1024
EVENT_STREAM = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class EngineRoutes:
    """One engine, its clock and its routes. Build it inside the event loop that will run it."""

    def __init__(
        self, assembled: Assembled, journal: StepJournal, seed: int, crashed: Callable[[], None]
    ) -> None:
        profile = assembled.profile
        self._assembled = assembled
        self._journal = journal
        self._seed = seed
        self._started_unix_s = int(time.time())
        self.model = f"embedded/{profile.name}"
        self.fingerprint = f"depthgate embedded engine (model), profile {profile.name}"
        self._limits = ApiLimits(self.model, profile.scheduler.max_model_len, assembled.kv_tokens)
        self._metrics = EngineMetrics(profile.name, profile.binding.drafter_class, self.model)
        self._clockwork = Clockwork(assembled.core, self, crashed, asyncio.get_running_loop())

    @property
    def open_requests(self) -> int:
        """Requests that run or wait."""
        return self._clockwork.active

    def install(self, assembled: Assembled) -> None:
        """Another arm of the same profile from now on; only while no request is open."""
        self._assembled = assembled
        self._clockwork.replace_machine(assembled.core)

    def application(self) -> web.Application:
        """The routes. Errors of every kind leave in OpenAI's shape."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[errors_in_shape])
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._completions)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._scrape)
        return app

    def stop(self) -> None:
        """No step any more; open requests end with an error."""
        self._clockwork.stop("the server is shutting down")

    def stepped(self, result: StepResult, lag_s: float, own_s: float) -> None:
        """Books a delivered step (clockwork.StepListener)."""
        self._metrics.stepped(result, lag_s, own_s)
        self._journal.append(result.record, lag_s)

    async def _chat(self, http: web.Request) -> web.StreamResponse:
        return await self._generate(http, chat=True)

    async def _completions(self, http: web.Request) -> web.StreamResponse:
        return await self._generate(http, chat=False)

    async def _generate(self, http: web.Request, *, chat: bool) -> web.StreamResponse:
        asked = parse_request(await _json_body(http), chat=chat, limits=self._limits)
        traffic_class = parse_traffic_class(http.headers.get(CLASS_HEADER))
        self._refuse_when_full()
        intake = take_in(
            asked.prompt,
            asked.max_tokens,
            ignore_eos=asked.ignore_eos,
            min_tokens=asked.min_tokens,
            traffic_class=traffic_class,
            seed=self._seed if asked.seed is None else asked.seed,
            engine_seed=self._seed,
        )
        reply_id = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
        identity = ReplyIdentity(reply_id, int(time.time()), self.model, self.fingerprint)
        answer = self._stream if asked.stream else self._whole
        return await answer(http, asked, intake, identity)

    async def _whole(
        self, http: web.Request, asked: ApiRequest, intake: Intake, identity: ReplyIdentity
    ) -> web.StreamResponse:
        outlet = WholeOutlet(asyncio.get_running_loop())
        with self._running(intake, outlet):
            await outlet.done
        text = TokenText(intake.key)
        body = whole_reply(identity, asked, text, outlet.tokens, intake.finish_reason)
        return web.Response(body=body, content_type="application/json")

    async def _stream(
        self, http: web.Request, asked: ApiRequest, intake: Intake, identity: ReplyIdentity
    ) -> web.StreamResponse:
        """Headers leave with the first token; later events go past aiohttp (see StreamOutlet)."""
        events = EventWriter(identity, asked, TokenText(intake.key))
        outlet = StreamOutlet(asyncio.get_running_loop(), events, intake.finish_reason)
        response = web.StreamResponse(headers=EVENT_STREAM)
        with suppress(ConnectionResetError):  # a client that went away is no fault to log
            with self._running(intake, outlet):
                await outlet.started
                await response.prepare(http)
                await response.write(outlet.take())
                if http.transport is not None:
                    outlet.attach(http.transport, chunked=http.version >= HttpVersion11)
                await outlet.done
            if outlet.pending:
                await response.write(outlet.take())
            await response.write_eof()
        return response

    @contextmanager
    def _running(self, intake: Intake, outlet: WholeOutlet | StreamOutlet) -> Iterator[None]:
        """The request is in the engine; leaving early (the client went away) frees its blocks at once."""
        if self._clockwork.failure is not None:
            raise ApiError(self._clockwork.failure, status=503, kind="internal_error")
        try:
            handle = self._clockwork.submit(intake.request, outlet)
        except ValueError as error:
            raise ApiError(str(error), param="max_tokens", code="context_length_exceeded") from error
        try:
            yield
        finally:
            ended = outlet.finished
            self._metrics.ended(intake.finish_reason if ended else "abort")
            self._clockwork.cancel(handle)

    def _refuse_when_full(self) -> None:
        refusal = self._assembled.refusal
        if refusal is None or self._clockwork.active < refusal.above:
            return
        self._metrics.refused += 1
        raise ApiError(
            f"{being(self._clockwork.active, 'request')} running or waiting, "
            f"refuse_above is {refusal.above}: send it later, or raise it",
            status=refusal.status,
            kind="rate_limit_error" if refusal.status == 429 else "service_unavailable_error",
            code="rate_limit_exceeded" if refusal.status == 429 else "overloaded",
        )

    async def _models(self, _: web.Request) -> web.Response:
        card = {
            "id": self.model,
            "object": "model",
            "created": self._started_unix_s,
            "owned_by": "depthgate embedded engine (model)",
            "root": self.model,
            "parent": None,
            "max_model_len": self._limits.max_model_len,
        }
        return web.Response(
            body=orjson.dumps({"object": "list", "data": [card]}), content_type="application/json"
        )

    async def _health(self, _: web.Request) -> web.Response:
        failure = self._clockwork.failure
        return web.Response() if failure is None else web.Response(status=503, text=failure)

    async def _scrape(self, _: web.Request) -> web.Response:
        core = self._assembled.core
        gauges = Gauges(
            running=core.running,
            waiting=core.waiting,
            kv_usage=1.0 - core.kv_blocks_free / core.kv_blocks_total,
            max_num_seqs=core.limits.max_num_seqs,
            governor_errors=self._assembled.guard.errors,
            journal_errors=self._journal.errors,
        )
        return web.Response(
            text=self._metrics.text(core.totals, gauges), content_type="text/plain", charset="utf-8"
        )


async def _json_body(http: web.Request) -> object:
    raw = await http.read()
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ApiError(f"the body is not JSON ({error}); send a JSON object in UTF-8") from error


@web.middleware
async def errors_in_shape(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Whatever a handler raises becomes `{"error": {...}}`; tracebacks go to the log, not to clients."""
    try:
        return await handler(request)
    except ApiError as error:
        fault = error
    except EngineStopped as error:
        fault = ApiError(str(error), status=503, kind="internal_error")
    except web.HTTPException as error:
        fault = _http_fault(request, error)
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        fault = ApiError("fault inside the embedded engine; see its log", status=500, kind="internal_error")
    return web.Response(status=fault.status, body=orjson.dumps(fault.body()), content_type="application/json")


def _http_fault(http: web.Request, error: web.HTTPException) -> ApiError:
    if error.status == 413:
        return ApiError(f"the body exceeds {MAX_BODY_BYTES} bytes; send a shorter prompt", status=413)
    if error.status == 404:
        return ApiError(
            f"no route {http.method} {http.path!a}; there is /v1/chat/completions, /v1/completions, "
            "/v1/models, /health, /metrics",
            status=404,
            code="not_found",
        )
    return ApiError(f"{http.method} {http.path!a}: {error.reason}", status=error.status)
