"""What is a model and what was measured: which figures are computed, and how far they are from real ones."""

from __future__ import annotations

from reports.formats import UNKNOWN, cell_point, number, ratio
from reports.judgement import Judgement
from reports.markup import Markup, tag
from reports.page_input import PagePart, ReferenceSeries
from reports.sections.blocks import arm_label, card, note, table, value


def model_section(part: PagePart) -> Markup:
    """Two lists side by side, notes on the model's error, and the run's throughput beside measured ones."""
    modelled, measured = _statements(part.judgement)
    lists = tag(
        "div",
        tag("div", tag("h4", "Computed by a model"), _list(modelled)),
        tag("div", tag("h4", "Measured or real"), _list(measured)),
        class_="columns",
    )
    notes = (
        tag("ul", [tag("li", sentence) for sentence in part.run.model_notes])
        if part.run.model_notes
        else None
    )
    references = [reference for reference in part.run.references if reference.tokens_per_s]
    sources = dict.fromkeys(reference.source for reference in references)
    beside = [_beside(part, source, [r for r in references if r.source == source]) for source in sources]
    return card(part, "model", "What is a model and what was measured", lists, notes, beside)


def _list(sentences: list[str]) -> Markup:
    return tag("ul", [tag("li", sentence) for sentence in sentences])


def _statements(judgement: Judgement) -> tuple[list[str], list[str]]:
    """(computed, measured) for the kind of engine and clock."""
    if not judgement.is_model:
        return (
            ["Nothing: the engine at the URL is taken as it is."],
            [
                "Every latency and throughput, by the client's clock, stamped when bytes arrived.",
                "Token counts, from the server's usage.",
                "Acceptance, from the server's counters; a counter that it lacks is shown as not known.",
            ],
        )
    profile = judgement.profile or "not known"
    computed = [
        f"Step times: target, drafter and host, from profile {profile} and its penalties.",
        "Acceptance: drawn from the profile's process by traffic class and position, from the run's seed.",
        "The text of the answers: it means nothing.",
    ]
    real = ["The scheduler: batches, KV blocks, waiting queue, verify windows and the governor's decisions."]
    if judgement.clock == "virtual":
        return [*computed, "The clock: durations are summed, no time passed, no HTTP."], real
    return computed, [
        *real,
        "HTTP, streaming and queueing: real requests on this machine, timed by the client's clock.",
        "The engine's lag behind its own model: a cell that fell behind is invalid, not slow.",
    ]


def _beside(part: PagePart, source: str, references: list[ReferenceSeries]) -> Markup:
    """One small table an arm, all from the same source."""
    tables = [tag("div", _table(part, reference)) for reference in references]
    return tag(
        "div",
        tag("h4", "Throughput beside a measured one"),
        note(f"Tokens/s. There: {source}. Different machines: read the shape, not the last digit."),
        tag("div", tables, class_="multiples"),
    )


def _table(part: PagePart, reference: ReferenceSeries) -> Markup:
    cells = part.cells_of(reference.arm)
    arm = arm_label(part, reference.arm) if reference.arm in part.styles else reference.arm
    rows: list[list[Markup | str]] = []
    for concurrency, tokens in sorted(reference.tokens_per_s.items()):
        cell = cells.get(concurrency)
        ours = cell_point(cell, "tokens_per_s") if cell else None
        error = ratio(ours / tokens) if ours is not None and tokens > 0 else UNKNOWN
        shown = value(number(ours), "not measured in this run")
        rows.append([f"c={concurrency}", shown, number(tokens), value(error)])
    return table((arm, "here", "there", "here ÷ there"), rows, class_="beside")
