"""What the target makes of the drafts in hand, booked to the requests; and what starves a drafter."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from engines.embedded.acceptance import AcceptanceProcess, starved_logits
from engines.embedded.batch import (
    CELL_END,
    CLASS,
    DRIFT,
    EMITTED,
    MISSED,
    OFFSET,
    OWN,
    STARVED,
    RunningBatch,
)
from engines.embedded.specs import PenaltySpec

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Verified:
    """One step's verification. `windows`, `accepted` (B,) are read-only; the rest are sums over the batch.

    `drafts`: requests with a window > 0; tuples have one cell a draft position (k_max).
    """

    windows: IntArray
    accepted: IntArray
    drafts: int
    draft_tokens: int
    accepted_tokens: int
    reached_by_position: tuple[int, ...]
    accepted_by_position: tuple[int, ...]


class Verifier:
    """Acceptance of the leading columns of a batch."""

    def __init__(
        self, batch: RunningBatch, process: AcceptanceProcess, penalties: PenaltySpec, k_max: int
    ) -> None:
        self._batch = batch
        self._process = process
        self._k_max = k_max
        starves = penalties.drafter_starvation != 1.0 and not penalties.zero_depth_sync
        self._starvation = penalties.drafter_starvation if starves else None
        self._nothing = (0,) * k_max
        self._ladder = np.tri(k_max + 1, k_max, k=-1, dtype=np.int64)  # row n: the first n positions count
        self._unknown = np.full((batch.capacity, k_max), np.nan)
        self._unknown.setflags(write=False)

    def logits(self, decoding: int, depth: int, engine_s: float) -> FloatArray:
        """Logits (decoding, depth) of conditional acceptance of the drafts in hand, at the engine's age."""
        batch = self._batch
        offsets = batch.floats[OFFSET, :decoding]
        if shift := self._process.shift(engine_s):
            offsets = offsets + shift
        logits = self._process.logits(batch.ints[CLASS, :decoding], offsets, depth)
        if self._starvation is None:
            return logits
        return starved_logits(logits, batch.ints[STARVED, :decoding], self._starvation)

    def confidence(self, decoding: int, logits: FloatArray | None, drafts: IntArray) -> FloatArray:
        """What the drafter reports (decoding, k_max); NaN without a head or where there is no draft."""
        if logits is None or not self._process.has_confidence:
            return self._unknown[:decoding]
        batch = self._batch
        reported = self._process.confidence(
            batch.keys[:decoding], batch.ints[EMITTED, :decoding], logits, drafts, self._k_max
        )
        reported.setflags(write=False)
        return reported

    def verify(
        self, decoding: int, logits: FloatArray | None, windows: IntArray, draft_tokens: int
    ) -> Verified:
        """Draws the accepted drafts, books them to the histories; `draft_tokens`: sum of windows."""
        if logits is None or draft_tokens == 0:
            accepted = np.zeros(decoding, dtype=np.int64)
            accepted.setflags(write=False)
            return Verified(windows, accepted, 0, 0, 0, self._nothing, self._nothing)
        batch = self._batch
        accepted = self._process.accepted(
            batch.keys[:decoding], batch.ints[EMITTED, :decoding], logits, windows
        )
        counts = np.empty((2, decoding), dtype=np.int64)
        np.minimum(accepted + 1, windows, out=counts[0])
        counts[1] = accepted
        batch.history[:, :decoding] += self._ladder.take(counts, axis=0)
        accepted.setflags(write=False)
        reached_by_position = self._by_position(counts[0])
        accepted_by_position = self._by_position(accepted)
        return Verified(
            windows=windows,
            accepted=accepted,
            drafts=reached_by_position[0],
            draft_tokens=draft_tokens,
            accepted_tokens=sum(accepted_by_position),
            reached_by_position=reached_by_position,
            accepted_by_position=accepted_by_position,
        )

    def drift(self) -> None:
        """Lets the decoding requests' acceptance drift to where their output now is."""
        if not self._process.drifts:
            return
        batch = self._batch
        count = batch.decoding
        emitted, cell_end = batch.ints[EMITTED, :count], batch.ints[CELL_END, :count]
        moved = self._process.drifted(batch.keys[:count], emitted, cell_end, batch.floats[DRIFT, :count])
        if moved.size:
            batch.floats[OFFSET, moved] = batch.floats[OWN, moved] + batch.floats[DRIFT, moved]

    def feed(self, columns: slice | int, tokens: IntArray | int, depth: int) -> None:
        """`tokens` passed the target for these columns while the drafter ran at `depth` (0: it missed them).

        Drafts that come from a state with a gap are starved; each fed token mends one missed token.
        """
        if self._starvation is None:
            return
        missed = self._batch.ints[MISSED, columns]
        if depth == 0:
            self._batch.ints[MISSED, columns] = missed + tokens
            self._batch.ints[STARVED, columns] = 0
        else:
            self._batch.ints[STARVED, columns] = missed > 0
            self._batch.ints[MISSED, columns] = np.maximum(missed - tokens, 0)

    def _by_position(self, counts: IntArray) -> tuple[int, ...]:
        """How many of `counts` exceed each position."""
        histogram = np.bincount(counts, minlength=self._k_max + 1).tolist()
        return tuple(accumulate(histogram[:0:-1]))[::-1]
