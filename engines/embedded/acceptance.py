"""Which drafts the target accepts: per class and position, unlike between requests, drifting within one.

Draft token t of a request's output passes with probability sigmoid(theta[class, p] + u + d + s * log2(B)):
p its position in the block, u the request's own offset, d a stationary AR(1) offset held over cells of
drift_tokens / 8 output tokens, s the batch slope, B the decoding batch (published rates hold at B = 1). Its
uniform draw belongs to (request, t) alone: a request meets the same luck whoever runs beside it and whatever
depth was chosen before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engines.embedded.calibration import LOGIT_LIMIT, check_curve, logit_offsets, sigmoid
from engines.embedded.draws import GAMMA, MASK, normal, normals, stream_key, uniforms
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
    """What makes a request's acceptance its own. `key`: of its draws; `offset`: u, `drift`: d at token 0."""

    key: int
    class_index: int
    offset: float
    drift: float


class AcceptanceProcess:
    """Acceptance of one drafter class, vectorised over the decoding batch. Raises AcceptanceCurveError."""

    def __init__(self, spec: AcceptanceSpec, k_max: int, seed: int) -> None:
        for name, curve in spec.by_class.items():
            check_curve(name, curve)
        self.has_confidence = spec.confidence is not None
        self._spec = spec
        self._seed = seed
        self._classes = {name: row for row, name in enumerate(spec.by_class)}
        sd = math.hypot(spec.spread, spec.drift)
        self._theta = np.array(
            [logit_offsets(tuple(curve), sd, k_max) for curve in spec.by_class.values()], dtype=np.float64
        ).reshape(len(spec.by_class), k_max)
        self.cell_tokens = max(1, round(spec.drift_tokens / _CELLS_PER_CORRELATION))
        self._rho = math.exp(-self.cell_tokens / spec.drift_tokens) if spec.drift_tokens > 0 else 0.0
        self._innovation = spec.drift * math.sqrt(1.0 - self._rho**2)
        self._ahead = np.arange(k_max, dtype=np.uint64) * _GAMMA_U64

    def trait(self, traffic_class: str, acceptance_seed: int) -> RequestTrait:
        """Draws a request's own offsets; "default" serves unlisted classes, without it: ValueError."""
        row = self._classes.get(traffic_class, self._classes.get("default"))
        if row is None:
            known = ", ".join(sorted(self._classes))
            raise ValueError(
                f'traffic class "{traffic_class}" has no acceptance: known are {known}; add "default"'
            )
        key = stream_key(self._seed, acceptance_seed)
        offset = self._spec.spread * normal(_stream(key, _OFFSET), 0) if self._spec.spread else 0.0
        drift = self._spec.drift * normal(_stream(key, _DRIFT), 0) if self._spec.drift else 0.0
        return RequestTrait(key, row, offset, drift)

    def logits(self, class_index: IntArray, offsets: FloatArray, depth: int) -> FloatArray:
        """Logits (B, depth) of conditional acceptance; `offsets` (B,) = u + d."""
        logits: FloatArray = self._theta[:, :depth].take(class_index, axis=0)
        if self._spec.batch_slope:
            offsets = offsets + self._spec.batch_slope * math.log2(max(len(offsets), 1))
        logits += offsets[:, None]
        return logits

    def accepted(self, keys: KeyArray, emitted: IntArray, logits: FloatArray, windows: IntArray) -> IntArray:
        """Accepted drafts (B,): how many of the first `windows` drafts pass in a row.

        `emitted` (B,): output tokens before the block; `logits` (B, depth); windows <= depth.
        """
        batch, depth = logits.shape
        start = (emitted.astype(np.uint64) + np.uint64(1)) * _GAMMA_U64
        start += keys
        passed = np.zeros((batch, depth + 1), dtype=np.bool_)
        np.less(uniforms(start[:, None] + self._ahead[:depth]), sigmoid(logits), out=passed[:, :depth])
        accepted: IntArray = np.minimum(passed.argmin(axis=1), windows)
        return accepted

    def drifted(self, keys: KeyArray, emitted: IntArray, cells: IntArray, drift: FloatArray) -> None:
        """Moves `drift` and `cells` (B,), in place, to the cell that output token `emitted` lies in."""
        if not self._spec.drift:
            return
        now = emitted // self.cell_tokens
        while (late := np.flatnonzero(now > cells)).size:
            cells[late] += 1
            fresh = normals(keys[late] ^ _DRIFT_XOR, cells[late])
            drift[late] = self._rho * drift[late] + self._innovation * fresh

    def confidence(
        self, keys: KeyArray, emitted: IntArray, logits: FloatArray, drafts: IntArray, k_max: int
    ) -> FloatArray:
        """The drafter's reported confidence (B, k_max), NaN where a request holds no draft there."""
        spec = self._spec.confidence or ConfidenceSpec()
        batch, depth = logits.shape
        reported = np.full((batch, k_max), np.nan)
        raw = logits * spec.slope
        raw += spec.bias
        if spec.noise:
            tokens = emitted[:, None] + np.arange(depth)
            raw += spec.noise * normals(keys[:, None] ^ _NOISE_XOR, tokens)
        reported[:, :depth] = sigmoid(raw)
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
