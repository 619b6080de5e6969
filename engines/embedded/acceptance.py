"""Which drafts the target accepts: per class and position, unlike between requests, drifting within one.

Draft t of a request's output passes with probability sigmoid(theta[class, p] + u + d + s * log2(B) + c).
Here p is its position in the block, u the request's own offset, d a stationary AR(1) offset held over cells
of drift_tokens / 8 output tokens, s the batch slope, B the decoding batch (published rates hold at B = 1;
with a knee B stands for the step's tokens over the knee's), c the shift of all acceptance since the engine's
start. Its uniform draw belongs to (request, t) alone: a request meets the same luck whoever runs beside it
and whatever depth was chosen before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engines.embedded.calibration import LOGIT_LIMIT, check_curve, logit_offsets, sigmoid
from engines.embedded.draws import GAMMA, MASK, child_key, mix_in_place, normal, normals, stream_key
from engines.embedded.specs import AcceptanceSpec, ConfidenceSpec

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
KeyArray = NDArray[np.uint64]

_ACCEPT, _OFFSET, _DRIFT, _NOISE = range(4)  # purposes of a request's streams
_CELLS_PER_CORRELATION = 8
_GAMMA_U64 = np.uint64(GAMMA)
_STREAM_XOR = 0xD1B54A32D192ED03  # a request's other streams: key ^ (purpose * this)
_DRIFT_XOR, _NOISE_XOR = (np.uint64(purpose * _STREAM_XOR & MASK) for purpose in (_DRIFT, _NOISE))


@dataclass(frozen=True, slots=True)
class RequestTrait:
    """What makes a request's acceptance its own. `key`: of its draws; `own`: u; `drift`: d at token 0."""

    key: int
    class_index: int
    own: float
    drift: float


class AcceptanceProcess:
    """Acceptance of one drafter class, vectorised over the decoding batch. Raises AcceptanceCurveError."""

    def __init__(self, spec: AcceptanceSpec, k_max: int, seed: int) -> None:
        for name, curve in spec.by_class.items():
            check_curve(name, curve)
        self.has_confidence = spec.confidence is not None
        self._spec = spec
        self._root = stream_key(seed)
        self._classes = {name: row for row, name in enumerate(spec.by_class)}
        sd = math.hypot(spec.spread, spec.drift)
        self._theta = np.array(
            [logit_offsets(tuple(curve), sd, k_max) for curve in spec.by_class.values()], dtype=np.float64
        ).reshape(len(spec.by_class), k_max)
        self.cell_tokens = max(1, round(spec.drift_tokens / _CELLS_PER_CORRELATION))
        self._rho = math.exp(-self.cell_tokens / spec.drift_tokens) if spec.drift_tokens > 0 else 0.0
        self._innovation = spec.drift * math.sqrt(1.0 - self._rho**2)
        self._one_cell_a_step = self.cell_tokens > k_max
        self.drifts = spec.drift > 0.0
        self._course_s, self._course_logits = [[point[axis] for point in spec.course] for axis in (0, 1)]
        self._theta_to = [np.ascontiguousarray(self._theta[:, :depth]) for depth in range(k_max + 1)]
        self._ahead = np.arange(k_max, dtype=np.uint64) * _GAMMA_U64

    def trait(self, traffic_class: str, acceptance_seed: int) -> RequestTrait:
        """Draws a request's own offsets; "default" serves unlisted classes, without it: ValueError."""
        row = self._classes.get(traffic_class, self._classes.get("default"))
        if row is None:
            known = ", ".join(sorted(self._classes))
            raise ValueError(
                f'traffic class "{traffic_class}" has no acceptance: known are {known}; add "default"'
            )
        key = child_key(self._root, acceptance_seed)
        own = self._spec.spread * normal(_stream(key, _OFFSET), 0) if self._spec.spread else 0.0
        drift = self._spec.drift * normal(_stream(key, _DRIFT), 0) if self._spec.drift else 0.0
        return RequestTrait(key, row, own, drift)

    def logits(self, class_index: IntArray, offsets: FloatArray, depth: int) -> FloatArray:
        """Logits (B, depth) of conditional acceptance; `offsets` (B,) = u + d."""
        logits: FloatArray = self._theta_to[depth].take(class_index, axis=0)
        if self._spec.batch_slope:
            offsets = offsets + self._spec.batch_slope * self._doublings(len(offsets), depth)
        logits += offsets[:, None]
        return logits

    def shift(self, engine_s: float) -> float:
        """Change of every logit so many seconds after the engine's first step."""
        if not self._course_s:
            return 0.0
        return float(np.interp(engine_s, self._course_s, self._course_logits))

    def _doublings(self, batch: int, depth: int) -> float:
        """Of the batch above one request, or of its tokens above the knee."""
        knee = self._spec.batch_knee_tokens
        return math.log2(max(batch * (depth + 1) / knee if knee else batch, 1.0))

    def accepted(self, keys: KeyArray, emitted: IntArray, logits: FloatArray, windows: IntArray) -> IntArray:
        """Accepted drafts (B,): how many of the first `windows` drafts pass in a row.

        `emitted` (B,): output tokens before the block; `logits` (B, depth); windows <= depth.
        """
        batch, depth = logits.shape
        odds = np.negative(logits)
        np.exp(odds, out=odds)
        odds += 1.0
        # a draw u = bits / 2^64 passes when u < sigmoid(x): u * (1 + exp(-x)) < 1
        odds *= self._draws(keys, emitted, depth)
        passed = np.zeros((batch, depth + 1), dtype=np.bool_)
        np.less(odds, 2.0**64, out=passed[:, :depth])
        accepted: IntArray = np.minimum(passed.argmin(axis=1), windows)
        return accepted

    def _draws(self, keys: KeyArray, emitted: IntArray, depth: int) -> KeyArray:
        """64 random bits for each draft (B, depth), which is output token `emitted` + position."""
        first = emitted.view(np.uint64) * _GAMMA_U64
        first += keys
        draws: KeyArray = first[:, None] + self._ahead[:depth]
        mix_in_place(draws)
        return draws

    def drifted(self, keys: KeyArray, emitted: IntArray, cell_end: IntArray, drift: FloatArray) -> IntArray:
        """Moves `drift` and `cell_end` (B,), in place, to where `emitted` is; returns the rows that moved."""
        moved: IntArray = (emitted >= cell_end).nonzero()[0]
        late = moved
        while late.size:
            ends = cell_end[late]
            fresh = normals((keys[late] ^ _DRIFT_XOR) + ends.view(np.uint64) * _GAMMA_U64)
            fresh *= self._innovation
            fresh += self._rho * drift[late]
            drift[late] = fresh
            ends += self.cell_tokens
            cell_end[late] = ends
            if self._one_cell_a_step:
                break
            late = late[emitted[late] >= ends]
        return moved

    def confidence(
        self, keys: KeyArray, emitted: IntArray, logits: FloatArray, drafts: IntArray, k_max: int
    ) -> FloatArray:
        """The drafter's reported confidence (B, k_max), NaN where a request holds no draft there."""
        spec = self._spec.confidence or ConfidenceSpec()
        batch, depth = logits.shape
        reported = np.empty((batch, k_max))
        reported[:, depth:] = np.nan
        raw = logits * spec.slope
        raw += spec.bias
        if spec.noise:
            first = (keys ^ _NOISE_XOR) + emitted.view(np.uint64) * _GAMMA_U64
            raw += spec.noise * normals(first[:, None] + self._ahead[:depth])
        reported[:, :depth] = sigmoid(raw)
        if drafts[drafts.argmin()] < depth:
            reported[:, :depth][np.arange(depth) >= drafts[:, None]] = np.nan
        return reported


def starved_logits(logits: FloatArray, starved: IntArray, factor: float) -> FloatArray:
    """Logits of `factor` * p for the starved rows (B,), the others as they are."""
    rows = np.flatnonzero(starved)
    if rows.size:
        probability = np.clip(factor * sigmoid(logits[rows]), 0.0, 1.0)
        with np.errstate(divide="ignore"):
            shrunk = np.log(probability) - np.log1p(-probability)
        logits[rows] = np.clip(shrunk, -LOGIT_LIMIT, LOGIT_LIMIT)
    return logits


def _stream(key: int, purpose: int) -> int:
    return key ^ (purpose * _STREAM_XOR & MASK)
