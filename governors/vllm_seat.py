"""The seat of a governor in a running server: what it decides, and vLLM's own rule where it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from governors.contract import Governor, IntArray, Reason, StepObservation, StepOutcome
from governors.entry import GovernorError, Options
from governors.profile import Profile
from governors.registry import build_governor, governor_warnings
from governors.vllm_engine import VllmFacts, governor_context, refuse_governor
from governors.windows import clamp


@dataclass(frozen=True, slots=True)
class Sitter:
    """A governor with what it was asked for; `governor` None = vLLM's own rule."""

    name: str | None
    options: Options
    governor: Governor | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What a step does. `windows` None: verify all drafts in hand; `depth` None: vLLM's own K."""

    windows: IntArray | None
    depth: int | None
    reason: str


OWN_RULE: Final = Choice(None, None, str(Reason.STEADY))


def seat_governor(
    name: str | None,
    options: Options,
    profile: Profile | None,
    facts: VllmFacts,
    unarmed_depth: bool = False,
) -> Sitter:
    """Builds the policy. GovernorError: unknown, badly asked for, or not to be obeyed by this server."""
    if name is None:
        if options:
            raise GovernorError(f"options={dict(options)!r} without a governor: name one, or leave them out")
        return Sitter(None, {}, None)
    context = governor_context(facts, profile)
    refuse_governor(name, options, facts, unarmed_depth)
    governor = build_governor(name, options, context)
    return Sitter(name, dict(options), governor, governor_warnings(name, options, context))


class Seat:
    """Holds one Sitter; `faults` counts decisions and outcomes at which it raised or broke the contract.

    `replace` may be called from another thread; it takes effect at the next `settle_in`.
    """

    def __init__(self, sitter: Sitter, say: Callable[[str], None]) -> None:
        self.sitter = sitter
        self.faults = 0
        self._next: Sitter | None = None
        self._say = say
        self._note: str | None = None

    def replace(self, sitter: Sitter) -> None:
        self._next = sitter

    def settle_in(self) -> None:
        """Between steps: whoever was put here by `replace` takes over, with no faults to its name."""
        arrived = self._next
        if arrived is not None:
            self._next = None
            self.sitter, self.faults = arrived, 0

    def take_note(self) -> str | None:
        """What is to be said once in the journal."""
        note, self._note = self._note, None
        return note

    def decide(self, observe: Callable[[], StepObservation]) -> Choice:
        """Never raises: a policy that does leaves the step to vLLM's own rule."""
        sitter = self.sitter
        if sitter.governor is None:
            return OWN_RULE
        observation = observe()
        try:
            decision = sitter.governor.decide(observation)
            windows, depth = clamp(decision, observation)
            return Choice(windows, depth, str(decision.reason))
        except (Exception, SystemExit) as error:  # third-party code inside an engine that must live
            self.fault("decide", error)
            return Choice(None, None, "governor-fault")

    def observe(self, sitter: Sitter, outcome: Callable[[], StepOutcome]) -> None:
        """Never raises. `sitter` decided that step: nobody is told of a predecessor's."""
        if sitter is not self.sitter or sitter.governor is None:
            return
        try:
            sitter.governor.observe(outcome())
        except (Exception, SystemExit) as error:
            self.fault("observe", error)

    def fault(self, where: str, error: BaseException) -> None:
        """Counts a failure and says the first of them."""
        self.faults += 1
        if self.faults == 1:
            self.note(
                f"governor {self.sitter.name!r} failed in {where}: {type(error).__name__}: {error}; vLLM's "
                "own K runs instead, and this run is invalid"
            )

    def note(self, sentence: str) -> None:
        """Says it in the log, and once in the journal."""
        self._note = sentence
        self._say(sentence)


def described(sitter: Sitter) -> Mapping[str, object]:
    """For an acknowledgement."""
    return {"governor": sitter.name, "options": dict(sitter.options), "warnings": list(sitter.warnings)}
