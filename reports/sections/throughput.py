"""Throughput against concurrency, and its ratio to no speculation with the budget line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reports.formats import cell_point, cell_text, ratio_interval
from reports.judgement import Judgement
from reports.markup import Markup
from reports.page_input import PagePart, ReferenceSeries
from reports.palette import BASELINE, LIMIT, PAPER, ArmStyle, translucent
from reports.plot import (
    Series,
    add_series,
    concurrency_axis,
    figure_markup,
    log_ticks,
    new_figure,
    plot_text,
    series_values,
)
from reports.sections.blocks import absent, card, note
from reports.sections.course import course_blocks

if TYPE_CHECKING:
    import plotly.graph_objects as go

METRIC = "tokens_per_s"
_AT_LEAST = re.compile(r"ratio\s*>=\s*([0-9]*\.?[0-9]+)")


def throughput_section(part: PagePart) -> Markup:
    """Tokens a second over concurrency, both logarithmic: equal factors are equal distances."""
    series = [metric_series(part, arm, METRIC) for arm in part.arms]
    if not series_values(series):
        return card(part, "throughput", "Throughput", absent("No cell has a known throughput."))
    figure = new_figure(part.load_axis, "output tokens/s")
    concurrency_axis(figure, part.concurrencies)
    for each in series:
        add_series(figure, each)
    for reference in part.run.references:
        _add_reference(figure, part, reference)
    _log_y(figure, series, part.run.references)
    explained = note(
        f"Line: point estimate; band: {_level(part.judgement)} interval. Both axes are logarithmic, "
        "so a constant factor is a constant distance.",
        " Crosses: invalid cells." if any(each.invalid for each in series) else "",
        " Open markers: measured elsewhere, sources below under “What is a model”."
        if part.run.references
        else "",
    )
    drawn = figure_markup({"": figure}, "Output tokens per second against concurrency, by arm", 380)
    return card(part, "throughput", "Throughput against concurrency", drawn, explained, course_blocks(part))


def ratio_section(part: PagePart) -> Markup:
    """Each arm's throughput over the baseline's at the same concurrency; below 1 speculation costs."""
    baseline = part.judgement.baseline
    series = [ratio_series(part, arm) for arm in part.arms if arm != baseline]
    title = f"Ratio to {baseline}" if baseline else "Ratio to the baseline"
    if not series_values(series):
        return card(part, "ratio", title, absent("No arm has a known ratio to the baseline."))
    figure = new_figure(part.load_axis, f"tokens/s ÷ {plot_text(baseline)}")
    concurrency_axis(figure, part.concurrencies)
    figure.update_yaxes(range=[0, 1.08 * max([*series_values(series), 1.1])])
    figure.add_hline(y=1, line={"color": BASELINE, "width": 1.5})
    for bound in budget_bounds(part.judgement):
        _add_budget(figure, bound)
    for each in series:
        add_series(figure, each)
    drawn = figure_markup({"": figure}, f"Throughput ratio to {baseline} against concurrency, by arm", 380)
    return card(part, "ratio", title, drawn, note(_ratio_note(part.judgement)))


def metric_series(part: PagePart, arm: str, metric: str) -> Series:
    """One arm's figures of a metric over concurrency."""
    cells = part.cells_of(arm)
    return Series(
        name=arm,
        style=part.styles[arm],
        points={c: cell_point(cell, metric) for c, cell in cells.items()},
        bands={c: cell.figures.get(metric) for c, cell in cells.items()},
        hover={c: f"{arm}: {cell_text(cell, metric)}" for c, cell in cells.items()},
        invalid=frozenset(c for c, cell in cells.items() if cell.invalid),
    )


def ratio_series(part: PagePart, arm: str) -> Series:
    """One arm's throughput ratios over concurrency."""
    cells = part.cells_of(arm)
    ratios = {c: cell.ratios.get(METRIC) for c, cell in cells.items()}
    return Series(
        name=arm,
        style=part.styles[arm],
        points={c: ratio.point if ratio else None for c, ratio in ratios.items()},
        bands=ratios,
        hover={c: f"{arm}: {ratio_interval(ratio)}" for c, ratio in ratios.items()},
        invalid=frozenset(c for c, cell in cells.items() if cell.invalid),
    )


def budget_bounds(judgement: Judgement) -> list[float]:
    """The lower bounds of throughput ratios that the verdicts name, ascending."""
    bounds = [v.bound for v in judgement.verdicts if v.metric == METRIC]
    return sorted({float(found[1]) for bound in bounds if (found := _AT_LEAST.search(bound))})


def _add_budget(figure: go.Figure, bound: float) -> None:
    figure.add_hrect(y0=0, y1=bound, fillcolor=translucent(LIMIT, 0.05), line={"width": 0}, layer="below")
    figure.add_hline(
        y=bound,
        line={"color": LIMIT, "width": 1.5, "dash": "dash"},
        annotation={
            "text": f"budget ≥ {bound:g}",
            "font": {"color": LIMIT, "size": 12},
            "bgcolor": translucent(PAPER, 0.85),
            "xanchor": "right",
            "yanchor": "top",
        },
        annotation_position="bottom right",
    )


def _add_reference(figure: go.Figure, part: PagePart, reference: ReferenceSeries) -> None:
    points = sorted(reference.tokens_per_s.items())
    style = part.styles.get(reference.arm, ArmStyle(BASELINE, "circle"))
    name = f"{reference.arm}, measured"
    figure.add_scatter(
        x=[c for c, _ in points],
        y=[tokens for _, tokens in points],
        customdata=[plot_text(f"{name}: {tokens:,.0f}") for _, tokens in points],
        name=plot_text(name),
        mode="markers",
        marker={"symbol": f"{style.symbol}-open", "size": 13, "color": style.colour, "line": {"width": 1.5}},
        hovertemplate="%{customdata}<extra></extra>",
    )


def _log_y(figure: go.Figure, series: list[Series], references: tuple[ReferenceSeries, ...]) -> None:
    values = series_values(series)
    values += [tokens for reference in references for tokens in reference.tokens_per_s.values()]
    ticks, limits = log_ticks(values)
    figure.update_yaxes(type="log", tickvals=ticks, ticktext=[f"{tick:,g}" for tick in ticks], range=limits)


def _ratio_note(judgement: Judgement) -> str:
    bounds = budget_bounds(judgement)
    line = f"Grey line: {judgement.baseline}, the arm that budgets compare with. "
    if not bounds:
        return line + "The suite has no throughput budget."
    return (
        line + "Dashed: the budget; a band wholly below it is broken, one that straddles it is inconclusive. "
        "A cross is an invalid cell."
    )


def _level(judgement: Judgement) -> str:
    suite = judgement.manifest.get("suite")
    level = suite.get("confidence") if isinstance(suite, dict) else None
    return f"{level:.0%}" if isinstance(level, float) and 0 < level < 1 else "confidence"
