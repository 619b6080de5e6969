"""The table of every cell, made from the run's pandas table; its columns sort at a click."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reports.formats import DASH, UNKNOWN, metric_format, percent, ratio_interval, shown
from reports.frame import cells_frame
from reports.judgement import Interval
from reports.markup import Markup, tag
from reports.page_input import PagePart
from reports.sections.blocks import absent, arm_label, card, note, scroller, value

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Column:
    """`show` renders a row's cell; `key` is what the column sorts by, None = unknown (last)."""

    title: str
    unit: str
    show: Callable[[Row], Markup | None]
    key: Callable[[Row], float | str | None]


def cells_section(part: PagePart) -> Markup:
    """Every arm at every concurrency."""
    frame = cells_frame(part.judgement)
    if frame.empty:
        return card(part, "cells", "Every cell", absent("No cell was measured."))
    rows: list[dict[str, object]] = frame.astype(object).where(frame.notna(), None).to_dict("records")  # type: ignore[assignment]
    columns = _columns(part)
    head = tag("tr", [_head(at, column) for at, column in enumerate(columns)])
    body = [_body_row(columns, row) for row in rows]
    inner = tag("table", tag("thead", head), tag("tbody", body), class_="cells sortable")
    explained = note(
        "Point (interval). All repeats pooled, warm-up left out; only requests that ended as done count. "
        "A click on a heading sorts."
    )
    return card(
        part, "cells", "Every cell", tag("div", scroller(inner, "Every cell"), class_="tall"), explained
    )


def _head(at: int, column: Column) -> Markup:
    unit = tag("small", column.unit) if column.unit else None
    return tag("th", tag("button", column.title, type="button", data_column=str(at)), unit, scope="col")


def _body_row(columns: list[Column], row: Row) -> Markup:
    cells = []
    for at, column in enumerate(columns):
        key = column.key(row)
        sort = None if key is None else str(key)
        name, scope = ("th", "row") if at == 0 else ("td", None)
        cells.append(tag(name, column.show(row), scope=scope, data_sort=sort))
    return tag("tr", cells, class_="spoiled" if row.get("invalid") else None)


def _columns(part: PagePart) -> list[Column]:
    latencies = [
        _metric(f"{kind}_{percentile}_s")
        for kind in ("ttft", "itl", "e2e")
        for percentile in ("p50", "p95", "p99")
    ]
    return [
        Column("arm", "", lambda row: arm_label(part, str(row["arm"])), lambda row: str(row["arm"])),
        Column("c", "", lambda row: Markup(f"{row['concurrency']}"), lambda row: _number(row, "concurrency")),
        _metric("tokens_per_s"),
        Column(
            f"÷ {part.judgement.baseline}",
            "tokens/s",
            lambda row: value(
                ratio_interval(_interval(row, "tokens_per_s_ratio")), "the baseline itself, or no ratio known"
            ),
            lambda row: _number(row, "tokens_per_s_ratio"),
        ),
        *latencies,
        _metric("acceptance_length"),
        _metric("verified_per_emitted"),
        _metric("switches_per_1k_steps"),
        Column("requests", "done", lambda row: _requests(row), lambda row: _number(row, "requests_done")),
        _share("refusal_rate"),
        _share("failure_rate"),
        Column("repeats", "", lambda row: Markup(f"{row['repeats']}"), lambda row: _number(row, "repeats")),
        Column(
            "remarks", "", _remarks, lambda row: str(row.get("invalid") or row.get("notes") or "") or None
        ),
    ]


def _metric(metric: str) -> Column:
    named = metric_format(metric)

    def show(row: Row) -> Markup:
        point, interval = _number(row, metric), _interval(row, metric)
        band = f" ({shown(metric, interval.low)}{DASH}{shown(metric, interval.high)})" if interval else None
        return tag("span", value(shown(metric, point)), tag("span", band, class_="band") if band else None)

    return Column(named.label, named.unit, show, lambda row: _number(row, metric))


def _share(metric: str) -> Column:
    return Column(
        metric_format(metric).label,
        "",
        lambda row: value(percent(_number(row, metric))),
        lambda row: _number(row, metric),
    )


def _requests(row: Row) -> Markup:
    """Done, and in words whatever did not end so."""
    done = _number(row, "requests_done")
    others = [
        f"{int(count)} {name.removeprefix('requests_')}"
        for name in row
        if name.startswith("requests_") and name != "requests_done" and (count := _number(row, name))
    ]
    text = UNKNOWN if done is None else f"{int(done):,}"
    return tag("span", value(text), tag("span", ", " + ", ".join(others), class_="bad") if others else None)


def _remarks(row: Row) -> Markup | None:
    """Folded, so that a row stays a row: the summary says how it stands, the sentences open below."""
    invalid, notes = row.get("invalid"), row.get("notes")
    if not invalid and not notes:
        return None
    summary = tag("summary", "invalid" if invalid else "note", class_="bad" if invalid else None)
    sentences = [tag("p", str(text)) for text in (invalid, notes) if text]
    return tag("details", summary, tag("div", sentences, class_="sentence"))


def _number(row: Row, column: str) -> float | None:
    found = row.get(column)
    return float(found) if isinstance(found, int | float) else None


def _interval(row: Row, metric: str) -> Interval | None:
    low, point, high = (_number(row, name) for name in (f"{metric}_low", metric, f"{metric}_high"))
    if low is None or point is None or high is None:
        return None
    return Interval(low, point, high)
