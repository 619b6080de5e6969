"""A plotly figure as a part of the page: JSON in a data block, drawn by the page's script."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.judgement import Interval
from reports.markup import Markup, script_json, showable, tag
from reports.palette import BAND, GRID, INK, PAPER, ArmStyle, translucent

if TYPE_CHECKING:
    import plotly.graph_objects as go

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True, slots=True)
class Series:
    """One line with its interval band, over concurrency: a point of None is a gap, a band may be unknown.

    Points of `invalid` concurrencies are drawn as crosses and never joined.
    """

    name: str
    style: ArmStyle
    points: Mapping[int, float | None]
    bands: Mapping[int, Interval | None]
    hover: Mapping[int, str]
    invalid: frozenset[int] = frozenset()


def plot_text(text: str) -> str:
    """Text of a run for plotly, which takes strings for HTML and what is between dollars for a formula."""
    return html.escape(showable(text), quote=False).replace("$", "&#36;")


def new_figure(x_title: str, y_title: str, height: int = 380) -> go.Figure:
    """An empty figure in the page's look: transparent, a thin grid, the legend above."""
    import plotly.graph_objects as go

    axis = {
        "gridcolor": GRID,
        "linecolor": GRID,
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": GRID,
        "automargin": True,
    }
    layout = {
        "template": None,
        "height": height,
        "font": {"family": FONT, "size": 13, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 8, "r": 12, "t": 8, "b": 8},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": "rgba(0,0,0,0)"},
        "hovermode": "x unified",
        "dragmode": False,
        "hoverlabel": {"bgcolor": PAPER, "bordercolor": GRID, "font": {"color": INK}},
        "xaxis": {**axis, "title": {"text": x_title, "standoff": 8}},
        "yaxis": {**axis, "title": {"text": y_title, "standoff": 8}},
    }
    return go.Figure(layout=layout)


def concurrency_axis(figure: go.Figure, concurrencies: Sequence[int]) -> None:
    """A log2 axis with a tick at each measured concurrency."""
    ticks = sorted(set(concurrencies))
    if not ticks:
        return
    low, high = math.log10(ticks[0]), math.log10(ticks[-1])
    pad = max((high - low) * 0.04, 0.05)
    figure.update_xaxes(
        type="log", tickvals=ticks, ticktext=[str(c) for c in ticks], range=[low - pad, high + pad]
    )


def log_ticks(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Ticks at 1, 2, 5 of each decade and the log10 range that holds all positive values."""
    positive = [value for value in values if value > 0]
    if not positive:
        return [], [0.0, 1.0]
    low, high = math.log10(min(positive)), math.log10(max(positive))
    pad = max((high - low) * 0.06, 0.08)
    decades = range(math.floor(low - pad), math.ceil(high + pad) + 1)
    ticks = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    return [t for t in ticks if low - pad <= math.log10(t) <= high + pad], [low - pad, high + pad]


def add_series(figure: go.Figure, series: Series) -> None:
    """The band below, the line above it, crosses for invalid points."""
    for run in _known_runs({c: band for c, band in series.bands.items() if c not in series.invalid}):
        _add_band(figure, series, run)
    good = {c: value for c, value in series.points.items() if c not in series.invalid}
    if good:
        _add_line(figure, series, good)
    bad = {c: value for c, value in series.points.items() if c in series.invalid and value is not None}
    if bad:
        _add_crosses(figure, series, bad, showlegend=not good)


def _known_runs(points: Mapping[int, Interval | None]) -> list[list[tuple[int, Interval]]]:
    """Neighbouring known points; a gap starts a new run."""
    runs: list[list[tuple[int, Interval]]] = [[]]
    for concurrency, interval in points.items():
        if interval is None:
            runs.append([])
        else:
            runs[-1].append((concurrency, interval))
    return [run for run in runs if run]


def _add_band(figure: go.Figure, series: Series, run: Sequence[tuple[int, Interval]]) -> None:
    """A closed outline; a run of one point has no width, so it gets a bar instead."""
    there = [c for c, _ in run]
    band: dict[str, Any] = {
        "x": there + there[::-1],
        "y": [i.low for _, i in run] + [i.high for _, i in run][::-1],
        "mode": "lines",
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": plot_text(series.name),
    }
    if len(run) > 1:
        band |= {"fill": "toself", "fillcolor": translucent(series.style.colour, BAND), "line": {"width": 0}}
    else:
        band |= {"line": {"width": 3, "color": translucent(series.style.colour, BAND)}}
    figure.add_scatter(**band)


def _add_line(figure: go.Figure, series: Series, points: Mapping[int, float | None]) -> None:
    figure.add_scatter(
        x=list(points),
        y=list(points.values()),
        customdata=[plot_text(series.hover.get(c, "")) for c in points],
        name=plot_text(series.name),
        legendgroup=plot_text(series.name),
        mode="lines+markers",
        line={"color": series.style.colour, "width": 2},
        marker={"symbol": series.style.symbol, "size": 8, "color": series.style.colour},
        hovertemplate="%{customdata}<extra></extra>",
    )


def _add_crosses(figure: go.Figure, series: Series, points: Mapping[int, float], *, showlegend: bool) -> None:
    figure.add_scatter(
        x=list(points),
        y=list(points.values()),
        customdata=[plot_text(series.hover.get(c, "")) for c in points],
        name=plot_text(f"{series.name}, invalid"),
        legendgroup=plot_text(series.name),
        showlegend=showlegend,
        mode="markers",
        marker={"symbol": "x-thin-open", "size": 11, "color": series.style.colour, "line": {"width": 2}},
        hovertemplate="%{customdata}<extra></extra>",
    )


def series_values(series: Iterable[Series]) -> list[float]:
    """Every known point and the ends of every band that is drawn, for an axis to hold."""
    points = [value for each in series for value in each.points.values() if value is not None]
    bands = [band for each in series for c, band in each.bands.items() if band and c not in each.invalid]
    return [*points, *(end for band in bands for end in (band.low, band.high))]


def figure_data(figure: go.Figure) -> object:
    """The figure as plain JSON data: no NaN, no typed arrays."""
    return json.loads(figure.to_json(validate=True))


def figure_markup(variants: Mapping[str, go.Figure], label: str, height: int) -> Markup:
    """The place where a figure is drawn and its data; with several variants the page's selector picks one.

    `label` says to a reader without sight what is drawn; the tables hold the same figures.
    """
    data = script_json({name: figure_data(figure) for name, figure in variants.items()})
    place = tag("div", class_="plot", role="img", aria_label=label, style=f"min-height:{height}px")
    block = Markup(f'<script type="application/json" class="plot-data">{data}</script>')
    return tag("div", place, block, class_="figure")
