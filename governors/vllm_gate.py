"""The gate between a vLLM scheduler and a governor: what happens at each seam of a step. It never raises."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from governors.contract import GraphMode, StepDurations
from governors.entry import GovernorError
from governors.vllm_control import ControlFile
from governors.vllm_engine import VllmFacts, refuse_engine
from governors.vllm_hooks import REPORT, TIMED
from governors.vllm_journal import StepJournal
from governors.vllm_observation import StepReader, apply_windows
from governors.vllm_outcome import OutcomeReader, StepCourse
from governors.vllm_seat import Seat, described, seat_governor
from governors.vllm_settings import Settings, read_profile, read_switch
from governors.vllm_timing import STEPS_KEPT, WorkerReport

Say = Callable[[str], None]

UNSEEN: Final = (
    "the worker reports nothing, so durations are unknown and the depth executed is taken to be the one "
    "chosen; install depthgate (its vllm.general_plugins entry point) where the workers run"
)


class Gate:
    """Called by the scheduler's subclass, in this order a step: `begin`, `decide`, (the worker runs),
    `receive`, `deliver`. With async scheduling `begin` and `decide` of the next step come before `receive` of
    this one.

    A step is closed (told to the governor, written to the journal) when the next one has begun and its times
    are in, at the latest STEPS_KEPT steps later; the last step before the engine falls idle at once.
    """

    def __init__(
        self,
        facts: VllmFacts,
        settings: Settings,
        say: Say,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        refuse_engine(facts)
        self._facts, self._settings, self._say, self._clock = facts, settings, say, clock
        sitter = seat_governor(
            settings.governor, settings.options, settings.profile, facts, settings.unarmed_depth
        )
        for warning in sitter.warnings:
            say(warning)
        self.seat = Seat(sitter, say)
        self.journal = StepJournal(settings.steps, say)
        self.telemetry = settings.telemetry
        self._reader = StepReader(facts.limits)
        self._outcomes = OutcomeReader(self._reader.table)
        self._blanks = [[-1] * n for n in range(facts.limits.k_max)] if facts.asynchronous else None
        self._courses: deque[StepCourse] = deque()
        self._count = 0
        self._start_s = 0.0
        self._depth_in_force = facts.limits.k_max
        self._last: StepDurations | None = None
        self._blind = False
        self._control = None if settings.control is None else ControlFile(settings.control, self.switch)
        if self._control is not None:
            self._control.start()

    def begin(self) -> None:
        """At the head of schedule()."""
        self._start_s = self._clock()
        if self._courses and self._courses[-1].step_s is None:
            self._courses[-1].step_s = self._start_s - self._courses[-1].start_s
        self._guarded(self._close_ready)
        self.seat.settle_in()

    def decide(self, scheduler: Any, output: Any) -> None:
        """At the head of _update_after_schedule: the output is complete, and nothing has advanced yet."""
        if output.num_scheduled_tokens:
            self._guarded(self._decide, scheduler, output)
        else:  # vLLM names finished requests once, be it in a step without any
            self._guarded(self._reader.forget, output)

    def receive(self, scheduler: Any, output: Any, result: Any) -> StepCourse | None:
        """Before update_from_output: the worker's result has come."""
        course: StepCourse | None = self._guarded(self._receive, scheduler, output, result)
        return course

    def deliver(self, scheduler: Any, course: StepCourse | None, emitted: Callable[[], int]) -> None:
        """After update_from_output; `emitted` counts the tokens that went out."""
        if course is not None:
            self._guarded(self._deliver, scheduler, course, emitted)

    def switch(self, asked: Mapping[str, object]) -> Mapping[str, object]:
        """Follows a control request (from another thread); every step begun after it returns obeys."""
        name, options = asked.get("governor"), asked.get("options", {})
        if not isinstance(name, str | None) or not isinstance(options, Mapping):
            raise GovernorError(f"governor={name!r}, options={options!r}: give a name or null, and an object")
        telemetry = read_switch(asked, "telemetry", self.telemetry)
        profile = read_profile(asked["profile"]) if "profile" in asked else self._settings.profile
        sitter = seat_governor(name, options, profile, self._facts, self._settings.unarmed_depth)
        if "steps" in asked:
            self.journal.switch(None if asked["steps"] is None else Path(str(asked["steps"])))
        self.telemetry = telemetry
        self.seat.replace(sitter)
        return described(sitter)

    def close(self) -> None:
        if self._control is not None:
            self._control.close()
        self._guarded(self._close_all)
        self.journal.close()

    def _decide(self, scheduler: Any, output: Any) -> None:
        step = self._reader.read(scheduler, output)
        choice = self.seat.decide(
            lambda: self._reader.observe(step, self._count, self._start_s, self._depth_in_force, self._last)
        )
        if choice.depth is not None:
            output.num_spec_tokens_to_schedule = choice.depth
        if choice.windows is not None and self._facts.trims:
            apply_windows(step, choice.windows, self._blanks)
        timed = self.telemetry and self._count % self._settings.time_every == 0
        setattr(output, TIMED, timed)
        chosen = int(output.num_spec_tokens_to_schedule)
        self._courses.append(
            StepCourse(
                number=self._count,
                start_s=self._start_s,
                step=step,
                sitter=self.seat.sitter,
                reason=choice.reason,
                depth_in_force=self._depth_in_force,
                depth_chosen=chosen,
                timed=timed,
            )
        )
        self._count += 1
        self._depth_in_force = chosen

    def _receive(self, scheduler: Any, output: Any, result: Any) -> StepCourse | None:
        course = self._course_of(output)
        if course is None:
            return None
        course.verified = self._outcomes.book(course.step, result, scheduler.finished_req_ids)
        report: WorkerReport | None = getattr(result, REPORT, None)
        if report is not None:
            self._take(report, course)
        return course

    def _course_of(self, output: Any) -> StepCourse | None:
        """Outputs come in the order of their steps: a step before it that still waits for its own lost it to
        a fault, and would keep all later ones from being closed."""
        lost = False
        for course in self._courses:
            if course.step.output is output:
                if lost:
                    self._courses = deque(
                        each
                        for each in self._courses
                        if each.end_s is not None or each.number >= course.number
                    )
                return course
            lost = lost or course.end_s is None
        return None

    def _take(self, report: WorkerReport, course: StepCourse) -> None:
        course.drafted, course.graph_mode = report.drafted, GraphMode(report.graph_mode)
        if course is self._courses[-1]:
            self._depth_in_force = course.depth_executed
        for times in report.times:
            for timed in self._courses:
                if timed.number == course.number - times.ago:
                    timed.target_s, timed.draft_s, timed.settled = times.target_s, times.draft_s, True

    def _deliver(self, scheduler: Any, course: StepCourse, emitted: Callable[[], int]) -> None:
        course.end_s = self._clock()
        assert course.verified is not None
        course.emitted = emitted() if scheduler.finished_req_ids else course.verified.sampled
        if not scheduler.has_unfinished_requests():
            self._close_all()

    def _close_ready(self) -> None:
        while self._courses and self._courses[0].end_s is not None:
            first = self._courses[0]
            waits = first.timed and first.drafted is not None and not first.settled
            if waits and self._count - first.number < STEPS_KEPT:
                return
            self._close_first()

    def _close_all(self) -> None:
        while self._courses and self._courses[0].end_s is not None:
            self._close_first()

    def _close_first(self) -> None:
        course = self._courses.popleft()
        self._last = course.durations
        self.seat.observe(course.sitter, course.outcome)
        if course.timed and course.drafted is None and not self._blind:
            self._blind = True
            self.seat.note(UNSEEN)
        if self.telemetry and self.journal.open:
            self.journal.append(
                partial(course.row, self._facts.limits.k_max, self.seat.faults, self.seat.take_note())
            )

    def _guarded(self, run: Callable[..., Any], *args: Any) -> Any:
        try:
            return run(*args)
        except Exception as error:  # a fault of ours must not take the server down either
            self.seat.fault(run.__name__.strip("_"), error)
            return None
