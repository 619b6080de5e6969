"""Budget verdicts as JUnit XML, as CI systems show it: one test case a budget, arm and concurrency."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from reports.formats import ratio_interval
from reports.judgement import BudgetVerdict, Judgement, Ruling
from reports.markup import showable

# XML 1.0 allows no control characters and no lone surrogates, escaped or not: `showable` replaces them.
ELEMENTS = {Ruling.BROKEN: "failure", Ruling.INVALID: "error", Ruling.INCONCLUSIVE: "skipped"}


def write_junit(judgement: Judgement, path: Path) -> None:
    """Broken is a failure, invalid an error, inconclusive skipped with its sentence; kept passes."""
    tree = ET.ElementTree(junit_element(judgement))
    ET.indent(tree)
    tree.write(path, encoding="utf-8", xml_declaration=True)


def junit_element(judgement: Judgement) -> ET.Element:
    """`<testsuites>` with one suite for the run; an exploratory run says so in a property."""
    verdicts = judgement.verdicts
    counts = {
        "tests": str(len(verdicts)),
        "failures": _count(verdicts, Ruling.BROKEN),
        "errors": _count(verdicts, Ruling.INVALID),
        "skipped": _count(verdicts, Ruling.INCONCLUSIVE),
    }
    root = ET.Element("testsuites", counts)
    suite = ET.SubElement(root, "testsuite", {"name": showable(judgement.suite), **counts})
    properties = ET.SubElement(suite, "properties")
    for name, text in _properties(judgement).items():
        ET.SubElement(properties, "property", {"name": name, "value": showable(text)})
    for verdict in verdicts:
        _add_case(suite, judgement, verdict)
    return root


def _count(verdicts: Sequence[BudgetVerdict], ruling: Ruling) -> str:
    return str(sum(verdict.ruling is ruling for verdict in verdicts))


def _properties(judgement: Judgement) -> dict[str, str]:
    engine = f"{judgement.engine}, profile {judgement.profile}" if judgement.profile else judgement.engine
    return {
        "run": judgement.run,
        "ruling": judgement.ruling.value,
        "gated": "yes" if judgement.gated else "no: exploratory, never counts as passed",
        "seal": judgement.seal,
        "engine": engine,
        "engine is a model": "yes" if judgement.is_model else "no",
        "clock": judgement.clock,
        "partial": "; ".join(judgement.partial) or "no",
    }


def _add_case(suite: ET.Element, judgement: Judgement, verdict: BudgetVerdict) -> None:
    name = f"{verdict.arm} c={verdict.concurrency} {verdict.metric} {verdict.bound}"
    case = ET.SubElement(
        suite,
        "testcase",
        {"classname": showable(f"depthgate.{judgement.suite}"), "name": showable(name)},
    )
    element = ELEMENTS.get(verdict.ruling)
    if element is None:
        return
    said = ET.SubElement(case, element, {"message": showable(verdict.sentence), "type": verdict.ruling.value})
    if verdict.value is not None and verdict.bound.startswith("ratio"):
        said.text = f"measured ratio {ratio_interval(verdict.value)}"
