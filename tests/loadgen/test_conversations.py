"""A next turn waits for the answer before it and carries it, over HTTP and in virtual time alike."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import pytest

from engines.contract import EngineRequest
from engines.embedded.launcher import EmbeddedEngine
from loadgen import closed, paced
from loadgen.cell import drive_cell
from loadgen.dialogue import Dialogues, every_word, spoken
from loadgen.records import CellKey, CellRecord, Outcome, RequestRecord
from loadgen.traffic import Prompt, TrafficMix
from loadgen.virtual import simulate_cell
from suites.model import Arm, LoadSpec, Phase, TrafficClass
from tests.loadgen.servers import DONE, Answer, Asked, event, response, serving, whole

PROFILE = "h200-qwen3-4b-eagle"
ARM = Arm("fixed", "fixed", {"depth": 2})
KEY = CellKey("fixed", 2, 0)
CLOSED = LoadSpec((2,), mode="closed", requests_per_stream=6, timeout_s=30)
BURST = LoadSpec((2,), mode="burst", requests_per_stream=6, timeout_s=30)
PHASED = LoadSpec((2,), timeout_s=30, phases=(Phase(requests_per_stream=2), Phase(requests_per_stream=4)))
LOADS = {"closed": CLOSED, "workers": replace(CLOSED, workers=2), "burst": BURST, "phased": PHASED}
MIX = TrafficMix([TrafficClass("chat", max_tokens=12, turns=3)], 5)


def run(answer: Answer, load: LoadSpec) -> tuple[list[RequestRecord], CellRecord]:
    records: list[RequestRecord] = []

    async def inside() -> CellRecord:
        async with serving(answer) as endpoint:
            return await drive_cell(endpoint, KEY, load, MIX.cell(KEY), on_record=records.append)

    cell = asyncio.run(inside())
    return records, cell


def by_conversation(records: list[RequestRecord]) -> dict[str | None, list[RequestRecord]]:
    found: dict[str | None, list[RequestRecord]] = {}
    for record in sorted(records, key=lambda record: record.due_s):
        found.setdefault(record.conversation, []).append(record)
    return found


def test_turns_of_a_conversation_follow_one_another_in_one_stream() -> None:
    prompts = list(islice(MIX.cell(KEY).stream(1), 6))
    assert [(prompt.turn, prompt.last) for prompt in prompts] == 2 * [(0, False), (1, False), (2, True)]
    assert [prompt.conversation for prompt in prompts] == 3 * ["5/0/2/1"] + 3 * ["5/0/2/3"]
    assert len({prompt.text for prompt in prompts}) == len({prompt.seed for prompt in prompts}) == 6
    alone = next(TrafficMix([TrafficClass("chat", max_tokens=12)], 5).cell(KEY).stream(1))
    assert (alone.conversation, alone.turn, alone.last) == (None, 0, True)
    assert alone.text == prompts[0].text


@pytest.mark.http
@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS.keys())
def test_each_turn_carries_what_was_said_before(load: LoadSpec) -> None:
    asked: list[list[dict[str, str]]] = []

    async def answer(writer: asyncio.StreamWriter, request: Asked) -> None:
        asked.append(request.body["messages"])
        words = f"re: {request.body['messages'][-1]['content'][:9]}"
        writer.write(whole(event(words[:4], 5), event(words[4:], 12)))

    records, cell = run(answer, load)
    assert {record.outcome for record in records} == {Outcome.DONE}
    assert len(records) == cell.requests == 12
    for turns in by_conversation(records).values():
        assert [record.turn for record in turns] == [0, 1, 2]
        assert all((a.done_s or 1e9) <= b.due_s for a, b in pairwise(turns))
    assert sorted(len(messages) for messages in asked) == 4 * [1] + 4 * [3] + 4 * [5]
    for messages in asked:
        assert [message["role"] for message in messages] == (["user", "assistant"] * 3)[: len(messages)]
        for question, reply in zip(messages[:-1:2], messages[1::2], strict=True):
            assert reply["content"] == f"re: {question['content'][:9]}"
        assert messages[:-2] in [*asked, []]


@pytest.mark.http
@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS.keys())
@pytest.mark.parametrize(
    ("bad", "outcome"),
    [
        (response(429, b""), Outcome.REFUSED),
        (whole(event("a"), b'data: {"error": {"message": "gone"}}\n\n'), Outcome.FAILED),
    ],
)
def test_a_conversation_whose_answer_failed_ends_there(
    monkeypatch: pytest.MonkeyPatch, load: LoadSpec, bad: bytes, outcome: Outcome
) -> None:
    """The second turn of each fails: nobody is sent a third turn with a hole in it."""
    monkeypatch.setattr(closed, "PAUSE_S", 0.0)
    monkeypatch.setattr(paced, "PAUSE_S", 0.0)

    async def answer(writer: asyncio.StreamWriter, request: Asked) -> None:
        writer.write(bad if len(request.body["messages"]) == 3 else whole(event("a", 12)))

    records, _ = run(answer, load)
    assert len(records) == 12
    for turns in by_conversation(records).values():
        assert [(record.turn, record.outcome) for record in turns] == [(0, Outcome.DONE), (1, outcome)]


def contexts(records: list[RequestRecord]) -> list[list[int | None]]:
    return [[record.prompt_tokens for record in turns] for turns in by_conversation(records).values()]


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS.keys())
def test_in_virtual_time_the_context_grows_by_questions_and_answers(load: LoadSpec) -> None:
    records, _, _ = simulate_cell(PROFILE, ARM, {}, KEY, load, MIX.cell(KEY), seed=7)
    texts = {prompt.text: prompt for stream in (0, 1) for prompt in islice(MIX.cell(KEY).stream(stream), 6)}
    by_place = {(prompt.conversation, prompt.turn): text for text, prompt in texts.items()}
    assert len(records) == 12
    for record in records:
        size = -1
        for turn in range(record.turn or 0):
            size += 1 + len(by_place[record.conversation, turn].encode()) + 1 + 4 * 12
        size += 1 + len(by_place[record.conversation, record.turn or 0].encode())
        assert record.prompt_tokens == -(-size // 4)


@pytest.mark.http
def test_the_embedded_engine_is_asked_the_same_on_both_clocks() -> None:
    mix = TrafficMix([TrafficClass("chat", max_tokens=12, turns=3, ignore_eos=False)], 5)
    records: list[RequestRecord] = []

    async def inside() -> None:
        request = EngineRequest("fixed", ARM.governor, ARM.options, seed=7)
        async with EmbeddedEngine(PROFILE).serve(request) as endpoint:
            await drive_cell(endpoint, KEY, CLOSED, mix.cell(KEY), on_record=records.append)

    asyncio.run(inside())
    simulated, _, _ = simulate_cell(PROFILE, ARM, {}, KEY, CLOSED, mix.cell(KEY), seed=7)

    def said(found: list[RequestRecord]) -> dict[str, tuple[Any, ...]]:
        return {r.request: (r.conversation, r.turn, r.prompt_tokens, r.output_tokens) for r in found}

    assert said(records) == said(simulated)
    assert len(said(records)) == 12


def test_records_of_lone_requests_have_no_conversation() -> None:
    mix = TrafficMix([TrafficClass("chat", max_tokens=12)], 5)
    records, _, _ = simulate_cell(
        PROFILE, ARM, {}, KEY, replace(CLOSED, requests_per_stream=1), mix.cell(KEY)
    )
    assert {(record.conversation, record.turn) for record in records} == {(None, None)}


def test_what_is_remembered_is_forgotten_with_the_last_turn() -> None:
    dialogues = Dialogues()
    first = Prompt("q", "chat", 8, True, 1, conversation="c", turn=0, last=False)
    last = replace(first, text="r", turn=1, last=True)
    assert not dialogues.broken(first)
    assert dialogues.broken(last)
    dialogues.answered(first, "a")
    assert dialogues.before(last) == [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
    ]
    dialogues.answered(last, "b")
    assert dialogues.before(last) == ()
    assert dialogues.broken(last)


REASONING = b'data: {"choices": [{"delta": {"reasoning_content": "hm "}}]}\n\n'
COMPLETION = b'data: {"choices": [{"text": "hi"}]}\n\n'


@pytest.mark.parametrize(
    ("body", "text", "words"),
    [
        (event("a ") + event("b") + DONE, "a b", "a b"),
        (REASONING + event("a") + DONE, "a", "hm a"),
        (COMPLETION + DONE, "hi", "hi"),
        (event("a") + b"data: [DONE]", "a", "a"),
        (DONE, "", ""),
        (event("a"), None, None),
        (event("a") + b"data: {oops\n\n" + DONE, None, None),
        (event("a") + b'data: {"error": "x"}\n\n' + DONE, None, None),
        (b"data: [1]\n\n" + DONE, None, None),
        (b'data: {"choices": [1]}\n\n' + DONE, None, None),
        (b"", None, None),
    ],
)
def test_only_a_whole_answer_is_carried(body: bytes, text: str | None, words: str | None) -> None:
    assert spoken(body) == text
    assert every_word(body) == words
