"""Grammar: a number and its noun, as a message says them."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """`1 request`, `2 requests`, `0 requests`: of nouns whose plural takes an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def being(count: int, noun: str) -> str:
    """`1 request is`, `2 requests are`."""
    return f"{counted(count, noun)} {'is' if count == 1 else 'are'}"
