"""Token counts of a server against a tokenizer here: do they disagree? Figures keep to the server's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from loadgen.records import Outcome, RequestRecord
from loadgen.traffic import TrafficError
from loadgen.transcript import excerpt

Count = Callable[[str], int]

# An end-of-text token has no text, and a text may have several encodings: a few tokens are no disagreement.
ALLOWED_TOKENS = 2
ALLOWED_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class Recounted:
    """`differing`: answers whose counts part by more than ALLOWED_TOKENS and ALLOWED_SHARE of usage."""

    tokenizer: str
    answers: int
    usage_tokens: int
    text_tokens: int
    differing: int

    def note(self) -> str:
        """One sentence for a reader."""
        if not self.answers:
            return f"tokenizer {self.tokenizer}: no answer with both a usage and a whole text to compare"
        off = 100 * (self.text_tokens - self.usage_tokens) / max(1, self.usage_tokens)
        return (
            f"tokenizer {self.tokenizer}: usage says {self.usage_tokens} tokens in {self.answers} answers, "
            f"their text has {self.text_tokens} ({off:+.2g} %); {self.differing} answers differ by more than "
            f"{ALLOWED_TOKENS} tokens and {100 * ALLOWED_SHARE:g} %; figures keep to usage"
        )


class Recount:
    """Keeps texts while the load runs, counts them afterwards: tokenizing would hold up the streams."""

    def __init__(self, tokenizer: str, count: Count) -> None:
        self._tokenizer = tokenizer
        self._count = count
        self._texts: dict[str, str] = {}
        self._pairs: list[tuple[int, str]] = []

    def hear(self, request: str, text: str) -> None:
        """An answer's text, before its record."""
        self._texts[request] = text

    def see(self, record: RequestRecord) -> None:
        """Its record."""
        text = self._texts.pop(record.request, None)
        if record.outcome is Outcome.DONE and record.output_tokens is not None and text is not None:
            self._pairs.append((record.output_tokens, text))

    def result(self) -> Recounted:
        """Counts now."""
        counts = [(usage, self._count(text)) for usage, text in self._pairs]
        return Recounted(
            self._tokenizer,
            answers=len(counts),
            usage_tokens=sum(usage for usage, _ in counts),
            text_tokens=sum(own for _, own in counts),
            differing=sum(_differ(usage, own) for usage, own in counts),
        )


def _differ(usage: int, own: int) -> bool:
    return abs(own - usage) > max(ALLOWED_TOKENS, ALLOWED_SHARE * usage)


def load_tokenizer(where: str) -> Count:
    """Of a tokenizer.json, the folder that holds it, or a hub id. Raises TrafficError, one line."""
    has_fast, has_full = (find_spec(name) is not None for name in ("tokenizers", "transformers"))
    if not has_fast and not has_full:
        raise TrafficError(
            f"--tokenizer {where}: needs the package tokenizers or transformers; install one of them"
        )
    try:
        return _fast(where) if has_fast else _full(where)
    except Exception as error:  # both packages and the hub client raise many kinds; all mean the same here
        raise TrafficError(
            f"--tokenizer {where}: cannot be loaded ({excerpt(error)}); give a tokenizer.json, its folder or "
            "a hub id"
        ) from error


def _fast(where: str) -> Count:
    kind: Any = import_module("tokenizers").Tokenizer
    path = Path(where)
    file = path / "tokenizer.json" if path.is_dir() else path
    made = kind.from_file(str(file)) if path.exists() else kind.from_pretrained(where)
    return lambda text: len(made.encode(text, add_special_tokens=False).ids)


def _full(where: str) -> Count:
    made: Any = import_module("transformers").AutoTokenizer.from_pretrained(where)
    return lambda text: len(made.encode(text, add_special_tokens=False))
