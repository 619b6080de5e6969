"""JUnit: broken fails, invalid errs, inconclusive is skipped, and any text is valid XML."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

from reports.judgement import Judgement, Ruling
from reports.junit import write_junit
from tests.reports import fake_runs


def written(judgement: Judgement, path: Path) -> ET.Element:
    write_junit(judgement, path)
    return ET.parse(path).getroot()


def each_ruling() -> Judgement:
    verdicts = fake_runs.judgement().verdicts
    return fake_runs.judgement(
        verdicts=tuple(replace(v, ruling=ruling) for v, ruling in zip(verdicts, Ruling, strict=False))
    )


def test_counts_and_elements(tmp_path: Path) -> None:
    root = written(each_ruling(), tmp_path / "junit.xml")
    suite = root[0]
    counts = {key: suite.attrib[key] for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    children = [[child.tag for child in case] for case in suite.iter("testcase")]
    assert children == [[], ["failure"], ["skipped"], ["error"]]


def test_failure_carries_the_sentence_and_the_interval(tmp_path: Path) -> None:
    failure = next(written(fake_runs.judgement(), tmp_path / "junit.xml").iter("failure"))
    assert failure.attrib["message"].startswith("schedule at c=1: 0.78 of off")
    assert failure.text == "measured ratio 0.78 (0.65\u20130.90)"


def test_says_model_and_exploratory(tmp_path: Path) -> None:
    root = written(fake_runs.judgement(gated=False), tmp_path / "junit.xml")
    said = {p.attrib["name"]: p.attrib["value"] for p in root.iter("property")}
    assert said["engine is a model"] == "yes"
    assert "h200-qwen3-4b-eagle" in said["engine"]
    assert said["gated"].startswith("no")


def test_hostile_text_is_valid_xml(tmp_path: Path) -> None:
    hostile = '\x00\x1b]]><failure/>"&\ud800'
    verdicts = tuple(replace(v, arm=hostile, sentence=hostile) for v in fake_runs.judgement().verdicts)
    root = written(fake_runs.judgement(suite=hostile, verdicts=verdicts), tmp_path / "junit.xml")
    cleaned = '\ufffd\ufffd]]><failure/>"&\ufffd'
    assert root[0].attrib["name"] == cleaned
    assert next(root.iter("failure")).attrib["message"] == cleaned
    assert len(list(root.iter("failure"))) == 7


def test_no_budgets_is_an_empty_suite(tmp_path: Path) -> None:
    assert written(fake_runs.judgement(verdicts=()), tmp_path / "junit.xml")[0].attrib["tests"] == "0"
