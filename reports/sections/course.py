"""How the load went: a table of phases, and the backlog of an open loop over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.course import LoadCourse, PhaseFigures
from reports.formats import UNKNOWN
from reports.markup import Markup, tag
from reports.page_input import PagePart
from reports.plot import figure_markup, new_figure, plot_text
from reports.sections.blocks import arm_label, note, selector, table

if TYPE_CHECKING:
    import plotly.graph_objects as go

HEIGHT = 300
MOST_POINTS = 2000


def course_blocks(part: PagePart) -> list[Markup]:
    """Nothing for a plain load."""
    courses = [course for course in part.run.courses if course.arm in part.styles]
    found: list[Markup] = []
    if any(course.phases for course in courses):
        found += [_phases(part, [course for course in courses if course.phases])]
    if any(course.backlog for course in courses):
        found += _backlog(part, [course for course in courses if course.backlog])
    return found


def _phases(part: PagePart, courses: list[LoadCourse]) -> Markup:
    """A row an arm and concurrency, a column a phase."""
    longest = max(courses, key=lambda course: len(course.phases))
    head = ["arm", "c", *(f"phase {index}" for index in range(len(longest.phases)))]
    rows = [
        [arm_label(part, course.arm), str(course.concurrency), *map(_cell, course.phases)]
        for course in courses
    ]
    caption = "By phase, first repeat: tokens/s, median TTFT, length"
    return tag("div", tag("h4", "Phases of the load"), table(head, rows, caption=caption))


def _cell(phase: PhaseFigures) -> Markup:
    rate = UNKNOWN if phase.tokens_per_s is None else f"{phase.tokens_per_s:,.4g}"
    wait = UNKNOWN if phase.ttft_p50_s is None else f"{phase.ttft_p50_s * 1e3:,.4g} ms"
    return tag("span", f"{rate} · {wait} · {phase.end_s - phase.start_s:.3g} s")


def _backlog(part: PagePart, courses: list[LoadCourse]) -> list[Markup]:
    points = sorted({course.concurrency for course in courses})
    figures = {str(point): _figure(part, [c for c in courses if c.concurrency == point]) for point in points}
    picker = selector(f"{part.anchor}-backlog", "Load", {str(c): f"c={c}" for c in points}, str(points[-1]))
    return [
        tag("h4", "Backlog: requests due and not ended"),
        picker,
        figure_markup(figures, "Backlog over time, by arm", HEIGHT),
        note("It grows for as long as more is offered than is served. First repeat of each arm."),
    ]


def _figure(part: PagePart, courses: list[LoadCourse]) -> go.Figure:
    figure = new_figure("seconds", "requests", HEIGHT)
    for course in courses:
        assert course.backlog is not None
        every = -(-len(course.backlog.time_s) // MOST_POINTS) or 1
        figure.add_scatter(
            x=list(course.backlog.time_s[::every]),
            y=list(course.backlog.count[::every]),
            name=plot_text(course.arm),
            mode="lines",
            line={"shape": "hv", "width": 1.5, "color": part.styles[course.arm].colour},
        )
    return figure
