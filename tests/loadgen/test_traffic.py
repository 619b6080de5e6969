"""One seed makes the same requests in the same order, for every arm and on any machine."""

from __future__ import annotations

import hashlib
from itertools import islice
from random import Random

import pytest

from loadgen.offline_prompts import conversation, word_problem
from loadgen.records import CellKey
from loadgen.traffic import Prompt, TrafficError, TrafficMix
from suites.model import TrafficClass

MIX = (TrafficClass("gsm8k", weight=3.0, max_tokens=64), TrafficClass("chat", ignore_eos=False))


def prompts(seed: int, key: CellKey, stream: int = 0, count: int = 20) -> list[Prompt]:
    return list(islice(TrafficMix(MIX, seed).cell(key).stream(stream), count))


def test_the_arm_does_not_matter_and_everything_else_does() -> None:
    base = prompts(1, CellKey("off", 4, 0))
    assert prompts(1, CellKey("fixed", 4, 0)) == base
    for other in (
        prompts(2, CellKey("off", 4, 0)),
        prompts(1, CellKey("off", 5, 0)),
        prompts(1, CellKey("off", 4, 1)),
        prompts(1, CellKey("off", 4, 0), stream=1),
    ):
        assert not {prompt.text for prompt in base} & {prompt.text for prompt in other}


def test_streams_do_not_disturb_each_other() -> None:
    cell = TrafficMix(MIX, 1).cell(CellKey("off", 2, 0))
    first, second = cell.stream(0), cell.stream(1)
    mixed = [next(first), next(second), next(second), next(first)]
    assert [mixed[0], mixed[3]] == prompts(1, CellKey("off", 2, 0), count=2)


def test_the_same_text_on_any_machine_and_version() -> None:
    text = "\n".join(prompt.text for prompt in prompts(7, CellKey("off", 4, 0)))
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert digest[:16] == "0f222db7f45ec8e1", text


def test_the_mix_holds_in_short_runs_too() -> None:
    cell = TrafficMix(MIX, 3).cell(CellKey("off", 16, 0))
    for turn in range(5):
        burst = [next(islice(cell.stream(index), turn, None)).traffic_class for index in range(16)]
        assert 11 <= burst.count("gsm8k") <= 13


def test_a_class_carries_its_limits() -> None:
    for prompt in prompts(1, CellKey("off", 1, 0)):
        assert prompt.max_tokens == (64 if prompt.traffic_class == "gsm8k" else 180)
        assert prompt.ignore_eos == (prompt.traffic_class == "gsm8k")


def test_word_problems_are_several_sentences_with_numbers() -> None:
    texts = [word_problem(Random(seed)) for seed in range(200)]
    assert len(set(texts)) == 200
    assert all(text.count(". ") >= 2 and text.endswith("?") for text in texts)
    assert all(any(c.isdigit() for c in text) and "{" not in text for text in texts)
    lengths = sorted(map(len, texts))
    assert lengths[-1] > 2 * lengths[0]


def test_conversations_ask_for_verse_now_and_then() -> None:
    texts = [conversation(Random(seed)) for seed in range(400)]
    verse = sum("lines" in text.split(".")[0] or "ballad" in text for text in texts)
    assert 60 <= verse <= 140
    assert not any("{" in text for text in texts)
    assert len(set(texts)) > 380


@pytest.mark.parametrize("source", ["offline:x", "hub:", "file:", "http://x", ""])
def test_an_unknown_source_is_named(source: str) -> None:
    with pytest.raises(TrafficError, match=r"traffic chat: source .* is none of offline, hub:ID, file:PATH"):
        TrafficMix([TrafficClass("chat", source=source)], 0)


def test_no_class_at_all() -> None:
    with pytest.raises(TrafficError, match="no traffic class"):
        TrafficMix([], 0)


def test_offline_prompts_are_as_long_as_the_class_says() -> None:
    def words(length: int | None) -> list[int]:
        mix = TrafficMix([TrafficClass("gsm8k", prompt_words=length)], 7).cell(CellKey("off", 1, 0))
        return [len(prompt.text.split()) for prompt in islice(mix.stream(0), 20)]

    assert words(5) == [5] * 20
    assert words(700) == [700] * 20
    assert len(set(words(None))) > 5


def test_a_part_has_its_own_mix_and_its_own_prompts() -> None:
    cell = TrafficMix(MIX, 1).cell(CellKey("off", 2, 0))
    part = cell.part("phase-1", {"chat": 1.0}, 2)
    own, other = list(islice(cell.stream(0), 30)), list(islice(part.stream(0), 30))
    assert {prompt.traffic_class for prompt in other} == {"chat"}
    assert not {prompt.seed for prompt in own} & {prompt.seed for prompt in other}
    again = cell.part("phase-1", {"chat": 1.0}, 2)
    assert list(islice(again.stream(0), 30)) == other
