"""What the loads share: a cell under way, and one request of one of its streams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from loadgen.client import Client
from loadgen.dialogue import Dialogues, every_word, spoken
from loadgen.exchange import Ask, Exchange
from loadgen.lockstep import Lockstep
from loadgen.reads import Clock
from loadgen.records import CellKey
from loadgen.scribe import Scribe
from loadgen.share import ALL, Share
from loadgen.steady import Turn
from loadgen.traffic import Prompt
from loadgen.verdict import End
from suites.model import LoadSpec


class Prompts(Protocol):
    """What stream i sends, in order; may end. Streams may share one iterator (a total over all streams).

    `name`: what the cell's due times are drawn from. `part`: other prompts, of a phase's or a burst's mix.
    `mean_tokens`: how many a request asks for, about.
    """

    @property
    def name(self) -> str: ...

    @property
    def mean_tokens(self) -> float: ...

    def stream(self, index: int) -> Iterator[Prompt]: ...

    def part(self, name: str, weights: Mapping[str, float] | None, streams: int) -> Prompts: ...


@runtime_checkable
class Queue(Protocol):
    """Prompts that all streams take from one queue: a share of a cell gets a share of it."""

    def share(self, share: Share) -> Prompts: ...


def request_name(key: CellKey, stream: int, turn: Turn) -> str:
    """Unique within a run; the same request of another arm differs in the arm only."""
    return f"{key.arm}/c{key.concurrency}/r{key.repeat}/s{stream}/{turn.number}"


@dataclass(frozen=True, slots=True)
class RunningCell:
    """One cell being driven: who sends, what, how, and where the exchanges go.

    `on_text(request, text)`: whole answers, when the client keeps them. `share`: what of the cell is driven
    here, `lockstep`: with whom.
    """

    client: Client
    key: CellKey
    load: LoadSpec
    prompts: Prompts
    scribe: Scribe
    clock: Clock
    on_progress: Callable[[], None]
    lockstep: Lockstep
    on_text: Callable[[str, str], None] | None = None
    dialogues: Dialogues = field(default_factory=Dialogues)
    share: Share = ALL

    @property
    def streams(self) -> range:
        """The numbers of the streams that are driven here."""
        return self.share.streams(self.key.concurrency)

    def stream(self, index: int) -> Iterator[Prompt]:
        """What the stream sends, without later turns of conversations that broke off."""
        return (prompt for prompt in self.prompts.stream(index) if not self.dialogues.broken(prompt))

    async def request(self, stream: int, turn: Turn, prompt: Prompt, due_s: float) -> Exchange:
        """One request, kept whatever becomes of it. Raises CancelledError after keeping a cancelled one."""
        exchange = await self.client.send(prompt, due_s, self.dialogues.before(prompt))
        ask = Ask.of(request_name(self.key, stream, turn), self.key, prompt, turn.warmup)
        self._heard(ask.request, prompt, exchange.body)
        self.scribe.put(ask, exchange)
        self.on_progress()
        if exchange.ending.end is End.CANCEL:
            raise asyncio.CancelledError
        return exchange

    def _heard(self, request: str, prompt: Prompt, body: str | None) -> None:
        raw = b"" if body is None else body.encode()
        if prompt.conversation is not None:
            self.dialogues.answered(prompt, spoken(raw))
        if self.on_text is not None and (text := every_word(raw)) is not None:
            self.on_text(request, text)
