"""The page holds every section, shows the unknown as a dash, fetches nothing, and trusts no text."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from reports.judgement import Interval, Ruling
from reports.page import SECTIONS, report_page, write_report
from reports.page_input import PagePart, ReportInput
from reports.reproduction import ReproductionVerdict
from reports.sections.reproduction import reproduction_banner
from tests.reports import fake_runs
from tests.reports.page_reading import Page

UNKNOWN_WORDS = re.compile(r"\b(None|NaN|nan|null|undefined|inf)\b")


def read(*inputs: ReportInput) -> Page:
    return Page(report_page(inputs))


@cache
def whole() -> Page:
    return read(fake_runs.report_input())


def test_every_section_is_there_once() -> None:
    ids = whole().ids()
    assert len(ids) == len(set(ids))
    assert {f"run0-{key}" for key in SECTIONS} | {"run0-verdict", "run0-reproduction"} <= set(ids)


def test_markup_is_closed_in_order() -> None:
    assert whole().open == []


def test_first_words_are_the_verdict() -> None:
    places = [
        whole().text.index(words) for words in ("Reproduced", "Budget broken", "7 broken", "Suite sha256")
    ]
    assert places == sorted(places)


def test_no_figure_is_shown_as_a_word_of_a_programming_language() -> None:
    assert not UNKNOWN_WORDS.search(whole().text)


def test_nothing_is_fetched() -> None:
    for name, attributes in whole().elements:
        for attribute in ("src", "href", "srcset", "data", "action"):
            assert not attributes.get(attribute, "#").startswith(("http", "//")), (name, attributes)
        assert name not in {"link", "img", "iframe", "object", "base"}


def test_policy_allows_only_the_scripts_that_are_there() -> None:
    policy = next(a["content"] for name, a in whole().elements if name == "meta" and "http-equiv" in a)
    allowed = set(re.findall(r"'sha256-([^']+)'", policy))
    there = {
        base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        for attributes, source in whole().scripts
        if "type" not in attributes
    }
    assert allowed == there
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert not re.search(r"script-src[^;]*unsafe", policy)


def test_no_element_carries_a_script_of_its_own() -> None:
    assert not [a for _, a in whole().elements if any(key.startswith("on") for key in a)]


def test_budget_line_and_baseline_are_in_the_ratio_figure() -> None:
    lines = [
        shape["y0"]
        for figure in whole().figures
        for shape in figure["layout"].get("shapes", [])
        if shape["type"] == "line"
    ]
    assert lines == [1, fake_runs.BOUND]


def test_axis_is_logarithmic_with_ticks_at_the_measured_concurrencies() -> None:
    axis = whole().figures[0]["layout"]["xaxis"]
    assert axis["type"] == "log"
    assert axis["tickvals"] == list(fake_runs.CONCURRENCIES)


def test_an_arm_has_one_colour_and_the_baseline_is_grey() -> None:
    colours: dict[str, set[str]] = {}
    for figure in whole().figures[:-3]:
        for trace in figure["data"]:
            if trace.get("mode") == "lines+markers":
                colours.setdefault(trace["name"], set()).add(trace["line"]["color"])
    assert colours["off"] == {"#69727f"}
    assert all(len(found) == 1 for found in colours.values())
    assert len({*map(tuple, colours.values())}) == 3


def test_throughput_points_are_those_of_the_cells() -> None:
    drawn = {t["name"]: t["y"] for t in whole().figures[0]["data"] if t.get("mode") == "lines+markers"}
    assert drawn == {arm: list(row) for arm, row in fake_runs.TOKENS_PER_S.items()}


def test_latency_is_shown_in_ms() -> None:
    # off at c=1: 296 tokens/s, 1 / 296 s a token
    assert "3.38" in whole().text
    itl = [f for f in whole().figures if f["layout"]["yaxis"]["title"]["text"] == "ms"]
    assert itl[3]["data"][1]["y"][0] == pytest.approx(1e3 / 296)


def test_model_strip_names_the_profile_and_a_real_engine_has_none() -> None:
    assert "Embedded engine: a model." in whole().text
    assert "h200-qwen3-4b-eagle" in whole().text
    real = fake_runs.judgement(is_model=False, engine="vLLM 0.26.0", profile=None, manifest={})
    text = read(ReportInput(real)).text
    assert "a model." not in text
    assert "Nothing: the engine at the URL is taken as it is." in text


def test_run_beside_has_its_own_strip_and_anchors() -> None:
    beside = fake_runs.report_input(
        title="beside", judgement=fake_runs.judgement(profile="gb10-qwen3.5-122b-mtp", clock="virtual")
    )
    page = read(fake_runs.report_input(), beside)
    assert {"run0-verdict", "run1-verdict", "run1-model"} <= set(page.ids())
    assert len(page.ids()) == len(set(page.ids()))
    assert "No real time passed either" in page.text
    assert "gb10-qwen3.5-122b-mtp" in page.text


def bare(**changes: object) -> ReportInput:
    return ReportInput(fake_runs.judgement(**changes))


UNKNOWN_CELL = replace(
    fake_runs.judgement().cells[0],
    figures={"tokens_per_s": None, "ttft_p99_s": None},
    ratios={},
    requests={},
    acceptance_by_class={"chat": None},
    acceptance_by_position=(None, None),
    switches_per_1k_steps=None,
)


@pytest.mark.parametrize(
    "shown",
    [
        bare(cells=(), verdicts=(), manifest={}, headline="", question=""),
        bare(cells=(UNKNOWN_CELL,), verdicts=()),
        bare(cells=(replace(UNKNOWN_CELL, points={"tokens_per_s": 296.0}),), verdicts=()),
        bare(cells=fake_runs.judgement().cells[:7], verdicts=()),
        bare(cells=tuple(replace(c, invalid=("client lag",)) for c in fake_runs.judgement().cells)),
        bare(partial=("cells.jsonl ends in mid-line",), gated=False, ruling=Ruling.INCONCLUSIVE),
        bare(baseline="", profile=None, manifest={"suite": None, "machine": None, "command": None}),
        bare(cells=fake_runs.judgement().cells[3:4]),
    ],
    ids=["no-cells", "unknown", "point-only", "one-arm", "all-invalid", "partial", "no-baseline", "one-cell"],
)
def test_poor_runs_make_whole_pages(shown: ReportInput) -> None:
    page = read(shown)
    assert page.open == []
    assert {f"run0-{key}" for key in SECTIONS} <= set(page.ids())
    assert not UNKNOWN_WORDS.search(page.text)


def test_figure_that_is_not_finite_is_unknown() -> None:
    nan = Interval(float("nan"), float("nan"), float("nan"))
    cell = replace(UNKNOWN_CELL, figures={"tokens_per_s": nan}, ratios={"tokens_per_s": nan})
    assert not UNKNOWN_WORDS.search(read(bare(cells=(cell,), verdicts=())).text)


def test_point_without_interval_is_drawn_without_a_band() -> None:
    cell = replace(UNKNOWN_CELL, points={"tokens_per_s": 296.0})
    traces = read(bare(cells=(cell,), verdicts=())).figures[0]["data"]
    assert [trace["y"] for trace in traces] == [[296.0]]


def test_exploratory_run_that_kept_its_budgets_is_not_green() -> None:
    page = read(bare(ruling=Ruling.KEPT, gated=False))
    banner = next(a for _, a in page.elements if a.get("id") == "run0-verdict")
    assert banner["class"] == "banner exploratory"
    assert "Never counts as passed." in page.text


def test_partial_run_says_what_is_missing() -> None:
    assert "machine.jsonl is not there" in read(bare(partial=("machine.jsonl is not there",))).text


def test_resumed_run_says_when() -> None:
    sessions = [{"started_utc": "2026-11-30T10:15:00Z"}, {"started_utc": "2026-11-30T11:00:00Z"}]
    manifest = {**fake_runs.manifest(), "sessions": sessions}
    assert "2, resumed at 2026-11-30T11:00:00Z" in read(bare(manifest=manifest)).text
    assert "resumed at" not in read(bare(manifest={**manifest, "sessions": sessions[:1]})).text


def test_acceptance_names_the_arms_that_never_drafted() -> None:
    assert "Nothing drafted, or not counted: off." in " ".join(whole().text.split())
    assert "2.45" in whole().text
    assert "60 %" in whole().text


def test_measured_series_stand_beside_the_runs_own() -> None:
    reference = replace(fake_runs.report_input().references[0], tokens_per_s={1: 115.0, 32: 3397.0})
    page = read(fake_runs.report_input(references=(reference,)))
    text = " ".join(page.text.split())
    assert "c=1 230 115 2.00" in text  # schedule at c=1: 230 here, 115 there
    assert "c=32 \u2013 3,397 \u2013" in text
    assert [t["y"] for t in page.figures[0]["data"] if t.get("name") == "schedule, measured"] == [
        [115.0, 3397.0]
    ]


def test_run_without_step_records_says_so() -> None:
    assert "no step records" in read(bare()).text


@pytest.mark.parametrize(
    ("verdict", "word"),
    [
        (ReproductionVerdict.REPRODUCED, "Reproduced"),
        (ReproductionVerdict.NOT_REPRODUCED, "Not reproduced"),
        (ReproductionVerdict.INCONCLUSIVE, "Inconclusive"),
        (ReproductionVerdict.INVALID, "Invalid"),
    ],
)
def test_reproduction_banner_says_its_verdict(verdict: ReproductionVerdict, word: str) -> None:
    summary = fake_runs.reproduction(verdict=verdict, ratio=None)
    banner = reproduction_banner(PagePart(fake_runs.report_input(reproduction=summary), {}, "run0"))
    assert banner is not None
    assert f'class="banner reproduction {verdict.value}"' in banner
    assert f"<strong>{word}</strong>" in banner


def test_invalid_cell_is_a_cross_that_no_line_joins() -> None:
    cells = tuple(
        replace(c, invalid=("lag",)) if c.arm == "off" and c.concurrency == 4 else c
        for c in fake_runs.judgement().cells
    )
    traces = read(bare(cells=cells)).figures[0]["data"]
    line = next(t for t in traces if t.get("name") == "off")
    crosses = next(t for t in traces if t.get("name") == "off, invalid")
    assert 4 not in line["x"]
    assert crosses["x"] == [4]


def test_write_report_says_its_size(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    assert write_report([fake_runs.report_input()], path) == path.stat().st_size
    assert path.read_text("utf-8").startswith("<!doctype html>")


def test_report_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        report_page([])
