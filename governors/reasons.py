"""The reason of a batch-wide depth: how it compares with the depth decided before."""

from __future__ import annotations

from governors.contract import Reason


def reason_for(before: int | None, after: int) -> Reason:
    """raised or backed-off on a change; a depth that stays at 0 is overloaded, any other steady."""
    if before is not None and after > before:
        return Reason.RAISED
    if before is not None and after < before:
        return Reason.BACKED_OFF
    return Reason.STEADY if after > 0 else Reason.OVERLOADED
