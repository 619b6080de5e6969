"""Clamping: what an engine may run out of what a policy answered, and faults that say what to return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from governors.contract import DepthDecision
from governors.windows import DecisionError, clamp
from tests.governors.observations import observation

OBSERVED = observation(batch=3, k_max=4, drafts=[4, 2, 0], step=7)


def test_one_window_for_all_is_clipped_to_the_drafts_in_hand() -> None:
    windows, depth = clamp(DepthDecision(3, 9), OBSERVED)
    assert (windows.tolist(), windows.dtype.name, depth) == ([3, 2, 0], "int64", 4)


def test_windows_of_their_own_and_negative_numbers() -> None:
    windows, depth = clamp(DepthDecision(np.array([-1, 9, 9]), -2), OBSERVED)
    assert (windows.tolist(), depth) == ([0, 2, 0], 0)


def test_numpy_integers_are_integers() -> None:
    windows, depth = clamp(DepthDecision(np.array([1, 1, 1], np.int32), np.int64(2)), OBSERVED)  # type: ignore[arg-type]
    assert (windows.tolist(), windows.dtype.name, depth) == ([1, 1, 0], "int64", 2)
    assert type(depth) is int


@pytest.mark.parametrize(
    ("windows", "clipped"),
    [
        (10**30, [4, 2, 0]),
        (-(10**30), [0, 0, 0]),
        (np.array([2**63 + 5, 1, 7], np.uint64), [4, 1, 0]),  # no int64: it would wrap to a negative one
        (np.array([200, 1, 7], np.uint8), [4, 1, 0]),
    ],
)
def test_numbers_beyond_64_bits_are_clipped_too(windows: Any, clipped: list[int]) -> None:
    assert clamp(DepthDecision(windows, 10**30), OBSERVED)[0].tolist() == clipped


def test_nothing_decoding() -> None:
    windows, depth = clamp(DepthDecision(4, 4), observation(batch=0, k_max=4))
    assert (windows.shape, depth) == ((0,), 4)


def test_the_policys_own_array_is_left_alone() -> None:
    own = np.array([9, 9, 9])
    clamp(DepthDecision(own, 0), OBSERVED)
    assert own.tolist() == [9, 9, 9]


@pytest.mark.parametrize(
    ("windows", "depth", "said"),
    [
        (np.array([1, 2]), 1, r"step 7: the policy's windows.shape is \(2,\): return \(3,\), one window a"),
        (np.zeros((3, 4), int), 1, r"windows.shape is \(3, 4\)"),
        (np.array([1.0, 2.0, np.nan]), 1, r"windows.dtype is dtype\('float64'\): return integers"),
        (np.array([True, True, False]), 1, r"windows.dtype is dtype\('bool'\)"),
        ([1, 2, 3], 1, r"windows is \[1, 2, 3\]: return one integer or an int64 array of shape \(3,\)"),
        (float("nan"), 1, "windows is nan: return one integer"),
        (True, 1, "windows is True"),
        (None, 1, "windows is None"),
        (1, 1.5, "depth_next is 1.5: return one integer from 0 to k_max"),
        (1, float("nan"), "depth_next is nan"),
        (1, None, "depth_next is None"),
        (1, True, "depth_next is True"),
    ],
)
def test_faults(windows: Any, depth: Any, said: str) -> None:
    with pytest.raises(DecisionError, match=said):
        clamp(DepthDecision(windows, depth), OBSERVED)
