"""What a row of a data set asks: a text, or a user's turns of a conversation, in the shapes that sets have.

gsm8k: a text. MT-bench, SPEED-Bench: a list of turns. ShareGPT: messages with `from` and `value`.
OpenAI-style `messages`: `role` and `content` (text, or parts with text). Only what a user says is taken:
answers are the server's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SPEAKERS = ("from", "role")  # where a message says whose it is
USERS = ("human", "user", "prompter")
WORDS = ("value", "content", "text")  # where it keeps what was said


@dataclass(frozen=True, slots=True)
class Row:
    """What the user says in each turn, one at least; `max_tokens` when the set has its own."""

    turns: tuple[str, ...]
    max_tokens: int | None = None


def user_turns(cell: object) -> tuple[str, ...]:
    """The user's turns of a cell, without empty ones; () when it holds no text."""
    return tuple(text for text in _turns(cell) if text)


def first_words(cell: object) -> str:
    """The first of them, "" when there is none."""
    return next(iter(user_turns(cell)), "")


def at_path(cell: object, path: Sequence[str]) -> object:
    """What a row's nested fields hold at `path`; None where it does not lead on."""
    for name in path:
        cell = cell.get(name) if isinstance(cell, Mapping) else None
    return cell


def _turns(cell: object) -> list[str]:
    if isinstance(cell, str):
        return [cell.strip()]
    if isinstance(cell, Mapping):
        return [turn for message in _messages(cell) for turn in _said(message)]
    if isinstance(cell, Sequence) and not isinstance(cell, bytes):
        return [turn for each in cell for turn in _turns(each)]
    return []


def _messages(cell: Mapping[str, object]) -> list[Mapping[str, object]]:
    """A message; or messages as a struct of lists, as `datasets` keeps a sequence of structs."""
    columns = {name: cell[name] for name in (*SPEAKERS, *WORDS) if isinstance(cell.get(name), list)}
    if not any(name in columns for name in SPEAKERS):
        return [cell]
    lists = [values for values in columns.values() if isinstance(values, list)]
    return [dict(zip(columns, values, strict=False)) for values in zip(*lists, strict=False)]


def _said(message: Mapping[str, object]) -> list[str]:
    speaker = next((message[name] for name in SPEAKERS if message.get(name) is not None), None)
    if speaker is not None and speaker not in USERS:
        return []
    words = next((message[name] for name in WORDS if message.get(name) is not None), None)
    if isinstance(words, list):  # parts of one message, such as text beside an image
        return [" ".join(turn for part in words for turn in _turns(part) if turn)]
    return [words.strip()] if isinstance(words, str) else []
