"""Flag values that are more than words: JSON objects, NAME=URL pairs, numbers with their range."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from depthgate.exits import UsageError
from suites.fields import shown
from suites.long_numbers import LongNumber, whole_number


def whole(least: int, most: int) -> Callable[[str], int]:
    """The `type` of a flag that takes a whole number from `least` to `most`."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{shown(text)} must be a whole number from {least} to {most}")
        return value

    return read


def positive(most: float) -> Callable[[str], float]:
    """The `type` of a flag that takes a number above 0 and at most `most`."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value <= most:
            raise argparse.ArgumentTypeError(f"{shown(text)} must be a number above 0 and at most {most:.0f}")
        return value

    return read


def address(text: str) -> str:
    """The `type` of a flag that takes a host to listen on: an empty one would be every interface."""
    if not text.strip():
        raise argparse.ArgumentTypeError(
            "an empty host listens everywhere; write 127.0.0.1, or 0.0.0.0 for that"
        )
    return text


def json_object(flag: str, text: str) -> dict[str, object]:
    """`text` as a JSON object of numbers that are some and names that stand once; UsageError otherwise."""
    try:
        value = json.loads(
            text,
            parse_int=whole_number,
            parse_float=_finite,
            parse_constant=_finite,
            object_pairs_hook=_once,
        )
    except LongNumber as error:
        raise UsageError(f"{flag}: {error}") from None
    except RecursionError:
        raise UsageError(f"{flag}: nested too deep; write '{{\"name\": value}}'") from None
    except ValueError as error:
        raise UsageError(f"{flag} {text}: not JSON ({error}); write it as '{{\"name\": value}}'") from None
    if not isinstance(value, dict):
        raise UsageError(f"{flag} {text}: a {type(value).__name__}; write an object, '{{\"name\": value}}'")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no finite number")
    return value


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    twice = next((name for name, times in Counter(name for name, _ in pairs).items() if times > 1), None)
    if twice is not None:
        raise ValueError(f"{shown(twice)} stands twice")
    return dict(pairs)


def arm_urls(pairs: Sequence[str]) -> dict[str, str]:
    """["off=http://host:8000", ...] as a dict; UsageError on a pair that is none or stands twice."""
    urls: dict[str, str] = {}
    for pair in pairs:
        name, equals, url = pair.partition("=")
        if not equals or not name or not is_url(url):
            raise UsageError(f"--arm {pair}: not NAME=URL; write --arm off=http://127.0.0.1:8000")
        if name in urls:
            raise UsageError(f"--arm {pair}: arm {name!r} is given twice; keep one")
        urls[name] = checked_url(f"--arm {name}", url)
    return urls


def is_url(text: str) -> bool:
    """Whether `--engine` names a server rather than a kind of engine."""
    return text.startswith(("http://", "https://"))


def checked_url(flag: str, text: str) -> str:
    """`text` if it is an http(s) URL without credentials or a query: it enters the manifest and the page."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:  # a port or an IPv6 address that is none
        raise UsageError(f"{flag} {text}: {error}; write http://127.0.0.1:8000") from None
    if not is_url(text) or not host:
        raise UsageError(f"{flag} {text}: not a URL; write http://127.0.0.1:8000")
    if parts.username is not None:
        raise UsageError(f"{flag}: the URL holds credentials; set OPENAI_API_KEY in the environment instead")
    if parts.query or parts.fragment:
        raise UsageError(f"{flag}: the URL holds a query or a fragment, which no request would; drop it")
    return text
