"""Counter-based randomness: a draw is a pure function of (key, index), so it cannot depend on who else runs.

SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014): draw number
`index` of the stream `key` is mix(key + (index + 1) * GAMMA).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

KeyArray = NDArray[np.uint64]
FloatArray = NDArray[np.float64]

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
_MIX_1, _MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_GAMMA_U64, _MIX_1_U64, _MIX_2_U64 = np.uint64(GAMMA), np.uint64(_MIX_1), np.uint64(_MIX_2)
_S11, _S27, _S30, _S31 = (np.uint64(shift) for shift in (11, 27, 30, 31))
_UNIT, _HALF_UNIT = 2.0**-53, 2.0**-54


def mix(value: int) -> int:
    """SplitMix64's finaliser, a bijection of 64-bit integers."""
    value &= MASK
    value = ((value ^ (value >> 30)) * _MIX_1) & MASK
    value = ((value ^ (value >> 27)) * _MIX_2) & MASK
    return value ^ (value >> 31)


def stream_key(*parts: int) -> int:
    """A 64-bit key for a stream named by integers, e.g. (engine seed, request seed, purpose)."""
    key = 0
    for part in parts:
        key = mix(key + GAMMA + mix(part + GAMMA))
    return key


def uniform(key: int, index: int) -> float:
    """The scalar twin of `uniforms`: bit-identical to one of its cells."""
    return (mix(key + (index + 1) * GAMMA) >> 11) * _UNIT + _HALF_UNIT


def normal(key: int, index: int) -> float:
    """Standard normal (Box-Muller over the draws 2 index and 2 index + 1)."""
    radius = math.sqrt(-2.0 * math.log(uniform(key, 2 * index)))
    return radius * math.cos(2.0 * math.pi * uniform(key, 2 * index + 1))


def uniforms(counters: KeyArray) -> FloatArray:
    """Uniforms in (0, 1) of `counters` = key + (index + 1) * GAMMA, any shape; overwrites `counters`."""
    counters ^= counters >> _S30
    counters *= _MIX_1_U64
    counters ^= counters >> _S27
    counters *= _MIX_2_U64
    counters ^= counters >> _S31
    counters >>= _S11
    draws = counters.astype(np.float64)
    draws *= _UNIT
    draws += _HALF_UNIT
    return draws


def counters(keys: KeyArray, index: NDArray[np.int64]) -> KeyArray:
    """Counters of draw number `index` of each stream in `keys`; the shapes broadcast."""
    out: KeyArray = index.astype(np.uint64)
    out += np.uint64(1)
    return out * _GAMMA_U64 + keys


def normals(keys: KeyArray, index: NDArray[np.int64]) -> FloatArray:
    """Standard normals; the vector twin of `normal` (equal up to the last bits of log and cos)."""
    radius = np.sqrt(-2.0 * np.log(uniforms(counters(keys, 2 * index))))
    angle = np.cos(2.0 * np.pi * uniforms(counters(keys, 2 * index + 1)))
    return np.asarray(radius * angle, dtype=np.float64)
