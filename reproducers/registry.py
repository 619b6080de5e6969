"""Every reproducer by name: one line each."""

from __future__ import annotations

from reproducers import policy_not_applied, threshold_collapse, zero_depth_tax
from reproducers.contract import Reproducer

REPRODUCERS: dict[str, Reproducer] = {
    "policy-not-applied": policy_not_applied.REPRODUCER,
    "threshold-collapse": threshold_collapse.REPRODUCER,
    "zero-depth-tax": zero_depth_tax.REPRODUCER,
}
