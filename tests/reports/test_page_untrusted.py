"""Text of servers, datasets and run folders stays text on the page, in its scripts and in its charts."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from reports.page import report_page
from reports.page_input import ReportInput
from tests.reports import fake_runs
from tests.reports.page_reading import Page

HOSTILE = (
    "</script><script>alert(1)</script>\u2028<img src=http://evil.example/x onerror=alert(2)>"
    "\"'&${x}$\x1b[31m\u202e"
)


def read(*inputs: ReportInput) -> Page:
    return Page(report_page(inputs))


def hostile_input() -> ReportInput:
    cells = tuple(
        replace(
            cell,
            arm=HOSTILE if cell.arm == "schedule" else cell.arm,
            notes=(HOSTILE,),
            invalid=(HOSTILE,) if cell.concurrency == 2 else (),
            acceptance_by_class={HOSTILE: 0.5},
            requests={"done": 3, HOSTILE: 1},
        )
        for cell in fake_runs.judgement().cells
    )
    verdicts = tuple(
        replace(v, arm=HOSTILE, sentence=HOSTILE, bound=HOSTILE) for v in fake_runs.judgement().verdicts
    )
    fields = ("run", "suite", "question", "seal", "headline", "engine", "profile", "clock")
    words = dict.fromkeys(fields, HOSTILE)
    judged = fake_runs.judgement(
        **words,
        cells=cells,
        verdicts=verdicts,
        partial=(HOSTILE,),
        manifest={HOSTILE: HOSTILE, "machine": {"cpu": HOSTILE}, "command": [HOSTILE]},
    )
    summary = fake_runs.reproduction(
        name=HOSTILE, report=HOSTILE, title=HOSTILE, published=HOSTILE, evidence=(HOSTILE,), ratio_of=HOSTILE
    )
    traces = tuple(
        replace(t, arm=HOSTILE, reason=(HOSTILE,) * len(t.reason)) for t in [fake_runs.trace("off", 4)]
    )
    return fake_runs.report_input(
        judgement=judged,
        reproduction=summary,
        title=HOSTILE,
        traces=traces,
        commands=(HOSTILE,),
        model_notes=(HOSTILE,),
        references=(replace(fake_runs.report_input().references[0], arm=HOSTILE, source=HOSTILE),),
    )


def test_hostile_text_stays_text() -> None:
    page = read(hostile_input())
    assert page.open == []
    tame = read(fake_runs.report_input())
    assert {name for name, _ in page.elements} <= {name for name, _ in tame.elements} | {"li"}
    assert len([a for a, _ in page.scripts if "type" not in a]) == 2
    assert not [a for _, a in page.elements if any(key.startswith("on") for key in a)]
    assert "</script><script>alert(1)</script>" in page.text
    assert not re.search("[\x1b\u202e]", page.source.partition('id="dark-forms"')[0])


def test_hostile_text_is_text_for_plotly_too() -> None:
    """Plotly takes its strings for HTML of a kind, so names are escaped once more inside the JSON."""
    figures = read(hostile_input()).figures
    strings = [text for figure in figures for text in strings_of(figure)]
    named = [text for text in strings if "alert(1)" in text]
    assert named
    assert not [text for text in named if "<" in text]


def strings_of(data: object) -> list[str]:
    if isinstance(data, str):
        return [data]
    if isinstance(data, dict):
        return [text for value in data.values() for text in strings_of(value)]
    if isinstance(data, list):
        return [text for value in data for text in strings_of(value)]
    return []


def test_data_blocks_hold_no_character_that_ends_a_script() -> None:
    for attributes, source in read(hostile_input()).scripts:
        if attributes.get("type") == "application/json":
            assert not re.search("[<>&\u2028\u2029]", source)
            json.loads(source)
