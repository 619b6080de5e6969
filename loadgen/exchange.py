"""One request as it went over the wire, before anyone has looked inside; and the record it becomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from loadgen.reads import Reads
from loadgen.records import CellKey, Outcome, RequestRecord
from loadgen.traffic import Prompt
from loadgen.transcript import Transcript
from loadgen.verdict import End, Ending, judge


@dataclass(frozen=True, slots=True)
class Exchange:
    """Times in the run's clock. `status` None: no response. `ended_s`: the last read, else the fault.

    `body`: a 200's, when it was to be kept; None otherwise.
    """

    due_s: float
    sent_s: float | None
    status: int | None
    reads: Reads
    ending: Ending
    ended_s: float
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None

    @property
    def answered(self) -> bool:
        """A 200 that ended by itself; whether its content is whole is for the record to say."""
        return self.status == 200 and self.ending.end is End.EOF


@dataclass(frozen=True, slots=True)
class Ask:
    """What was asked, for the record. `least_tokens`: of output, None = the server may stop when it likes."""

    request: str
    key: CellKey
    traffic_class: str
    max_tokens: int
    warmup: bool = False
    least_tokens: int | None = None
    conversation: str | None = None
    turn: int | None = None

    @classmethod
    def of(cls, request: str, key: CellKey, prompt: Prompt, warmup: bool) -> Self:
        """The request of that name."""
        turn = None if prompt.conversation is None else prompt.turn
        asked = prompt.traffic_class, prompt.max_tokens, warmup, prompt.least_tokens
        return cls(request, key, *asked, prompt.conversation, turn)


def record_of(ask: Ask, exchange: Exchange) -> RequestRecord:
    """Parses the kept bytes: once for each exchange, away from the moments when streams are read."""
    transcript = exchange.reads.transcript(ask.max_tokens)
    outcome, why = judge(exchange.status, exchange.headers, exchange.reads, exchange.ending, transcript)
    return _record(ask, exchange, transcript, outcome, why)


def _record(
    ask: Ask, exchange: Exchange, transcript: Transcript, outcome: Outcome, why: str | None
) -> RequestRecord:
    reads = exchange.reads
    arrivals = reads.arrivals(transcript.chunk_ends)
    return RequestRecord(
        request=ask.request,
        arm=ask.key.arm,
        concurrency=ask.key.concurrency,
        repeat=ask.key.repeat,
        traffic_class=ask.traffic_class,
        due_s=exchange.due_s,
        sent_s=exchange.sent_s,
        first_byte_s=reads.first_s,
        first_token_s=arrivals[0] if arrivals else None,
        done_s=reads.last_s if outcome is Outcome.DONE else None,
        chunk_times_s=arrivals,
        chunk_tokens=transcript.chunk_tokens,
        prompt_tokens=transcript.prompt_tokens,
        output_tokens=transcript.output_tokens,
        max_tokens=ask.max_tokens,
        tokens_are=transcript.tokens_are,
        outcome=outcome,
        why=why,
        warmup=ask.warmup,
        conversation=ask.conversation,
        turn=ask.turn,
    )
