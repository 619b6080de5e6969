"""The load generator alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import pytest

from engines.contract import EngineError
from loadgen.load_command import LoadSettings, only_model, read_prompts, run_load
from loadgen.records import CellRecord, Outcome, RequestRecord
from loadgen.traffic import TrafficError
from tests.loadgen.servers import Answer, Asked, event, says, serving, whole


class LoadResult(NamedTuple):
    records: list[RequestRecord]
    cell: CellRecord


def run(answer: Answer, suffix: str = "", models: str | None = None, **given: object) -> LoadResult:
    async def inside() -> LoadResult:
        gets = {} if models is None else {"/v1/models": lambda: models}
        async with serving(answer, gets) as endpoint:
            fields = {"concurrency": 3, "requests": 10, "max_tokens": 5, "model": "m"} | given
            settings = LoadSettings(url=endpoint.base_url + suffix, **fields)  # type: ignore[arg-type]
            records: list[RequestRecord] = []
            return LoadResult(records, await run_load(settings, records.append))

    return asyncio.run(inside())


@pytest.mark.http
@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_requests_in_all_over_the_streams(suffix: str) -> None:
    result = run(says(whole(event("a", 1))), suffix)
    assert [record.outcome for record in result.records] == [Outcome.DONE] * 10
    assert result.cell.requests == 10


@pytest.mark.http
def test_a_rate_takes_the_place_of_streams() -> None:
    """1,000 a second, one every millisecond, whatever the server does: the due times are a ruler's."""
    result = run(says(whole(event("a", 1))), rate_per_s=1000.0, arrivals="constant")
    first_s = min(record.due_s for record in result.records)
    due = sorted(record.due_s - first_s for record in result.records)
    assert due == pytest.approx([n / 1000 for n in range(10)], abs=1e-6)
    assert result.cell.notes[0].startswith("open loop: constant arrivals, ")


def test_pauses_are_a_closed_loop_s_and_a_trace_is_an_open_one_s() -> None:
    plain = LoadSettings("http://x", concurrency=4, requests=2, max_tokens=5, think_s=0.5, stagger_s=1.0)
    assert (plain.load.mode, plain.load.concurrency, plain.load.think_s) == ("closed", (2,), 0.5)
    traced = LoadSettings(
        "http://x", concurrency=4, requests=2, max_tokens=5, trace="due.txt", max_in_flight=3
    )
    assert (traced.load.mode, traced.load.arrivals, traced.load.requests_per_stream) == ("open", "trace", 2)


@pytest.mark.http
def test_fewer_requests_than_streams() -> None:
    result = run(says(whole(event("a", 1))), requests=2)
    assert (len(result.records), result.cell.concurrency) == (2, 2)
    assert not any("no steady state" in fault for fault in result.cell.invalid)


@pytest.mark.http
def test_a_file_of_prompts_is_sent_in_order_and_again(tmp_path: Path) -> None:
    path = tmp_path / "prompts.txt"
    path.write_text("one\n\n two \nthree\n")
    seen: list[str] = []

    async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
        seen.append(asked.body["messages"][0]["content"])
        assert (asked.body["max_tokens"], asked.body["model"]) == (5, "only")
        writer.write(whole(event("a", 1)))

    models = '{"data": [{"id": "only"}]}'
    run(answer, models=models, model=None, prompts=path, requests=4, concurrency=1)
    assert seen == ["one", "two", "three", "one"]


def test_jsonl_by_column(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a", "output_tokens": 3}\n\n{"prompt": "b"}\n')
    assert read_prompts(path) == ["a", "b"]
    with pytest.raises(TrafficError, match="no column 'text'; it has prompt, output_tokens"):
        read_prompts(path, "text")


def test_csv_goes_through_datasets(tmp_path: Path) -> None:
    path = tmp_path / "prompts.csv"
    path.write_text("id,prompt\n1,hello there\n")
    assert read_prompts(path) == ["hello there"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.jsonl", "{oops\n", "line 1 is not JSON"),
        ("p.jsonl", "[1]\n", "line 1 is no object"),
        ("p.txt", " \n\n", "holds no text"),
        ("p.txt", None, "cannot be read"),
    ],
)
def test_bad_prompt_files(tmp_path: Path, name: str, content: str | None, words: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(TrafficError, match=words):
        read_prompts(path)


@pytest.mark.http
@pytest.mark.parametrize(
    ("models", "words"),
    [
        (None, "no list of models; is the server up"),
        ("[]", "no list of models; give --model"),
        ('{"data": []}', "lists 0 models .none.; give --model"),
        ('{"data": [{"id": "a"}, {"id": "b"}]}', "lists 2 models .a, b.; give --model"),
    ],
)
def test_a_model_that_cannot_be_found_out(models: str | None, words: str) -> None:
    async def inside() -> None:
        gets = {} if models is None else {"/v1/models": lambda: models}
        async with serving(says(b""), gets) as endpoint:
            await only_model(endpoint.base_url)

    with pytest.raises(EngineError, match=words):
        asyncio.run(inside())
