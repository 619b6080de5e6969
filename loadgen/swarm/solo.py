"""Plain `locust -f loadgen/locustfile.py`: a user is a stream of requests for as long as locust runs it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import gevent

from loadgen.closed import PAUSE_S
from loadgen.dialogue import Dialogues, spoken
from loadgen.exchange import Ask
from loadgen.records import CellKey
from loadgen.request import ClientSettings, request_headers
from loadgen.steady import Turn
from loadgen.stream import request_name
from loadgen.swarm.http import StreamClient
from loadgen.swarm.ledger import Ledger
from loadgen.traffic import Prompt, TrafficMix
from suites.locate import find_suite
from suites.model import Suite, TrafficClass
from suites.parse import load_suite

ARM = "locust"
STREAMS = 4096  # a stream's requests do not depend on how many users there are, up to so many
CLOCK = time.monotonic


@dataclass(frozen=True, slots=True)
class SoloSettings:
    """What the command line says. `suite`: its traffic, seed, route and time limit replace the rest."""

    suite: str | None
    traffic: tuple[str, ...]
    max_tokens: int
    seed: int
    model: str | None
    route: str
    timeout_s: float

    def mix(self) -> TrafficMix:
        """Raises SuiteError, TrafficError."""
        if (suite := self.read_suite()) is not None:
            return TrafficMix(suite.traffic, suite.seed)
        classes = [TrafficClass(name, max_tokens=self.max_tokens, ignore_eos=False) for name in self.traffic]
        return TrafficMix(classes, self.seed)

    def client(self) -> ClientSettings:
        if (suite := self.read_suite()) is not None:
            return ClientSettings.of(suite.load)
        return ClientSettings(route=self.route, timeout_s=self.timeout_s)

    def read_suite(self) -> Suite | None:
        return None if self.suite is None else load_suite(find_suite(self.suite))


class Solo:
    """`claim()`: the number of one more stream. `user()` gives what a user does, a request a step."""

    def __init__(
        self, settings: SoloSettings, base_url: str, claim: Callable[[], int], ledger: Ledger
    ) -> None:
        base_url = base_url.rstrip("/").removesuffix("/v1")
        self._claim = claim
        self._ledger = ledger
        self._dialogues = Dialogues()
        self._key = CellKey(ARM, STREAMS, 0)
        self._prompts = settings.mix().cell(self._key)
        self._client = StreamClient(
            base_url, settings.model or only_model(base_url), settings.client(), CLOCK
        )

    def user(self) -> Iterator[None]:
        """Endless. Raises what cancelled the request under way, once that is kept."""
        stream = self._claim()
        made = self._prompts.stream(stream)
        prompts = (prompt for prompt in made if not self._dialogues.broken(prompt))
        for number in count():
            self._one(stream, Turn(number, warmup=False), next(prompts))
            yield

    def _one(self, stream: int, turn: Turn, prompt: Prompt) -> None:
        exchange, cancelled = self._client.send(prompt, CLOCK(), self._dialogues.before(prompt))
        if prompt.conversation is not None:
            self._dialogues.answered(prompt, spoken((exchange.body or "").encode()))
        name = request_name(self._key, stream, turn)
        self._ledger.put(Ask.of(name, self._key, prompt, turn.warmup), exchange)
        if cancelled is not None:
            raise cancelled
        if not exchange.answered:
            gevent.sleep(PAUSE_S)


def only_model(base_url: str) -> str:
    """The one model that the server lists. Raises ValueError, with the mend."""
    ask = urllib.request.Request(f"{base_url}/v1/models", headers=request_headers())
    try:
        with urllib.request.urlopen(ask, timeout=10) as answer:
            names = [str(item["id"]) for item in json.load(answer)["data"]]
    except (urllib.error.URLError, OSError) as error:
        raise ValueError(
            f"{base_url}/v1/models: no answer ({error}); is the server up, and --host right?"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{base_url}/v1/models: no list of models; give --model") from None
    if len(names) != 1:
        raise ValueError(f"{base_url} lists {len(names)} models; give --model")
    return names[0]


def local_path(folder: Path, name: str) -> Path:
    """Where a process of a plain locust run keeps its records: a new file a start."""
    return folder / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{name}.jsonl"
