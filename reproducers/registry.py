"""Every reproducer by name: one line each."""

from __future__ import annotations

from reproducers import (
    amplification,
    capture_ceiling,
    capture_hole,
    crossover_strix,
    fixed_round_cost,
    oscillation,
    policy_not_applied,
    threshold_collapse,
    zero_depth_tax,
)
from reproducers.contract import Reproducer

REPRODUCERS: dict[str, Reproducer] = {
    "amplification": amplification.REPRODUCER,
    "capture-ceiling": capture_ceiling.REPRODUCER,
    "capture-hole": capture_hole.REPRODUCER,
    "crossover-strix": crossover_strix.REPRODUCER,
    "fixed-round-cost": fixed_round_cost.REPRODUCER,
    "oscillation": oscillation.REPRODUCER,
    "policy-not-applied": policy_not_applied.REPRODUCER,
    "threshold-collapse": threshold_collapse.REPRODUCER,
    "zero-depth-tax": zero_depth_tax.REPRODUCER,
}
