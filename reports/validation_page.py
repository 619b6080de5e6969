"""The page of `depthgate validate`: predicted against measured, which bars are met, every cell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.formats import DASH
from reports.markup import Child, Markup, tag
from reports.palette import ARMS, BASELINE, SYMBOLS
from reports.plot import figure_markup, log_ticks, new_figure, plot_text
from reports.plotted import plotted_page
from reports.sections.blocks import chip, note, table
from reports.validation import (
    BAND,
    FITTED,
    MEDIAN_BAR,
    P90_BAR,
    SIGN_BAR,
    Errors,
    Predicted,
    errors_of,
    groups_of,
    sign_is_right,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go

_KINDS = {
    "step_s": "step time, ms",
    "trimmed_step_s": "step time, ms",
    "target_s": "step time, ms",
    "draft_s": "step time, ms",
    "tokens_per_s": "tokens/s",
    "ratio": "ratio to no speculation",
}


@dataclass(frozen=True, slots=True)
class TablePart:
    """`facts`: source, split, base_profile, constants (path -> value), at_bound, notes."""

    name: str
    title: str
    facts: Mapping[str, object]
    cells: Sequence[Predicted]


def validation_page(parts: Sequence[TablePart]) -> str:
    """Self-contained HTML; all text of the tables is escaped."""
    cells = [cell for part in parts for cell in part.cells]
    total = errors_of(cells)
    header = [
        tag("p", "depthgate validate", class_="brand"),
        tag("h1", "How well does the embedded engine predict?"),
        tag(
            "p",
            f"{total.cells} held-out figures of {len(parts)} tables. Each is predicted by the engine's own "
            "cost functions from constants fitted to other figures of its table; none predicts itself.",
            class_="question",
        ),
    ]
    main = [
        tag("p", "A model: these are its errors, not measurements of its own.", class_="strip"),
        _banner(total),
        _section("Predicted against measured", _scatters(parts)),
        _section("Table by table", _by_table(parts)),
        _section("Error against concurrency", _by_batch(parts)),
        [_table_card(part) for part in parts],
    ]
    return plotted_page("Prediction error · depthgate", tag("header", header), tag("main", main))


def _section(title: str, *children: Child) -> Markup:
    return tag("section", tag("h3", title), children, class_="card")


_CHIPS = {True: ("kept", "met"), False: ("broken", "missed"), None: ("inconclusive", "not measured")}


def _banner(total: Errors) -> Markup:
    names = (
        ("median |error|", total.median, MEDIAN_BAR, "at most"),
        ("90th percentile", total.p90, P90_BAR, "at most"),
        ("sign of the gain right", total.sign_right, SIGN_BAR, "at least"),
    )
    rows = [
        (name, _share(value), f"{word} {bar:.0%}", chip(*_CHIPS[met]))
        for (name, value, bar, word), met in zip(names, total.met, strict=True)
    ]
    ruling = "kept" if total.holds else "broken"
    floor = (
        f"{total.noise_cells} of these figures state how well they repeat: a perfect model would show a "
        f"median of {_share(total.noise_median)} and a 90th percentile of {_share(total.noise_p90)} on them."
    )
    split = (
        f"Of them {total.split_cells} are held out by a split declared with the table "
        f"(median {_share(total.split_median)}, 90th percentile {_share(total.split_p90)}); the others were "
        "fitted by that split and are predicted each from a fit without it."
    )
    return tag(
        "div",
        table(("over all held-out cells", "found", "bar", ""), rows),
        note(split),
        note(floor) if total.noise_cells else None,
        note(f"Signs: {total.sign_cells} cells whose measured gain lies outside 1 ± {BAND:.0%}."),
        class_=f"banner {ruling}",
    )


def _scatters(parts: Sequence[TablePart]) -> Markup:
    held = [cell for part in parts for cell in part.cells if cell.role != FITTED]
    kinds = [kind for kind in dict.fromkeys(_KINDS.values()) if any(_KINDS[c.quantity] == kind for c in held)]
    figures = [tag("div", tag("h4", kind), _scatter(parts, kind)) for kind in kinds]
    return tag(
        "div",
        tag("div", figures, class_="pairs"),
        note("Line: predicted = measured; dashed: 15 % off either way. Both axes are logarithmic."),
    )


def _scatter(parts: Sequence[TablePart], kind: str) -> Markup:
    figure = new_figure("measured", "predicted", 420)
    values: list[float] = []
    for at, part in enumerate(parts):
        cells = [c for c in part.cells if c.role != FITTED and _KINDS[c.quantity] == kind]
        scale = 1e3 if "ms" in kind else 1.0
        if cells:
            values += [scale * v for c in cells for v in (c.measured, c.predicted)]
            _add_cells(
                figure,
                at,
                part.name,
                cells,
                [scale * c.measured for c in cells],
                [scale * c.predicted for c in cells],
            )
    ticks, span = log_ticks(values)
    ends = [10 ** span[0], 10 ** span[1]]
    for factor, dash in ((1.0, "solid"), (1.15, "dash"), (1 / 1.15, "dash")):
        figure.add_scatter(
            x=ends,
            y=[end * factor for end in ends],
            mode="lines",
            line={"color": BASELINE, "width": 1, "dash": dash},
            hoverinfo="skip",
            showlegend=False,
        )
    axis = {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks], "range": span}
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    figure.update_layout(hovermode="closest")
    return figure_markup({"": figure}, f"Predicted against measured: {kind}", 420)


def _by_batch(parts: Sequence[TablePart]) -> Markup:
    figure = new_figure("concurrent requests", "predicted ÷ measured - 1, %", 420)
    batches = sorted({cell.batch for part in parts for cell in part.cells})
    for at, part in enumerate(parts):
        cells = [cell for cell in part.cells if cell.role != FITTED]
        if cells:
            shown = [100 * cell.error for cell in cells]
            _add_cells(figure, at, part.name, cells, [float(cell.batch) for cell in cells], shown)
    for bound in (-15, 15):
        figure.add_hline(y=bound, line={"color": BASELINE, "width": 1, "dash": "dash"})
    ticks = [batch for batch in (1, 2, 4, 8, 16, 32, 64, 128, 256) if batches[0] <= batch <= batches[-1]]
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=[str(tick) for tick in ticks])
    figure.update_layout(hovermode="closest")
    drawn = figure_markup({"": figure}, "Relative error against concurrency, by table", 420)
    return tag("div", drawn, note("Dashed: 15 % either way."))


def _add_cells(
    figure: go.Figure, at: int, name: str, cells: Sequence[Predicted], x: Sequence[float], y: Sequence[float]
) -> None:
    figure.add_scatter(
        x=list(x),
        y=list(y),
        mode="markers",
        name=plot_text(name),
        marker={
            "color": ARMS[at % len(ARMS)],
            "symbol": SYMBOLS[at % len(SYMBOLS)],
            "size": 7,
            "opacity": 0.75,
        },
        customdata=[plot_text(f"{name}: {_place(cell)}, {cell.error:+.1%}") for cell in cells],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _by_table(parts: Sequence[TablePart]) -> Markup:
    head = (
        "table",
        "held out",
        "median",
        "90th",
        "by the split",
        "median",
        "90th",
        "sign right",
        "noise alone, 90th",
    )
    tables = [(tag("a", part.name, href=f"#{part.name}"), errors_of(part.cells)) for part in parts]
    groups = groups_of([cell for part in parts for cell in part.cells])
    rows = [_errors_row(name, errors) for name, errors in tables]
    rows += [_errors_row(tag("strong", name), errors) for name, errors in groups.items()]
    return tag(
        "div",
        table(head, rows),
        note(
            "Red: above the bar of the total. Noise alone: the 90th percentile that a perfect model would "
            "show, where figures state how well they repeat."
        ),
    )


def _errors_row(name: Child, e: Errors) -> tuple[Child, ...]:
    sign = f"{_share(e.sign_right)} of {e.sign_cells}" if e.sign_cells else DASH
    median = tag("span", _share(e.median), class_=None if e.met[0] else "bad")
    p90 = tag("span", _share(e.p90), class_=None if e.met[1] else "bad")
    split = (str(e.split_cells or DASH), _share(e.split_median), _share(e.split_p90))
    return (name, str(e.cells), median, p90, *split, sign, _share(e.noise_p90))


def _table_card(part: TablePart) -> Markup:
    facts = [
        tag("div", tag("dt", name.replace("_", " ")), tag("dd", _fact(part.facts.get(name))))
        for name in ("source", "split", "base_profile", "at_bound", "notes", "constants")
        if part.facts.get(name)
    ]
    head = ("arm", "figure", "c", "measured", "predicted", "error", "gain", "predicted", "role")
    rows = [
        (
            cell.arm,
            _figure_name(cell),
            str(cell.batch),
            _number(cell.measured),
            _number(cell.predicted),
            tag("span", f"{cell.error:+.1%}", class_="bad" if abs(cell.error) > P90_BAR else None),
            _number(cell.gain),
            tag("span", _number(cell.gain_predicted), class_="bad" if sign_is_right(cell) is False else None),
            cell.role,
        )
        for cell in part.cells
    ]
    cells = tag("details", tag("summary", f"{len(part.cells)} cells"), table(head, rows))
    return tag(
        "section", tag("h3", part.title), tag("dl", facts, class_="facts"), cells, class_="card", id=part.name
    )


def _fact(fact: object) -> Child:
    if isinstance(fact, Mapping):
        return [tag("div", f"{path} = {value:.4g}") for path, value in fact.items()]
    if isinstance(fact, Iterable) and not isinstance(fact, str):
        return [tag("div", str(each)) for each in fact]
    return str(fact)


def _figure_name(cell: Predicted) -> str:
    extras = (("K", cell.depth), ("context", cell.context_tokens), ("tokens", cell.tokens))
    return " ".join(
        [cell.quantity.removesuffix("_s"), *(f"{name} {v}" for name, v in extras if v is not None)]
    )


def _place(cell: Predicted) -> str:
    return f"{cell.arm}, {_figure_name(cell)}, c={cell.batch}"


def _number(value: float | None) -> str:
    return DASH if value is None or not math.isfinite(value) else f"{value:.4g}"


def _share(value: float | None) -> str:
    return DASH if value is None else f"{value:.1%}"
