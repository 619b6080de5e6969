"""Counter-based randomness: a draw is a pure function of (key, index), so it cannot depend on who else runs.

SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014): draw number
`index` of the stream `key` is mix(key + index * GAMMA), 64 bits.
"""

from __future__ import annotations

from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

KeyArray = NDArray[np.uint64]
FloatArray = NDArray[np.float64]

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
_MIX_1, _MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MIX_1_U64, _MIX_2_U64 = np.uint64(_MIX_1), np.uint64(_MIX_2)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)
_QUANTILE_BITS = 12
_QUANTILE_SHIFT = 64 - _QUANTILE_BITS
_QUANTILE_SHIFT_U64 = np.uint64(_QUANTILE_SHIFT)


def mix(value: int) -> int:
    """SplitMix64's finaliser, a bijection of 64-bit integers."""
    value &= MASK
    value = ((value ^ (value >> 30)) * _MIX_1) & MASK
    value = ((value ^ (value >> 27)) * _MIX_2) & MASK
    return value ^ (value >> 31)


def mix_in_place(values: KeyArray) -> None:
    """`mix` of every cell; bit-identical to the scalar."""
    values ^= values >> _S30
    values *= _MIX_1_U64
    values ^= values >> _S27
    values *= _MIX_2_U64
    values ^= values >> _S31


def stream_key(*parts: int) -> int:
    """A 64-bit key for a stream named by integers, e.g. (engine seed, request seed)."""
    key = 0
    for part in parts:
        key = child_key(key, part)
    return key


def child_key(key: int, part: int) -> int:
    """The key of stream `part` below `key`: stream_key(a, b) = child_key(stream_key(a), b)."""
    return mix(key + GAMMA + mix(part + GAMMA))


def normal(key: int, index: int) -> float:
    """Draw number `index` of `key` as a standard normal: one of 4096 equally likely quantiles."""
    return float(_quantiles()[mix(key + index * GAMMA) >> _QUANTILE_SHIFT])


def normals(counters: KeyArray) -> FloatArray:
    """`normal` of every cell of `counters` = key + index * GAMMA, any shape; overwrites `counters`."""
    mix_in_place(counters)
    counters >>= _QUANTILE_SHIFT_U64
    return _quantiles().take(counters.view(np.int64))


@cache
def _quantiles() -> FloatArray:
    """Midpoint quantiles of N(0, 1), scaled to variance 1 exactly; their mean is 0 by symmetry."""
    count = 1 << _QUANTILE_BITS
    standard = NormalDist()
    values = np.array([standard.inv_cdf((cell + 0.5) / count) for cell in range(count)])
    return np.asarray(values / np.sqrt(np.mean(values**2)), dtype=np.float64)
