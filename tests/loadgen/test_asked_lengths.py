"""Answers of another length than was asked for are said, and spoil the cell when max_tokens was ignored."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from loadgen.asked_lengths import AskedLengths
from loadgen.cell import drive_cell
from loadgen.records import CellKey, CellRecord, RequestRecord
from loadgen.traffic import TrafficMix
from suites.model import LoadSpec, TrafficClass
from tests.loadgen.servers import Asked, event, serving, whole
from tests.loadgen.test_journal import REQUEST

KEY = CellKey("off", 1, 0)


def run(lengths: list[int | None], **fields: object) -> tuple[CellRecord, list[Asked]]:
    """A cell whose answers have these tokens (None: the server does not say), asked for 8."""
    asked: list[Asked] = []
    records: list[RequestRecord] = []
    left = iter(lengths)

    async def answer(writer: asyncio.StreamWriter, request: Asked) -> None:
        asked.append(request)
        writer.write(whole(event("a", next(left))))

    async def inside() -> CellRecord:
        item = TrafficClass("chat", max_tokens=8, **fields)  # type: ignore[arg-type]
        load = LoadSpec((1,), requests_per_stream=len(lengths), timeout_s=5)
        async with serving(answer) as endpoint:
            prompts = TrafficMix([item], 0).cell(KEY)
            return await drive_cell(endpoint, KEY, load, prompts, on_record=records.append)

    cell = asyncio.run(inside())
    assert len(records) == len(lengths)
    return cell, asked


def of_lengths(words: tuple[str, ...]) -> list[str]:
    return [each for each in words if "answers (" in each]


@pytest.mark.http
def test_as_asked_is_not_worth_a_word() -> None:
    cell, _ = run([8, 8, None])
    assert of_lengths(cell.notes) == of_lengths(cell.invalid) == []


@pytest.mark.http
def test_a_server_that_stops_by_itself_is_noted_with_its_share() -> None:
    cell, _ = run([8, 5, 8, 7])
    assert of_lengths(cell.notes) == [
        "2 of 4 answers (50 %) are shorter than was asked (ignore_eos or min_tokens): the server stopped by "
        "itself, figures are of what came"
    ]
    assert of_lengths(cell.invalid) == []


@pytest.mark.http
def test_without_ignore_eos_a_server_may_stop_after_min_tokens() -> None:
    cell, asked = run([8, 5, 2], ignore_eos=False, min_tokens=4)
    assert [(a.body["min_tokens"], "ignore_eos" in a.body) for a in asked] == [(4, False)] * 3
    assert of_lengths(cell.notes)[0].startswith("1 of 3 answers (33.3 %) are shorter")
    assert of_lengths(run([8, 1], ignore_eos=False)[0].notes) == []


@pytest.mark.http
def test_a_server_that_ignores_max_tokens_spoils_the_cell() -> None:
    cell, _ = run([8, 20, 8, 8])
    assert of_lengths(cell.invalid) == [
        "max_tokens ignored: 1 of 4 answers (25 %) are longer; does the server take the field?"
    ]


def test_a_rare_overshoot_is_a_note() -> None:
    lengths = AskedLengths()
    for _ in range(99):
        lengths.see(None, REQUEST)
    lengths.see(None, replace(REQUEST, output_tokens=9))
    assert (list(lengths.notes()), list(lengths.faults())) == (
        ["1 of 100 answers (1 %) are longer than max_tokens"],
        [],
    )
    lengths.see(None, replace(REQUEST, output_tokens=9))
    assert next(lengths.faults()).startswith("max_tokens ignored: 2 of 101 answers (1.98 %)")
