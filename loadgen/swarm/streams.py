"""A cell's streams on one worker: what its users do between the start and the end of their stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import gevent
from gevent.event import AsyncResult

from loadgen.burst import burst_turns
from loadgen.closed import PAUSE_S
from loadgen.dialogue import Dialogues, spoken
from loadgen.exchange import Ask, Exchange
from loadgen.reads import Clock
from loadgen.steady import ClosedLoop, Turn
from loadgen.stream import request_name
from loadgen.swarm.http import StreamClient
from loadgen.swarm.ledger import Ledger
from loadgen.swarm.orders import Order, StreamEnd
from loadgen.traffic import CellPrompts, Prompt
from suites.model import LoadSpec


def wait_until(clock: Clock, at_s: float) -> None:
    """A timer may be a hair early, a request may not. Returns at once when it is that late already."""
    while (wait_s := at_s - clock()) > 0:
        gevent.sleep(wait_s)


class Streams:
    """One cell of this worker. `drive(stream)` runs in a user's greenlet until the stream has run out.

    `on_burst(number)`: all streams of this worker have ended that burst. `streams`: which ones it has.
    """

    def __init__(
        self,
        order: Order,
        load: LoadSpec,
        prompts: CellPrompts,
        client: StreamClient,
        ledger: Ledger,
        clock: Clock,
        on_burst: Callable[[int], None],
    ) -> None:
        self._order = order
        self._load = load
        self._prompts = prompts
        self._client = client
        self._ledger = ledger
        self._clock = clock
        self._on_burst = on_burst
        self._dialogues = Dialogues()
        self._loop: ClosedLoop | None = None
        self._start_s = 0.0
        self._releases = [AsyncResult() for _ in burst_turns(load)] if load.mode == "burst" else []
        self._ended: Counter[int] = Counter()
        self.streams: tuple[int, ...] = ()
        self.ends: list[StreamEnd] = []

    def start(self, streams: tuple[int, ...], start_s: float) -> None:
        """Once, before any `drive`; `start_s` by this worker's clock."""
        self.streams, self._start_s = streams, start_s
        self._loop = ClosedLoop(self._load, self._order.key.concurrency, start_s, self._prompts.name)
        if self._releases:
            self.release(0, start_s)

    def release(self, number: int, due_s: float) -> None:
        self._releases[number].set(due_s)

    def drive(self, stream: int) -> None:
        """Raises what cancelled it, once the request under way is kept."""
        walk = self._burst_stream if self._load.mode == "burst" else self._closed_stream
        begun_s: float | None = None
        ended_s = self._start_s
        try:
            for turn, due_s, exchange in walk(stream):
                ended_s = exchange.ended_s
                if begun_s is None and not turn.warmup:
                    begun_s = due_s
        finally:
            self.ends.append(StreamEnd(stream, begun_s, ended_s))

    def _closed_stream(self, stream: int) -> Iterator[tuple[Turn, float, Exchange]]:
        loop = self._loop
        assert loop is not None
        free_s: float | None = self._start_s
        for prompt in self._sent(stream):
            due_s = loop.due_s(stream, self._clock() if free_s is None else free_s)
            free_s = None
            wait_until(self._clock, due_s)
            turn = loop.begin(stream, due_s)
            if turn is None:
                return
            exchange = self._request(stream, turn, prompt, due_s)
            loop.ended(stream, exchange.ended_s)
            yield turn, due_s, exchange
            if not exchange.answered:
                gevent.sleep(PAUSE_S)

    def _burst_stream(self, stream: int) -> Iterator[tuple[Turn, float, Exchange]]:
        prompts = self._sent(stream)
        for turn in burst_turns(self._load):
            prompt = next(prompts)
            due_s = float(self._releases[turn.number].get())
            wait_until(self._clock, due_s)
            yield turn, due_s, self._request(stream, turn, prompt, due_s)
            self._ended[turn.number] += 1
            if self._ended[turn.number] == len(self.streams):
                self._on_burst(turn.number)

    def _sent(self, stream: int) -> Iterator[Prompt]:
        """Without later turns of conversations that broke off."""
        return (prompt for prompt in self._prompts.stream(stream) if not self._dialogues.broken(prompt))

    def _request(self, stream: int, turn: Turn, prompt: Prompt, due_s: float) -> Exchange:
        exchange, cancelled = self._client.send(prompt, due_s, self._dialogues.before(prompt))
        key = self._order.key
        if prompt.conversation is not None:
            self._dialogues.answered(prompt, spoken((exchange.body or "").encode()))
        self._ledger.put(Ask.of(request_name(key, stream, turn), key, prompt, turn.warmup), exchange)
        if cancelled is not None:
            raise cancelled
        return exchange
