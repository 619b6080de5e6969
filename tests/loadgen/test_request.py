"""What goes out: the client's own fields, those of the suite and of the class, and none of them twice."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from loadgen.cell import drive_cell
from loadgen.records import CellKey, RequestRecord
from loadgen.request import ClientSettings, request_body
from loadgen.traffic import Prompt, TrafficMix
from loadgen.virtual import simulate_cell
from suites.model import Arm, LoadSpec, TrafficClass
from suites.traffic import CLIENT_FIELDS
from tests.loadgen.servers import Asked, event, serving, whole

KEY = CellKey("off", 1, 0)
LOAD = LoadSpec((1,), requests_per_stream=4, timeout_s=5, body={"top_p": 0.9, "top_k": 1})
CLASSES = (
    TrafficClass(
        "gsm8k", max_tokens=3, body={"top_k": 7, "chat_template_kwargs": {"enable_thinking": False}}
    ),
    TrafficClass("chat", max_tokens=3),
)


@pytest.mark.parametrize("route", ["chat", "completions"])
def test_every_field_that_the_client_sets_is_refused_in_a_suite(route: str) -> None:
    prompt = Prompt("x", "chat", 8, True, 1, min_tokens=4)
    assert json.loads(request_body("m", ClientSettings(route), prompt)).keys() <= CLIENT_FIELDS


def test_what_was_said_before_goes_first() -> None:
    before = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    body = json.loads(request_body("m", ClientSettings(), Prompt("c", "chat", 8, True, 1), before))
    assert body["messages"] == [*before, {"role": "user", "content": "c"}]


@pytest.mark.http
@pytest.mark.parametrize("workers", [None, 2])
def test_fields_of_the_suite_and_of_the_class_which_wins(workers: int | None) -> None:
    seen: dict[str, dict[str, object]] = {}
    records: list[RequestRecord] = []

    async def answer(writer: asyncio.StreamWriter, asked: Asked) -> None:
        seen[asked.headers["x-depthgate-class"]] = asked.body
        writer.write(whole(event("a", 3)))

    async def inside() -> None:
        key, load = CellKey("off", 2, 0), replace(LOAD, concurrency=(2,), workers=workers)
        async with serving(answer) as endpoint:
            prompts = TrafficMix(CLASSES, 0).cell(key)
            await drive_cell(endpoint, key, load, prompts, on_record=records.append)

    asyncio.run(inside())
    assert len(records) == 8
    extra = {name: {key: body[key] for key in body.keys() - CLIENT_FIELDS} for name, body in seen.items()}
    assert extra == {
        "gsm8k": {"top_p": 0.9, "top_k": 7, "chat_template_kwargs": {"enable_thinking": False}},
        "chat": {"top_p": 0.9, "top_k": 1},
    }


@pytest.mark.parametrize(
    ("load", "classes", "said"),
    [
        (LOAD, CLASSES[1:], 1),
        (replace(LOAD, body=None), CLASSES, 1),
        (replace(LOAD, body=None), CLASSES[1:], 0),
    ],
)
def test_virtual_time_reads_no_fields_and_says_so(
    load: LoadSpec, classes: tuple[TrafficClass, ...], said: int
) -> None:
    prompts = TrafficMix(classes, 0).cell(KEY)
    _, _, cell = simulate_cell("h200-qwen3-4b-eagle", Arm("off", "off"), {}, KEY, load, prompts)
    note = "body has no effect in virtual time: the step machine reads no fields"
    assert cell.notes.count(note) == said
