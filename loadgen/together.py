"""What the processes that drove a cell say of it, as one process would have said it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from loadgen.paced import Driven
from loadgen.rules import PACED, driver_of, rules_of
from loadgen.steady import Course, Window
from suites.grammar import counted
from suites.model import LoadSpec

NOBODY = "no worker process lived to the end of the cell"


def together(load: LoadSpec, concurrency: int, name: str, start_s: float, parts: Sequence[Driven]) -> Driven:
    """`parts`: of all who lived to the end; `name`: what the cell's times are drawn from.

    Rules of a share give the whole cell's phases and window, but for a worker whose prompts ran out.
    """
    if not parts:
        return Driven(Window(start_s, start_s, NOBODY))
    if driver_of(load) == PACED:
        part = next((part for part in parts if part.window.fault), parts[0])
        return Driven(part.window, part.phase_starts_s, _notes(load, concurrency, name, parts))
    courses = [part.course for part in parts if part.course is not None]
    if courses:
        return Driven(_course(courses, start_s).window())
    end_s = max(part.window.end_s for part in parts)
    return Driven(Window(parts[0].window.start_s, end_s, parts[0].window.fault))


def _course(courses: Sequence[Course], start_s: float) -> Course:
    begun_s = chain.from_iterable(course.begun_s for course in courses)
    ran_out_s = chain.from_iterable(course.ran_out_s for course in courses)
    return Course(tuple(begun_s), tuple(ran_out_s), start_s)


def _notes(load: LoadSpec, concurrency: int, name: str, parts: Sequence[Driven]) -> tuple[str, ...]:
    """The backlog of an open loop is that of all: its rules hear of every end."""
    rules = rules_of(load, concurrency, name)
    for ended_s in sorted(chain.from_iterable(part.ended_s for part in parts)):
        rules.ended(0, ended_s)
    notes = rules.notes()
    if load.max_in_flight is None or len(parts) == 1:
        return notes
    least = load.max_in_flight // len(parts)
    return (
        *notes,
        f"max_in_flight is shared out: each worker has at least {counted(least, 'place')} of its own",
    )
