"""Lossless or not: greedy answers against no speculation, and acceptance counts of arms with equal K."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadgen.counters import EngineCounters
from suites.grammar import counted


@dataclass(frozen=True, slots=True)
class Answer:
    """To one prompt, sent alone. `tokens` None: the server gives no token ids; then the text has to do."""

    text: str
    tokens: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ArmAnswers:
    """`depth`: the K of every step, None = it may change. `counters`: over all answers, None = unknown."""

    arm: str
    depth: int | None
    answers: tuple[Answer, ...]
    counters: EngineCounters | None = None


def output_faults(reference: ArmAnswers, arm: ArmAnswers) -> tuple[str, ...]:
    """A sentence for each prompt whose answer is another than without speculation; empty = lossless."""
    if len(arm.answers) != len(reference.answers):
        answers, prompts = counted(len(arm.answers), "answer"), counted(len(reference.answers), "prompt")
        return (f"{arm.arm}: {answers} to {prompts}",)
    pairs = enumerate(zip(reference.answers, arm.answers, strict=True), start=1)
    return tuple(
        f"{arm.arm}: the answer to prompt {number} is not {reference.arm}'s: {_difference(right, own)}"
        for number, (right, own) in pairs
        if own != right
    )


def _difference(right: Answer, own: Answer) -> str:
    if right.tokens is None or own.tokens is None:
        return "the texts differ"
    pairs = enumerate(zip(right.tokens, own.tokens, strict=False), start=1)
    for place, (wanted, found) in pairs:
        if wanted != found:
            return f"token {place} of {len(right.tokens)} is {found}, not {wanted}"
    return f"{counted(len(own.tokens), 'token')}, not {len(right.tokens)}"


def acceptance_faults(arms: Sequence[ArmAnswers]) -> tuple[str, ...]:
    """Arms of one constant K draft and accept the same on the same prompts; a sentence for each exception."""
    first: dict[int, ArmAnswers] = {}
    faults = []
    for arm in arms:
        if arm.depth is None or arm.counters is None:
            continue
        before = first.setdefault(arm.depth, arm)
        if arm.counters != before.counters:
            faults.append(
                f"{arm.arm}: at K={arm.depth} {_counts(arm.counters)}, "
                f"{before.arm} {_counts(before.counters)} on the same prompts"
            )
    return tuple(faults)


def _counts(counters: EngineCounters | None) -> str:
    assert counters is not None
    return f"{counters.accepted_tokens} of {counters.draft_tokens} drafts accepted"
