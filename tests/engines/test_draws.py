"""The counter-based generator: known values, scalar and array alike, and draws that look independent."""

from __future__ import annotations

import numpy as np
import pytest

from engines.embedded.draws import GAMMA, MASK, mix, mix_in_place, normal, normals, stream_key


def test_mix_is_splitmix64() -> None:
    """The first outputs of SplitMix64 seeded with 1234567, as published with its reference code."""
    outputs = [mix(1234567 + count * GAMMA) for count in range(1, 6)]
    assert outputs == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_arrays_mix_to_the_same_bits() -> None:
    values = [0, 1, 2**63, MASK, 123456789]
    array = np.array(values, dtype=np.uint64)
    mix_in_place(array)
    assert array.tolist() == [mix(value) for value in values]


def test_normals_are_the_scalar_ones() -> None:
    keys = [5, 2**64 - 7]
    counters = np.array(
        [[(key + index * GAMMA) & MASK for index in range(4)] for key in keys], dtype=np.uint64
    )
    assert normals(counters).tolist() == [[normal(key, index) for index in range(4)] for key in keys]


def test_normals_have_a_normals_moments() -> None:
    """200,000 draws: each moment within 4 of its own standard errors."""
    count = 200_000
    draws = normals(np.arange(count, dtype=np.uint64) * np.uint64(GAMMA))
    assert abs(draws.mean()) < 4 / np.sqrt(count)
    assert abs(draws.var() - 1) < 4 * np.sqrt(2 / count)
    assert abs((draws**3).mean()) < 4 * np.sqrt(15 / count)
    assert abs((draws**4).mean() - 3) < 4 * np.sqrt(96 / count) + 0.01  # 4096 quantiles cut the tails
    assert abs(np.mean(draws < 1.0) - 0.8413) < 4 * np.sqrt(0.84 * 0.16 / count)


@pytest.mark.parametrize("lag", [1, 2, 7])
def test_neighbouring_draws_are_uncorrelated(lag: int) -> None:
    count = 100_000
    draws = normals(np.arange(count, dtype=np.uint64) * np.uint64(GAMMA))
    assert abs(np.mean(draws[lag:] * draws[:-lag])) < 4 / np.sqrt(count)


def test_streams_of_neighbouring_seeds_are_uncorrelated() -> None:
    first = np.array([normal(stream_key(0, seed), 3) for seed in range(20_000)])
    assert abs(np.mean(first[1:] * first[:-1])) < 4 / np.sqrt(20_000)


def test_stream_keys_differ_by_every_part_and_its_place() -> None:
    keys = {stream_key(a, b) for a in range(-5, 60) for b in range(-5, 60)}
    assert len(keys) == 65 * 65
