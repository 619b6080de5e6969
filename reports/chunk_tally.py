"""Chunks of many requests, taken as they come: gaps between them, ITL, and tokens over time."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from reports.tally import Tally
from reports.token_clock import TokenClock

BATCH = 1 << 16  # chunks that wait to be taken together: numpy's calls cost more than a request's few chunks


class ChunkTally:
    """`gaps`, `itl` and `tokens` as reports.metrics defines them, once `flush` was called.

    `by_chunk` False: a request did not say how many tokens its chunks held, so ITL is unknown.
    """

    def __init__(self) -> None:
        self.gaps, self.itl, self.tokens = Tally(), Tally(), TokenClock()
        self.by_chunk = True
        self._times, self._counts, self._lengths = array("d"), array("q"), array("q")

    def add(self, times_s: Sequence[float], tokens: Sequence[int] | None) -> None:
        """One request's chunks, in order."""
        if not times_s:
            return
        self.by_chunk = self.by_chunk and tokens is not None
        self._times.extend(times_s)
        self._counts.extend(tokens if tokens is not None else [0] * len(times_s))
        self._lengths.append(len(times_s))
        if len(self._times) > BATCH:
            self.flush()

    def flush(self) -> None:
        """Takes what waits."""
        if not self._lengths:
            return
        times, counts = np.asarray(self._times), np.asarray(self._counts)
        request = np.repeat(np.arange(len(self._lengths)), self._lengths)
        self.gaps.add(np.diff(times)[request[1:] == request[:-1]])
        if self.by_chunk:
            self.tokens.add(times, counts)
            held = counts > 0
            times, counts, request = times[held], counts[held], request[held]
            inside = request[1:] == request[:-1]
            tokens = counts[1:][inside]
            self.itl.add(np.diff(times)[inside] / tokens, tokens)
        self._times, self._counts, self._lengths = array("d"), array("q"), array("q")
