"""Prompts into arrivals, and simulated requests back into the records that HTTP would have given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engines.embedded.intake import take_in
from engines.embedded.requests import NewRequest
from engines.embedded.simulate import Arrival, SimulatedRequest
from engines.embedded.text import TokenText
from loadgen.dialogue import Dialogues, context
from loadgen.parts import PromptParts
from loadgen.records import CellKey, Outcome, RequestRecord, TokenSource
from loadgen.sends import Send
from loadgen.steady import Turn
from loadgen.stream import Prompts, request_name
from loadgen.traffic import Prompt
from suites.model import LoadSpec

# Cells of one arm and repeat share a journal of steps, so each has a stretch of the virtual clock to itself.
STRETCH_S = 100_000.0


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request under way: what it is called and whether it counts."""

    turn: Turn
    prompt: Prompt


class VirtualTraffic:
    """Turns prompts into arrivals, and simulated requests back into records."""

    def __init__(self, key: CellKey, load: LoadSpec, prompts: Prompts, engine_seed: int) -> None:
        self.key = key
        self.load = load
        self.start_s = key.concurrency * STRETCH_S
        self.name = prompts.name
        self._parts = PromptParts(prompts, load, key.concurrency)
        self._sent: defaultdict[int, list[_Sent]] = defaultdict(list)
        self._engine_seed = engine_seed
        self._dialogues = Dialogues()
        self.has_body = bool(load.body)  # some request had fields of its own

    def arrival(self, send: Send, zero_s: float) -> Arrival | None:
        """As the engine takes it; `zero_s`: the virtual clock at the send's time 0. None: no more prompts."""
        prompt = self._parts.next(send)
        if prompt is None:
            return None
        self._sent[send.stream].append(_Sent(send.turn, prompt))
        request = self._taken_in(prompt)
        return Arrival(
            due_s=zero_s + send.due_s,
            stream=send.stream,
            prompt_tokens=request.prompt_tokens,
            output_tokens=request.output_tokens,
            traffic_class=request.traffic_class,
            acceptance_seed=request.acceptance_seed,
            sent_s=None if send.at_s == send.due_s else zero_s + send.at_s,
        )

    def _taken_in(self, prompt: Prompt) -> NewRequest:
        """The engine's text is a matter of prompt and seed alone, so a conversation's next turn is known."""
        intake = take_in(
            context(self._dialogues.before(prompt), prompt.text),
            prompt.max_tokens,
            ignore_eos=prompt.ignore_eos,
            min_tokens=prompt.min_tokens or 0,
            traffic_class=prompt.traffic_class,
            seed=prompt.seed,
            engine_seed=self._engine_seed,
        )
        if prompt.conversation is not None:
            said = TokenText(intake.key).piece(0, intake.request.output_tokens)
            self._dialogues.answered(prompt, said.decode())
        self.has_body = self.has_body or bool(prompt.body)
        return intake.request

    def arrivals(self, sends: Sequence[Send], zero_s: float) -> list[Arrival]:
        """Those of them that have a prompt."""
        found = [self.arrival(send, zero_s) for send in sends]
        return [arrival for arrival in found if arrival is not None]

    def records(self, requests: Sequence[SimulatedRequest]) -> Iterator[RequestRecord]:
        """The engine took each stream's requests in the order in which the stream sent them."""
        waiting = {stream: iter(sent) for stream, sent in self._sent.items()}
        for request in requests:
            stream = request.arrival.stream
            yield self._record(stream, next(waiting[stream]), request)

    def _record(self, stream: int, sent: _Sent, request: SimulatedRequest) -> RequestRecord:
        outcome, why = _outcome(request, self.load.timeout_s)
        tokens = tuple(request.chunk_tokens.tolist())
        return RequestRecord(
            request=request_name(self.key, stream, sent.turn),
            arm=self.key.arm,
            concurrency=self.key.concurrency,
            repeat=self.key.repeat,
            traffic_class=sent.prompt.traffic_class,
            due_s=request.arrival.due_s,
            sent_s=request.sent_s,
            first_byte_s=request.first_token_s,
            first_token_s=request.first_token_s,
            done_s=request.done_s if outcome is Outcome.DONE else None,
            chunk_times_s=tuple(request.chunk_times_s.tolist()),
            chunk_tokens=tokens,
            prompt_tokens=request.arrival.prompt_tokens,
            output_tokens=sum(tokens),
            max_tokens=sent.prompt.max_tokens,
            tokens_are=TokenSource.CONTINUOUS_USAGE,
            outcome=outcome,
            why=why,
            warmup=sent.turn.warmup,
            conversation=sent.prompt.conversation,
            turn=None if sent.prompt.conversation is None else sent.prompt.turn,
        )


def _outcome(request: SimulatedRequest, timeout_s: float) -> tuple[Outcome, str | None]:
    """A deadline ends a request for its client; in virtual time the engine goes on with it all the same."""
    if request.done_s is None:
        return Outcome.CANCELLED, "the simulation stopped"
    if request.done_s - request.arrival.due_s > timeout_s:
        return Outcome.TIMED_OUT, f"no end within {timeout_s:g} s"
    return Outcome.DONE, None
