"""A prompt and its limits become the engine's NewRequest, over HTTP and in virtual time alike."""

from __future__ import annotations

from dataclasses import dataclass

from engines.embedded.requests import NewRequest
from engines.embedded.text import Prompt, count_tokens, end_of_text_tokens, request_key


@dataclass(frozen=True, slots=True)
class Intake:
    """What the engine gets, the key of the request's text, and why it will end ("length" or "stop")."""

    request: NewRequest
    key: int
    finish_reason: str


def take_in(
    prompt: Prompt,
    max_tokens: int,
    *,
    ignore_eos: bool,
    min_tokens: int = 0,
    traffic_class: str = "default",
    seed: int = 0,
    engine_seed: int = 0,
) -> Intake:
    """The same prompt, limits, class and seeds give the same request: text, length and acceptance draws.

    So two arms with the same engine seed see the same acceptance luck on the same prompts (pairs, less
    noise), and a run over HTTP meets the same requests as one in virtual time.
    """
    key = request_key(prompt, seed)
    tokens = max_tokens
    if not ignore_eos:
        tokens = min(max_tokens, max(min_tokens, end_of_text_tokens(key, traffic_class)))
    request = NewRequest(
        prompt_tokens=max(1, count_tokens(prompt)),
        output_tokens=tokens,
        traffic_class=traffic_class,
        acceptance_seed=(key ^ (engine_seed * 0x9E3779B97F4A7C15)) & (2**63 - 1),
    )
    return Intake(request, key, "length" if tokens == max_tokens else "stop")
