"""From what a policy answered to what an engine can run: windows within the drafts in hand, K in 0..k_max."""

from __future__ import annotations

import numpy as np

from governors.contract import DepthDecision, IntArray, StepObservation


class DecisionError(RuntimeError):
    """A policy broke the contract: not a usage error, a fault in the policy's own code."""


def clamp(decision: DepthDecision, observation: StepObservation) -> tuple[IntArray, int]:
    """(windows, depth_next) that can be executed: int64 (B,) in 0..drafts_in_hand, and an int in 0..k_max.

    Where all drafts are to be verified, the windows are the observation's own `drafts_in_hand`: read-only.
    Numbers out of range are clamped, as engines do; a wrong shape, a NaN, a non-integer: DecisionError.
    """
    depth = decision.depth_next
    if isinstance(depth, bool) or not isinstance(depth, int | np.integer):
        raise _fault(observation, "depth_next", depth, "one integer from 0 to k_max")
    asked, k_max = _windows(decision.windows, observation), observation.limits.k_max
    depth = min(max(int(depth), 0), k_max)
    if isinstance(asked, int) and asked == k_max:
        return observation.drafts_in_hand, depth
    windows = np.minimum(asked, observation.drafts_in_hand)
    np.maximum(windows, 0, out=windows)
    return windows, depth


def _windows(windows: object, observation: StepObservation) -> IntArray | int:
    batch = observation.batch
    k_max = observation.limits.k_max
    if isinstance(windows, int | np.integer) and not isinstance(windows, bool):
        return min(max(int(windows), 0), k_max)  # numpy takes no integer beyond 64 bits
    if not isinstance(windows, np.ndarray):
        raise _fault(observation, "windows", windows, f"one integer or an int64 array of shape ({batch},)")
    if windows.shape != (batch,):
        raise _fault(
            observation, "windows.shape", windows.shape, f"({batch},), one window a decoding request"
        )
    if windows.dtype.kind not in "iu":
        raise _fault(
            observation, "windows.dtype", windows.dtype, "integers; round or replace NaN before deciding"
        )
    if windows.dtype.kind == "u":
        windows = np.minimum(windows, min(k_max, np.iinfo(windows.dtype).max))  # before it wraps to a sign
    return windows.astype(np.int64, copy=False)


def _fault(observation: StepObservation, field: str, value: object, mend: str) -> DecisionError:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return DecisionError(f"step {observation.step}: the policy's {field} is {shown}: return {mend}")
