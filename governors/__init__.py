"""Speculative-depth governors: policies that choose how many tokens an engine drafts and verifies.

The names below are the public API beside `governors.registry` (find and build policies), `governors.replay`
(traces) and `governors.telemetry` (StepRecord). Importing them needs numpy and the standard library alone.
"""

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
from governors.entry import GovernorContext, GovernorEntry, GovernorError
from governors.profile import Binding, Profile, ProfileError
from governors.windows import DecisionError, clamp

__all__ = [
    "AcceptanceHistory",
    "Binding",
    "DecisionError",
    "DepthDecision",
    "DepthLimits",
    "Governor",
    "GovernorContext",
    "GovernorEntry",
    "GovernorError",
    "GraphMode",
    "Profile",
    "ProfileError",
    "Reason",
    "StepDurations",
    "StepObservation",
    "StepOutcome",
    "clamp",
]
