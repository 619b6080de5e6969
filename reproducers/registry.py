"""Every reproducer by name: one line each."""

from __future__ import annotations

from reproducers import (
    amplification,
    crossover_strix,
    fixed_round_cost,
    policy_not_applied,
    threshold_collapse,
    zero_depth_tax,
)
from reproducers.contract import Reproducer

REPRODUCERS: dict[str, Reproducer] = {
    "amplification": amplification.REPRODUCER,
    "crossover-strix": crossover_strix.REPRODUCER,
    "fixed-round-cost": fixed_round_cost.REPRODUCER,
    "policy-not-applied": policy_not_applied.REPRODUCER,
    "threshold-collapse": threshold_collapse.REPRODUCER,
    "zero-depth-tax": zero_depth_tax.REPRODUCER,
}
