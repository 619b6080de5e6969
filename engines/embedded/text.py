"""Tokens as text: a deterministic word stream in which one token is one three-letter word and a space.

The word at position i of a request depends on its key (prompt and seed) and on i, on nothing else: greedy
output is the same whatever depth a governor chose, so a correctness gate can compare texts.
"""

from __future__ import annotations

import hashlib
import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Prompt = str | tuple[int, ...]

BYTES_PER_TOKEN = 4
_VOCABULARY = """
ace act add age aid aim air ale all and ant any ape apt arc arm art ash ask ate awe axe bad bag bar bat
bay bed bee beg bet big bit boa bob bog bow box boy bud bug bun bus but buy bye cab can cap car cat cod
cog cot cow cry cub cue cup cut dab dad dam day den dew did dig dim dip doe dog dot dry due dug duo dye
ear eat ebb eel egg elf elk elm end era eve ewe eye fan far fat fax fed fee few fig fin fir fit fix fly
foe fog for fox fry fun fur gap gas gel gem get gig god got gum gut guy gym had ham has hat hay hem hen
her hid him hip his hit hob hog hop hot how hub hue hug hum hut ice icy ill ink inn ion ire its ivy jab
jam jar jaw jet job jog joy jug keg key kid kin kit lab lad lap law lay led leg let lid lip lit log lot
low mad man map mat may men met mid mix mob mop mud mug nap net new nod nor not now nut oak oar oat odd
off oil old one opt orb ore our out owe owl own pad pal pan paw pay pea peg pen pet pie pig pin pit pod
pop pot pro pub put rag ram ran
"""
WORDS = tuple(_VOCABULARY.split())
_WORD_ARRAY = np.array([f" {word}" for word in WORDS], dtype=f"S{BYTES_PER_TOKEN}")

# Output lengths without ignore_eos: (median, sd of the logarithm) of a log-normal, in tokens.
# gsm8k: the answers of the first 200 test rows of openai/gsm8k at 4 bytes a token (median 63.75, sd .52).
# chat: 2,000 ShareGPT responses counted with the SmolLM2 tokenizer (geometric mean 184, sd of the log 1.18).
END_OF_TEXT = {"gsm8k": (64.0, 0.52), "chat": (184.0, 1.18), "default": (184.0, 1.18)}

_BLOCK = 256


def count_tokens(prompt: Prompt) -> int:
    """Prompt tokens: one for each started 4 bytes of UTF-8 (usual for English); or as many as ids."""
    if isinstance(prompt, tuple):
        return len(prompt)
    return -(-len(prompt.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def request_key(prompt: Prompt, seed: int) -> int:
    """64 bits from which everything random about a request's text and length follows."""
    raw = prompt.encode("utf-8", "surrogatepass") if isinstance(prompt, str) else repr(prompt).encode()
    digest = hashlib.blake2b(raw, digest_size=8, salt=(seed & (2**64 - 1)).to_bytes(8, "little"))
    return int.from_bytes(digest.digest(), "little")


def end_of_text_tokens(key: int, traffic_class: str) -> int:
    """Tokens after which the request stops of its own accord, >= 1; log-normal by class, fixed by the key."""
    median, sigma = END_OF_TEXT.get(traffic_class, END_OF_TEXT["default"])
    uniform = (int(_mixed(key, -1, 0)[0] >> np.uint64(11)) + 0.5) / 2.0**53
    return max(1, round(median * math.exp(sigma * NormalDist().inv_cdf(uniform))))


class TokenText:
    """The words of one request, made in blocks as they are asked for."""

    __slots__ = ("_key", "_made", "_raw")

    def __init__(self, key: int) -> None:
        self._key = key
        self._made = 0
        self._raw = b""

    def piece(self, start: int, stop: int) -> bytes:
        """Text of positions start..stop-1, ASCII letters and spaces: safe inside a JSON string as it is."""
        if stop > self._made:
            self._make(stop)
        return self._raw[BYTES_PER_TOKEN * start : BYTES_PER_TOKEN * stop]

    def ids(self, start: int, stop: int) -> list[int]:
        """Token ids of positions start..stop-1: indices into WORDS."""
        return [int(index) for index in _indices(self._key, start, stop)]

    def _make(self, stop: int) -> None:
        until = max(stop, self._made + _BLOCK)
        self._raw += _WORD_ARRAY[_indices(self._key, self._made, until)].tobytes()
        self._made = until


def _indices(key: int, start: int, stop: int) -> NDArray[np.uint64]:
    return _mixed(key, start, stop) % np.uint64(len(WORDS))


def _mixed(key: int, start: int, stop: int) -> NDArray[np.uint64]:
    """splitmix64 of key + position: uint64 (stop - start,)."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    z = np.arange(start + 1, stop + 1, dtype=np.uint64) * golden + np.uint64(key)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
