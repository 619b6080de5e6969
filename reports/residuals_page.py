"""The page of `depthgate fit`: constants with intervals, and residuals against what might matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from governors.profile import Profile
from reports.formats import DASH
from reports.markup import Child, Markup, tag
from reports.palette import ARMS, BASELINE
from reports.plot import figure_markup, new_figure, plot_text
from reports.plotted import plotted_page
from reports.sections.blocks import note, table
from reports.step_fit import Estimate, StepFit

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST_POINTS = 3000


def residuals_page(found: StepFit, profile: Profile) -> str:
    """Self-contained HTML; texts of the binding are escaped."""
    binding = profile.binding
    header = [
        tag("p", "depthgate fit", class_="brand"),
        tag("h1", f"{binding.target_model} on {binding.hardware}"),
        tag("p", f"{binding.drafter_class}, {binding.engine_version}. {profile.source}", class_="question"),
    ]
    strip = tag("p", "Fitted to steps of the embedded engine: a model.", class_="strip")
    main = [
        strip if profile.is_model else None,
        _card("Constants", _constants(found.estimates), note(_held_out(found))),
        _card("Predicted against measured", _predicted(found)),
        _card("Residuals", tag("div", _residuals(found), class_="pairs"), note(_RESIDUALS)),
        _card("Step times of the profile, ms", _grid(profile)),
    ]
    return plotted_page(f"{binding.target_model} · depthgate fit", tag("header", header), tag("main", main))


_RESIDUALS = (
    "Measured ÷ predicted - 1. A trend says that a cost is missing; two bands, that two kinds of steps share "
    "one constant; a slow wave over time, that the machine's speed drifted."
)


def _card(title: str, *children: Child) -> Markup:
    return tag("section", tag("h3", title), children, class_="card")


def _constants(estimates: Sequence[Estimate]) -> Markup:
    rows = [
        (each.name, _ms(each.seconds), f"{_ms(each.low)} to {_ms(each.high)}" if each.why == "" else each.why)
        for each in estimates
    ]
    return table(("constant", "ms", "95 % interval, ms, or why it is unknown"), rows)


def _ms(seconds: float | None) -> str:
    return DASH if seconds is None else f"{seconds * 1e3:.4g}"


def _held_out(found: StepFit) -> str:
    held = int(found.held_out.sum())
    return (
        f"{held} of {len(found.records)} steps held out: |error| {found.held_out_error(0.5):.1%} in the "
        f"median, {found.held_out_error(0.9):.1%} at the 90th percentile. Intervals: bootstrap over "
        "blocks of 25 steps; what a whole run shares (a slow host) is not in them: runs fitted apart may "
        "differ by more."
    )


def _some(found: StepFit) -> list[int]:
    """At most MOST_POINTS steps, evenly spaced: held-out ones among them."""
    count = len(found.records)
    return [int(at) for at in np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).astype(int))]


def _predicted(found: StepFit) -> Markup:
    figure = new_figure("measured, ms", "predicted, ms", 420)
    places = _some(found)
    _points(figure, found, places, _ms_of(found.measured_s, places), _ms_of(found.predicted_s, places))
    top = 1e3 * float(found.measured_s[places].max())
    figure.add_scatter(
        x=[0, top],
        y=[0, top],
        mode="lines",
        line={"color": BASELINE, "width": 1},
        hoverinfo="skip",
        showlegend=False,
    )
    return figure_markup({"": figure}, "Predicted against measured step time", 420)


def _ms_of(seconds: NDArray[np.float64], places: Sequence[int]) -> list[float]:
    return [1e3 * float(seconds[place]) for place in places]


def _residuals(found: StepFit) -> list[Markup]:
    places = _some(found)
    left = [100 * float(found.measured_s[at] / found.predicted_s[at] - 1) for at in places]
    records = [found.records[at] for at in places]
    axes = {
        "step, in order": [float(at) for at in places],
        "decoding requests": [float(step.batch) for step in records],
        "verified tokens": [float(step.batch + step.verified) for step in records],
        "drafts proposed a request": [float(step.depth_executed) for step in records],
    }
    drawn = []
    for title, x in axes.items():
        figure = new_figure(title, "residual, %", 320)
        _points(figure, found, places, x, left)
        figure.add_hline(y=0, line={"color": BASELINE, "width": 1})
        drawn.append(tag("div", figure_markup({"": figure}, f"Residuals against {title}", 320)))
    return drawn


def _points(
    figure: go.Figure, found: StepFit, places: Sequence[int], x: Sequence[float], y: Sequence[float]
) -> None:
    """Fitted and held-out steps in two colours."""
    for held, name in ((False, "fitted"), (True, "held out")):
        chosen = [at for at, place in enumerate(places) if bool(found.held_out[place]) == held]
        figure.add_scatter(
            x=[float(x[at]) for at in chosen],
            y=[float(y[at]) for at in chosen],
            mode="markers",
            name=plot_text(name),
            marker={"color": ARMS[int(held)], "size": 4, "opacity": 0.5},
            hoverinfo="skip",
        )
    figure.update_layout(hovermode="closest")


def _grid(profile: Profile) -> Markup:
    head = ("requests", *(f"K={depth}" for depth in profile.depths))
    rows = [
        (str(batch), *(f"{seconds * 1e3:.2f}" for seconds in row))
        for batch, row in zip(profile.batches, profile.step_s, strict=True)
    ]
    return table(head, rows)
