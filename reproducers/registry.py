"""Every reproducer by name: one line each."""

from __future__ import annotations

from reproducers import (
    amplification,
    batch_dependent_acceptance,
    bistable,
    capture_ceiling,
    capture_hole,
    crossover_strix,
    dflash_below_baseline,
    drafter_starvation,
    fixed_round_cost,
    oscillation,
    piecewise_override,
    policy_not_applied,
    prefill_burst,
    runner_hole,
    small_tax,
    starved_streams,
    suffix_below_baseline,
    threshold_collapse,
    withdrawn_fix,
    zero_depth_tax,
)
from reproducers.contract import Reproducer

REPRODUCERS: dict[str, Reproducer] = {
    "amplification": amplification.REPRODUCER,
    "batch-dependent-acceptance": batch_dependent_acceptance.REPRODUCER,
    "bistable": bistable.REPRODUCER,
    "capture-ceiling": capture_ceiling.REPRODUCER,
    "capture-hole": capture_hole.REPRODUCER,
    "crossover-strix": crossover_strix.REPRODUCER,
    "dflash-below-baseline": dflash_below_baseline.REPRODUCER,
    "drafter-starvation": drafter_starvation.REPRODUCER,
    "fixed-round-cost": fixed_round_cost.REPRODUCER,
    "oscillation": oscillation.REPRODUCER,
    "piecewise-override": piecewise_override.REPRODUCER,
    "policy-not-applied": policy_not_applied.REPRODUCER,
    "prefill-burst": prefill_burst.REPRODUCER,
    "runner-hole": runner_hole.REPRODUCER,
    "small-tax": small_tax.REPRODUCER,
    "starved-streams": starved_streams.REPRODUCER,
    "suffix-below-baseline": suffix_below_baseline.REPRODUCER,
    "threshold-collapse": threshold_collapse.REPRODUCER,
    "withdrawn-fix": withdrawn_fix.REPRODUCER,
    "zero-depth-tax": zero_depth_tax.REPRODUCER,
}
