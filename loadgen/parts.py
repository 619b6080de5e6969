"""Which prompt a request takes: the cell's own stream, or one of a part of it (a phase's mix, a burst)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from loadgen.bursts_on_top import burst_part
from loadgen.open_loop import phase_name
from loadgen.sends import Send
from loadgen.stream import Prompts
from loadgen.traffic import Prompt
from suites.model import LoadSpec

Skips = Callable[[Prompt], bool]


def _nothing(prompt: Prompt) -> bool:
    return False


class PromptParts:
    """Each stream goes through the prompts of each part in order, whatever other streams do.

    `skips`: prompts that are not sent any more, such as later turns of a conversation that broke off.
    """

    def __init__(self, prompts: Prompts, load: LoadSpec, concurrency: int, skips: Skips = _nothing) -> None:
        self._skips = skips
        self._parts: dict[str | None, Prompts] = {None: prompts}
        self._streams: dict[tuple[str | None, int], Iterator[Prompt]] = {}
        self._first: dict[str | None, int] = {}  # bursts have streams of their own, numbered on
        for index, phase in enumerate(load.phases or ()):
            if (name := phase_name(index, phase)) is not None:
                self._parts[name] = prompts.part(name, phase.weights, concurrency)
        stream = concurrency
        for index, burst in enumerate(load.bursts or ()):
            weights = None if burst.traffic is None else {burst.traffic: 1.0}
            self._parts[burst_part(index)] = prompts.part(burst_part(index), weights, burst.requests)
            self._first[burst_part(index)] = stream
            stream += burst.requests

    def next(self, send: Send) -> Prompt | None:
        """None when there are no more."""
        place = send.part, send.stream - self._first.get(send.part, 0)
        if place not in self._streams:
            self._streams[place] = self._parts[send.part].stream(place[1])
        return next((prompt for prompt in self._streams[place] if not self._skips(prompt)), None)
