"""The shape of a stream's content chunks: a pattern that holds where only the text and the counts differ.

Engines send chunk after chunk with the same bytes in between. What matches a shape needs no JSON parser;
whatever does not, by one byte, goes to it. A shape is taken from a chunk only if, filled with other values,
it parses into the same chunk with those values: then each place is the value that it looks like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import orjson

BEGIN, END = b"data: ", b"\n\n"  # of an event
LONGEST = 2048  # bytes of an event that a shape is taken from
COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
TEXTS = ("content", "text", "reasoning_content", "reasoning")
WORD = rb"[ !#-\[\]-~]*"  # plain ASCII without quote and backslash
SAID = rb'[^"\\\x00-\x1f]*(?:\\["\\/bfnrt][^"\\\x00-\x1f]*)*'  # a string without \u, maybe no UTF-8
NUMBER = rb"(?:0|[1-9][0-9]{0,8})"
SECONDS = rb"(?:0|[1-9][0-9]{0,11})"
NAMES = "|".join(("id", "created", *TEXTS, *COUNTS)).encode()
PLACE = re.compile(rb'"(%b)": ?("%b"|%b)(?=[,}])' % (NAMES, SAID, SECONDS))
PATTERNS = {
    "id": b'"%b"' % WORD,
    "created": SECONDS,
    **dict.fromkeys(TEXTS, b'"(?!")%b"' % SAID),
    **dict.fromkeys(COUNTS, b"(%b)" % NUMBER),
}


class Alike(NamedTuple):
    """So many events of one shape in a row; completion tokens so far in each, () = none carries usage."""

    taken: int
    so_far: Sequence[int]
    prompt_tokens: int


NONE = Alike(0, (), 0)


@dataclass(frozen=True, slots=True)
class Shape:
    """`pattern`: of a whole event's bytes, which must be UTF-8 for it to count. Its text is never empty.

    `counts`: groups of prompt, completion and total tokens, numbers below 10^9; () = chunks carry no usage.
    """

    pattern: re.Pattern[bytes]
    counts: tuple[int, ...]

    def run(self, pieces: Sequence[bytes], at: int) -> Alike:
        """The pieces from `at` on up to the first that is no event of this shape; NONE if they are odd."""
        told = []  # not the matches: one that is kept costs half as much again
        for match in map(self.pattern.fullmatch, islice(pieces, at, None)):
            if match is None:
                break
            told.append(match.group(*self.counts))
        if not told or not _is_utf8(pieces[at : at + len(told)]):
            return NONE
        if not self.counts:
            return Alike(len(told), (), 0)
        asked, said, total = zip(*told, strict=True)
        prompt, so_far = int(asked[0]), list(map(int, said))
        if asked.count(asked[0]) < len(asked) or list(map(prompt.__add__, so_far)) != list(map(int, total)):
            return NONE
        return Alike(len(told), so_far, prompt)


def shape_of(event: bytes) -> Shape | None:
    """The shape of an event's bytes, one choice of which says something; None: none to rely on."""
    data = event[len(BEGIN) : -len(END)]
    if len(event) > LONGEST or event != BEGIN + data + END:
        return None
    places = list(PLACE.finditer(data))
    edges = [0, *(edge for place in places for edge in place.span(2)), len(data)]
    between = tuple(data[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
    return _shape(between, tuple(place[1].decode() for place in places))


@lru_cache(maxsize=64)
def _shape(between: tuple[bytes, ...], names: tuple[str, ...]) -> Shape | None:
    """`between`: what lies before, between and after the places, of which `names` are the keys."""
    said = [name for name in names if name in TEXTS]
    counts = [name for name in names if name in COUNTS]
    if len(set(names)) < len(names) or len(said) != 1 or len(counts) not in (0, len(COUNTS)):
        return None
    if not _are_values(between, names, said[0]):
        return None
    pattern = _filled(map(re.escape, between), names, PATTERNS)
    return Shape(
        re.compile(BEGIN + pattern + END), tuple(counts.index(name) + 1 for name in COUNTS if counts)
    )


def _are_values(between: Sequence[bytes], names: Sequence[str], said: str) -> bool:
    """With other values the chunk is the same but for them, and what is said is said by its only choice."""
    one: dict[str, Any] = {"id": "a", "created": 1, said: "b", **dict(zip(COUNTS, (2, 3, 5), strict=True))}
    other = {"id": "c", "created": 6, said: "d", **dict(zip(COUNTS, (7, 8, 15), strict=True))}
    try:
        chunk, wanted = (_chunk(between, names, values) for values in (one, other))
        (choice,) = chunk["choices"]
        for name in names:
            of = chunk["usage"] if name in COUNTS else chunk
            if name == said:
                of = choice if said == "text" else choice["delta"]
            if of[name] != one[name]:
                return False
            of[name] = other[name]
    except (KeyError, TypeError, ValueError):
        return False
    told = chunk.get("usage") is None or any(name in COUNTS for name in names)
    is_error = chunk.get("error") is not None or chunk.get("object") == "error"
    return told and not is_error and choice.get("token_ids") is None and bool(chunk == wanted)


def _chunk(between: Sequence[bytes], names: Sequence[str], values: Mapping[str, Any]) -> Any:
    return orjson.loads(
        _filled(between, names, {name: orjson.dumps(value) for name, value in values.items()})
    )


def _filled(between: Iterable[bytes], names: Iterable[str], values: Mapping[str, bytes]) -> bytes:
    first, *rest = between
    return first + b"".join(values[name] + after for name, after in zip(names, rest, strict=True))


def _is_utf8(pieces: Iterable[bytes]) -> bool:
    try:
        return all(piece.isascii() or piece.decode() for piece in pieces)
    except UnicodeDecodeError:
        return False
