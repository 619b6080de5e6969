"""What a chunk costs to parse: the quick way for chunks that are alike over the JSON parser alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest

from bench.bench_client import DONE, event
from loadgen.transcript import Transcript, TranscriptReader

ROUNDS = 15
EVENTS = 20_480  # parsed in a round


def by_parser(pieces: list[bytes]) -> Transcript:
    reader = TranscriptReader()
    reader.feed(b"".join(pieces))
    return reader.transcript()


def alike(pieces: list[bytes]) -> Transcript:
    reader = TranscriptReader()
    reader.read(pieces)
    return reader.transcript()


@pytest.mark.parametrize("chunks", [16, 128, 512])
def test_chunks_that_are_alike(chunks: int, note: Callable[[str], None]) -> None:
    """Interleaved; CPU time, the median of rounds."""
    pieces = [*(event(number) for number in range(1, chunks + 1)), DONE]
    assert alike(pieces) == by_parser(pieces)
    times = [(_us(by_parser, pieces), _us(alike, pieces)) for _ in range(ROUNDS)]
    slow, quick = (statistics.median(each) for each in zip(*times, strict=True))
    ratio = statistics.median(own / parser for parser, own in times)
    note(f"answers of {chunks} chunks: {quick:.2f} us a chunk, by the JSON parser {slow:.2f}: {ratio:.2f}")


def _us(read: Callable[[list[bytes]], Transcript], pieces: list[bytes]) -> float:
    answers = EVENTS // len(pieces)
    began_s = time.process_time()
    for _ in range(answers):
        read(pieces)
    return (time.process_time() - began_s) / answers / len(pieces) * 1e6
