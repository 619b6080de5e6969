"""Whether what a suite sends fits into the embedded engine at all: said before there is a run folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.contract import EngineError
from suites.fields import shown
from suites.model import Lengths, TrafficClass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engines.embedded.assembly import Assembled

WORD_TOKENS = 8  # prompts end with a whole word: they may be shorter than asked for by less than this


def check_room(traffic: Sequence[TrafficClass], assembled: Assembled) -> None:
    """EngineError for a class whose requests are too long for certain, naming its field."""
    bounds = {"max_model_len": assembled.profile.scheduler.max_model_len, "kv_blocks": assembled.kv_tokens}
    knob = min(bounds, key=lambda name: bounds[name])
    for index, item in enumerate(traffic):
        field, prompt = _prompt(item)
        answer = _answer(item)
        if prompt + answer > bounds[knob]:
            field = field if prompt > answer else "max_tokens"
            raise EngineError(
                f"traffic[{index}].{field} = {shown(getattr(item, field))}: requests of at least "
                f"{prompt + answer} tokens, the engine holds {bounds[knob]}; lower it, or raise {knob} in "
                "engine.options"
            )


def _prompt(item: TrafficClass) -> tuple[str, int]:
    """The field that says how long, and tokens at least: 4 bytes each; a word and its space have 2."""
    if item.prompt_tokens is not None:
        return "prompt_tokens", max(1, _sure(item.prompt_tokens) - WORD_TOKENS)
    return "prompt_words", -(-(item.prompt_words or 1) // 2)


def _answer(item: TrafficClass) -> int:
    """Tokens at least; 1 where the model may stop by itself, or a row of a set says how long."""
    return _sure(item.max_tokens) if item.ignore_eos and item.max_tokens_column is None else 1


def _sure(lengths: int | Lengths) -> int:
    """So long will some request be: of a distribution with tails, its least."""
    if isinstance(lengths, int):
        return lengths
    return (lengths.max if lengths.distribution == "uniform" else lengths.min) or 1
