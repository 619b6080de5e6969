"""The load generator alone, as `vllm bench serve` is used: N requests over C streams against one server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, cycle, islice
from pathlib import Path

import orjson

from engines.contract import Endpoint, EngineError
from loadgen.cell import drive_cell
from loadgen.client import Client, ClientSettings
from loadgen.hub import BUILDERS, file_prompts
from loadgen.offline_prompts import GENERATORS
from loadgen.reads import Clock
from loadgen.records import CellKey, CellRecord, RequestRecord
from loadgen.share import ALL, Share
from loadgen.traffic import Prompt, TrafficError, TrafficMix
from loadgen.transcript import excerpt
from suites.model import LoadSpec, TrafficClass

ARM = "load"
AHEAD = 4096  # prompts made before the load starts: 0.1 s then, and none of it between two requests


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """`requests` in total; streams beyond that number are not started.

    `prompts`: JSONL, CSV, parquet, or a text file with a prompt a line; None = made offline. `model` None:
    the only one that the server lists. `usage`, `continuous_usage`: False for a server that rejects them.
    `rate_per_s` or `trace`: an open loop (see suites.model.LoadSpec for these and for think and stagger).
    `body`: fields added to each request's.
    """

    url: str
    concurrency: int
    requests: int
    max_tokens: int
    model: str | None = None
    route: str = "chat"
    ignore_eos: bool = False
    prompts: Path | None = None
    column: str | None = None
    seed: int = 0
    timeout_s: float = 300.0
    usage: bool = True
    continuous_usage: bool = True
    rate_per_s: float | None = None
    arrivals: str = "poisson"
    cv: float | None = None
    trace: str | None = None
    max_in_flight: int | None = None
    think_s: float | None = None
    think: str | None = None
    stagger_s: float | None = None
    workers: int | None = None
    body: Mapping[str, object] | None = None

    @property
    def scheduled(self) -> bool:
        """Requests are due at times of their own, and not when another one has ended."""
        return self.rate_per_s is not None or self.trace is not None or self.think_s is not None

    @property
    def load(self) -> LoadSpec:
        """An open loop's rate, or a trace's pace, is given as it is: C = 1. Streams of a closed loop."""
        if self.rate_per_s is None and self.trace is None:
            return LoadSpec(
                (min(self.concurrency, self.requests),),
                timeout_s=self.timeout_s,
                route=self.route,
                think_s=self.think_s,
                think=self.think,
                stagger_s=self.stagger_s,
                workers=self.workers,
            )
        return LoadSpec(
            (1,),
            "open",
            requests_per_stream=self.requests,
            timeout_s=self.timeout_s,
            route=self.route,
            arrivals="trace" if self.trace else self.arrivals,
            rate_per_s=self.rate_per_s,
            cv=self.cv,
            trace=self.trace,
            max_in_flight=self.max_in_flight,
            workers=self.workers,
        )


def _ignore(record: RequestRecord) -> None:
    return None


async def run_load(
    settings: LoadSettings,
    on_record: Callable[[RequestRecord], None] = _ignore,
    clock: Clock = time.perf_counter,
    on_text: Callable[[str, str], None] | None = None,
) -> CellRecord:
    """The cell's record: steady state, faults, engine counters. Requests' records go to `on_record`.

    `on_text(request, text)`: every whole answer, before its record.
    Raises TrafficError for the prompts, EngineError when the server cannot be asked for its model.
    """
    client = ClientSettings(
        route=settings.route,
        timeout_s=settings.timeout_s,
        usage=settings.usage,
        continuous_usage=settings.continuous_usage,
        extra_body=dict(settings.body or {}),
        keep_text=on_text is not None,
    )
    load, prompts = settings.load, SharedPrompts(settings)
    base_url = settings.url.rstrip("/").removesuffix("/v1")
    model = settings.model or await only_model(base_url, clock)
    return await drive_cell(
        Endpoint(base_url=base_url, model=model, engine="unknown", is_model=False),
        CellKey(ARM, load.concurrency[0], 0),
        load,
        prompts,
        on_record=on_record,
        clock=clock,
        settings=client,
        on_text=on_text,
    )


class SharedPrompts:
    """One queue for all streams: N prompts in all, in the same order whichever stream is free."""

    def __init__(self, settings: LoadSettings, share: Share = ALL) -> None:
        self._settings, self._share = settings, share
        made = _from_file(settings) if settings.prompts else _made_offline(settings)
        left = islice(made, share.index, settings.requests, share.of)
        self._queue = chain(list(islice(left, AHEAD)), left)
        self.name = str(settings.seed)
        self.mean_tokens = float(settings.max_tokens)

    def stream(self, index: int) -> Iterator[Prompt]:
        return self._queue

    def share(self, share: Share) -> SharedPrompts:
        """Every `share.of`-th prompt, for a worker."""
        return SharedPrompts(self._settings, share)

    def __reduce__(self) -> tuple[type[SharedPrompts], tuple[LoadSettings, Share]]:
        return SharedPrompts, (self._settings, self._share)

    def part(self, name: str, weights: Mapping[str, float] | None, streams: int) -> SharedPrompts:
        return self


def _made_offline(settings: LoadSettings) -> Iterator[Prompt]:
    classes = [
        TrafficClass(name, max_tokens=settings.max_tokens, ignore_eos=settings.ignore_eos)
        for name in GENERATORS
    ]
    return TrafficMix(classes, settings.seed).cell(CellKey(ARM, 1, 0)).stream(0)


def _from_file(settings: LoadSettings) -> Iterator[Prompt]:
    assert settings.prompts is not None
    texts = read_prompts(settings.prompts, settings.column)
    for number, text in enumerate(cycle(texts)):
        yield Prompt(text, "default", settings.max_tokens, settings.ignore_eos, settings.seed + number)


def read_prompts(path: Path, column: str | None = None) -> list[str]:
    """A prompt a row of JSONL, JSON, CSV or parquet, or a line of any other file.

    Raises TrafficError: no such file, no such column, no text in it.
    """
    if path.suffix.lower() in BUILDERS:
        return file_prompts(path, column)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TrafficError(f"prompts {path}: cannot be read ({error}); check the path") from None
    prompts = [text for text in map(str.strip, lines) if text]
    if not prompts:
        raise TrafficError(f"prompts {path}: holds no text; give a prompt a line")
    return prompts


async def only_model(base_url: str, clock: Clock = time.perf_counter) -> str:
    """The one model that the server lists. Raises EngineError: not reached, none, or several."""
    async with Client(Endpoint(base_url, "", "unknown", is_model=False), ClientSettings(), clock) as client:
        text = await client.get("/v1/models")
    if text is None:
        raise EngineError(
            f"{base_url}/v1/models: no list of models; is the server up, the URL right? If so, give --model"
        )
    try:
        names = [str(item["id"]) for item in orjson.loads(text)["data"]]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise EngineError(f"{base_url}/v1/models: no list of models; give --model") from None
    if len(names) != 1:
        listed = ", ".join(map(excerpt, names)) or "none"
        raise EngineError(f"{base_url} lists {len(names)} models ({listed}); give --model")
    return names[0]
