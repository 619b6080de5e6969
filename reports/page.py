"""report.html: one self-contained page of runs, which works offline and runs no script but its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from reports.markup import Markup, tag
from reports.page_input import PagePart, ReportInput
from reports.palette import arm_styles
from reports.plotted import plotted_page
from reports.sections.acceptance import acceptance_section
from reports.sections.budgets import budgets_section
from reports.sections.cells import cells_section
from reports.sections.commands import commands_section
from reports.sections.depth import depth_section
from reports.sections.latency import latency_section
from reports.sections.machine import machine_section, model_strip
from reports.sections.model import model_section
from reports.sections.reproduction import reproduction_banner
from reports.sections.throughput import ratio_section, throughput_section
from reports.sections.verdict import verdict_banner

Section = Callable[[PagePart], Markup]
SECTIONS: dict[
    str, tuple[str, Section]
] = {  # anchor -> (name in the page's menu, what renders it), in page order
    "machine": ("Seal and machine", machine_section),
    "throughput": ("Throughput", throughput_section),
    "ratio": ("Ratio", ratio_section),
    "latency": ("Latency", latency_section),
    "depth": ("K trace", depth_section),
    "acceptance": ("Acceptance", acceptance_section),
    "budgets": ("Budgets", budgets_section),
    "cells": ("Every cell", cells_section),
    "model": ("Model or measured", model_section),
    "commands": ("Reproduce", commands_section),
}


def write_report(inputs: Sequence[ReportInput], path: Path) -> int:
    """Write the page of `inputs` (the first leads, the others stand beside it); returns its size in bytes.

    About 5 MB, nearly all of it plotly's own script. Raises ValueError without inputs, OSError if `path`
    cannot be written.
    """
    page = report_page(inputs).encode("utf-8", errors="replace")
    path.write_bytes(page)
    return len(page)


def report_page(inputs: Sequence[ReportInput]) -> str:
    """The page as text."""
    if not inputs:
        raise ValueError("a report needs at least one run; pass a run folder")
    judgements = [each.judgement for each in inputs]
    styles = arm_styles((cell.arm, cell.arm == j.baseline) for j in judgements for cell in j.cells)
    parts = [PagePart(each, styles, f"run{at}") for at, each in enumerate(inputs)]
    title = f"{judgements[0].suite} · {judgements[0].ruling.value} · depthgate"
    return plotted_page(title, _header(parts[0]), tag("main", [_run(part) for part in parts]))


def _header(lead: PagePart) -> Markup:
    judgement = lead.judgement
    return tag(
        "header",
        tag("p", "depthgate report", class_="brand"),
        tag("h1", judgement.suite),
        tag("p", judgement.question, class_="question"),
    )


def _run(part: PagePart) -> Markup:
    """One run: what it is, its verdict, then every section."""
    judgement = part.judgement
    shown_title = part.run.title or f"{judgement.suite} on {judgement.engine}"
    answers = [reproduction_banner(part), verdict_banner(part)]  # what was asked first, answered first
    banners = [banner for banner in answers if banner is not None]
    menu = [tag("a", name, href=f"#{part.anchor}-{key}") for key, (name, _) in SECTIONS.items()]
    return tag(
        "article",
        tag("h2", shown_title),
        model_strip(part),
        tag("div", banners, class_="banners" if len(banners) > 1 else "banners single"),
        tag("nav", menu, aria_label=f"Parts of {shown_title}"),
        tag(
            "noscript", tag("p", "Charts need JavaScript; every figure is in the tables too.", class_="note")
        ),
        [render(part) for _, render in SECTIONS.values()],
        class_="run",
        id=part.anchor,
    )
