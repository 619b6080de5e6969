"""The K trace of each arm: executed depth over time, coloured by the governor's reason, above the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from reports.markup import Markup, tag
from reports.page_input import DepthTrace, PagePart
from reports.palette import BASELINE, GRID, INK, REASONS, translucent
from reports.plot import figure_markup, new_figure, plot_text
from reports.sections.blocks import absent, arm_label, card, note, selector

if TYPE_CHECKING:
    import plotly.graph_objects as go

HEIGHT = 300
MAX_POINTS = 1500


@dataclass(frozen=True, slots=True)
class Limits:
    """Axis ends that the arms of one concurrency share, so that their traces can be compared by eye."""

    time_s: float
    depth: int
    batch: int


def depth_section(part: PagePart) -> Markup:
    """One figure an arm, a selector for the concurrency; says so when there are no step records."""
    traces = _first_repeats(part.run.traces)
    if not traces:
        why = "This run has no step records: the engine does not write them (a plain URL), or none was kept."
        return card(part, "depth", "K trace", absent(why))
    concurrencies = sorted({concurrency for _, concurrency in traces})
    chosen = max(concurrencies, key=lambda c: (_liveliness(traces, c), c))
    blocks = [_block(part, arm, traces) for arm in dict.fromkeys(arm for arm, _ in traces)]
    explained = note(
        "The depth that the drafter executed; a dot where depth, batch or reason changed. "
        "Many changes a second are oscillation: see K switches in the table of cells. Arms share their axes."
    )
    names = {str(c): f"c={c}" for c in concurrencies}
    picker = selector(f"{part.anchor}-trace", "Concurrency", names, str(chosen))
    return card(part, "depth", "K trace", picker, tag("div", blocks, class_="pairs"), explained)


Traces = dict[tuple[str, int], DepthTrace]


def _first_repeats(traces: Sequence[DepthTrace]) -> Traces:
    """(arm, concurrency) -> its first repeat that has steps."""
    found: Traces = {}
    for trace in sorted(traces, key=lambda trace: trace.repeat):
        if trace.time_s:
            found.setdefault((trace.arm, trace.concurrency), trace)
    order = list(dict.fromkeys(trace.arm for trace in traces))
    return dict(sorted(found.items(), key=lambda item: (order.index(item[0][0]), item[0][1])))


def _liveliness(traces: Traces, concurrency: int) -> int:
    """Most changes of the executed depth in any arm."""
    return max(
        sum(a != b for a, b in pairwise(trace.depth_executed))
        for (_, c), trace in traces.items()
        if c == concurrency
    )


def _block(part: PagePart, arm: str, traces: Traces) -> Markup:
    mine = {c: trace for (name, c), trace in traces.items() if name == arm}
    figures = {str(c): _figure(trace, _limits(traces, c)) for c, trace in mine.items()}
    name = arm_label(part, arm) if arm in part.styles else arm
    drawn = figure_markup(figures, f"Executed depth and batch over time, arm {arm}", HEIGHT)
    return tag("div", tag("h4", name), drawn, _unapplied(list(mine.values())))


def _limits(traces: Traces, concurrency: int) -> Limits:
    shown = [trace for (_, c), trace in traces.items() if c == concurrency]
    return Limits(
        max(trace.time_s[-1] for trace in shown),
        max(1, *(depth for trace in shown for depth in trace.depth_executed)),
        max(1, *(batch for trace in shown for batch in trace.batch)),
    )


def _unapplied(traces: Sequence[DepthTrace]) -> Markup | None:
    """Says in how many decoding steps the executed depth was not the chosen one."""
    steps = [
        (chosen, executed)
        for trace in traces
        for chosen, executed, batch in zip(trace.depth_chosen, trace.depth_executed, trace.batch, strict=True)
        if batch
    ]
    differ = sum(chosen != executed for chosen, executed in steps)
    if not differ:
        return None
    return note(f"In {differ:,} of {len(steps):,} decoding steps the executed depth was not the chosen one.")


def change_points(trace: DepthTrace, most: int = MAX_POINTS) -> list[int]:
    """Indices where executed depth, batch or reason changed, and the last step; about `most` at most."""
    states = list(zip(trace.depth_executed, trace.batch, trace.reason, strict=True))
    changed = [at for at, state in enumerate(states) if at == 0 or state != states[at - 1]]
    kept = changed[:: -(-len(changed) // most) or 1]
    return [*kept, len(states) - 1] if kept and kept[-1] != len(states) - 1 else kept


def _figure(trace: DepthTrace, limits: Limits) -> go.Figure:
    figure = new_figure("seconds", "depth K", HEIGHT)
    lower = figure.layout.yaxis.to_plotly_json() | {
        "domain": [0, 0.34],
        "title": {"text": "batch"},
        "nticks": 3,
    }
    figure.update_layout(
        hovermode="closest",
        xaxis={"anchor": "y2", "range": [-0.02 * limits.time_s, 1.02 * limits.time_s]},
        yaxis={"domain": [0.46, 1], "range": [-0.4, limits.depth + 0.4], "tickvals": _integers(limits.depth)},
        yaxis2=lower | {"range": [0, 1.1 * limits.batch], "nticks": 3},
    )
    thin = {"shape": "hv", "width": 1, "color": translucent(BASELINE, 0.7)}
    points = change_points(trace)
    time_s = [trace.time_s[at] for at in points]
    depth = [trace.depth_executed[at] for at in points]
    figure.add_scatter(x=time_s, y=depth, mode="lines", line=thin, showlegend=False, hoverinfo="skip")
    for reason in dict.fromkeys(trace.reason):
        _add_reason(figure, trace, points, reason)
    figure.add_scatter(
        x=time_s,
        y=[trace.batch[at] for at in points],
        yaxis="y2",
        mode="lines",
        fill="tozeroy",
        fillcolor=GRID,
        line={"shape": "hv", "width": 1, "color": BASELINE},
        showlegend=False,
        hovertemplate="%{x:.2f} s: batch %{y}<extra></extra>",
    )
    return figure


def _integers(top: int) -> list[int]:
    return list(range(0, top + 1, max(1, top // 4)))


def _add_reason(figure: go.Figure, trace: DepthTrace, points: Sequence[int], reason: str) -> None:
    mine = [at for at in points if trace.reason[at] == reason]
    figure.add_scatter(
        x=[trace.time_s[at] for at in mine],
        y=[trace.depth_executed[at] for at in mine],
        customdata=[plot_text(reason)] * len(mine),
        mode="markers",
        name=plot_text(reason),
        showlegend=True,
        marker={"size": 6, "color": REASONS.get(reason, INK)},
        hovertemplate="%{x:.2f} s: K=%{y}, %{customdata}<extra></extra>",
    )
