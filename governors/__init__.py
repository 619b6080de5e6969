"""Speculative-depth governors: policies that choose how many tokens an engine drafts and verifies."""

from governors.contract import (
    AcceptanceHistory,
    DepthDecision,
    DepthLimits,
    Governor,
    GraphMode,
    Reason,
    StepDurations,
    StepObservation,
    StepOutcome,
)

__all__ = [
    "AcceptanceHistory",
    "DepthDecision",
    "DepthLimits",
    "Governor",
    "GraphMode",
    "Reason",
    "StepDurations",
    "StepObservation",
    "StepOutcome",
]
