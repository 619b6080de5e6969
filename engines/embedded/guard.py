"""A governor that may fail: the engine goes on at its configured depth, counts the error and says so."""

from __future__ import annotations

import logging
import time

from governors.contract import DepthDecision, Governor, Reason, StepObservation, StepOutcome
from governors.windows import clamp

log = logging.getLogger(__name__)

SAY_EVERY_S = 5.0


class GuardedGovernor:
    """Wraps a policy for an engine. A step in which it raises, or answers what no engine can run, is decided
    as "verify all, draft k_max" (reason no-model), as without a policy. `errors` counts both kinds.

    Every failing call is a warning in the log with its traceback, at most one in SAY_EVERY_S.
    """

    def __init__(self, governor: Governor, name: str, k_max: int) -> None:
        self._governor = governor
        self._name = name
        self._k_max = k_max
        self._said_s = -SAY_EVERY_S
        self.errors = 0

    def decide(self, observation: StepObservation) -> DepthDecision:
        try:
            decision = self._governor.decide(observation)
            clamp(decision, observation)  # for what it refuses; the engine clips what it is given
            Reason(decision.reason)
        except Exception:  # a policy is third-party code: it may raise anything
            self._failed("decide", observation.step)
            return DepthDecision(windows=self._k_max, depth_next=self._k_max, reason=Reason.NO_MODEL)
        return decision

    def observe(self, outcome: StepOutcome) -> None:
        try:
            self._governor.observe(outcome)
        except Exception:
            self._failed("observe", outcome.step)

    def _failed(self, call: str, step: int) -> None:
        self.errors += 1
        now_s = time.monotonic()
        if now_s - self._said_s > SAY_EVERY_S:
            self._said_s = now_s
            log.warning(
                "governor %s failed in %s at step %d (%d errors so far); the engine goes on with K=%d",
                self._name,
                call,
                step,
                self.errors,
                self._k_max,
                exc_info=True,
            )
