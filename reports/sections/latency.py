"""TTFT, ITL and E2E against concurrency, one small figure each, with a selector for the percentile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reports.formats import metric_format
from reports.judgement import Interval
from reports.markup import Markup, tag
from reports.page_input import PagePart
from reports.plot import (
    Series,
    add_series,
    concurrency_axis,
    figure_markup,
    log_ticks,
    new_figure,
    series_values,
)
from reports.sections.blocks import absent, card, note, selector
from reports.sections.throughput import metric_series

if TYPE_CHECKING:
    import plotly.graph_objects as go

KINDS = {
    "ttft": "TTFT: due until the first token",
    "itl": "ITL: time per further token",
    "e2e": "E2E: due until done",
}
PERCENTILES = ("p50", "p95", "p99")
HEIGHT = 300


def latency_section(part: PagePart) -> Markup:
    """Three small figures; the selector above them swaps the percentile in all of them."""
    figures = [block for kind in KINDS if (block := _kind(part, kind))]
    if not figures:
        return card(part, "latency", "Latency", absent("No cell has a known latency."))
    return card(
        part,
        "latency",
        "Latency",
        selector(f"{part.anchor}-percentile", "Percentile", {p: p for p in PERCENTILES}, PERCENTILES[-1]),
        tag("div", figures, class_="multiples"),
        note(
            "Over requests that were done; counted from the moment a request was due, so queueing is inside."
        ),
    )


def _kind(part: PagePart, kind: str) -> Markup | None:
    figures = {name: figure for name in PERCENTILES if (figure := _figure(part, f"{kind}_{name}_s"))}
    if not figures:
        return None
    drawn = figure_markup(figures, f"{KINDS[kind]}, against concurrency, by arm", HEIGHT)
    return tag("div", tag("h4", KINDS[kind]), drawn)


def _figure(part: PagePart, metric: str) -> go.Figure | None:
    scale = metric_format(metric).scale
    series = [_scaled(metric_series(part, arm, metric), scale) for arm in part.arms]
    values = series_values(series)
    if not values:
        return None
    figure = new_figure(part.load_axis, metric_format(metric).unit, HEIGHT)
    concurrency_axis(figure, part.concurrencies)
    for each in series:
        add_series(figure, each)
    ticks, limits = log_ticks(values)
    figure.update_yaxes(type="log", tickvals=ticks, ticktext=[f"{tick:,g}" for tick in ticks], range=limits)
    return figure


def _scaled(series: Series, scale: float) -> Series:
    points = {c: None if point is None else point * scale for c, point in series.points.items()}
    bands = {
        c: Interval(band.low * scale, band.point * scale, band.high * scale) if band else None
        for c, band in series.bands.items()
    }
    return replace(series, points=points, bands=bands)
