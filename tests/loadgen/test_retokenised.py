"""The tokenizer check: what a server counted against what its text holds."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from loadgen import retokenised
from loadgen.records import CellKey, Outcome
from loadgen.retokenised import Recount, Recounted, load_tokenizer
from loadgen.traffic import TrafficError, TrafficMix
from suites.model import TrafficClass
from tests.loadgen.test_journal import REQUEST
from tests.shared_files import shared_file


def counted(*answers: tuple[int | None, str | None, Outcome]) -> Recounted:
    recount = Recount("words", lambda text: len(text.split()))
    for number, (usage, text, outcome) in enumerate(answers):
        record = replace(REQUEST, request=f"r{number}", output_tokens=usage, outcome=outcome)
        if text is not None:
            recount.hear(record.request, text)
        recount.see(record)
    return recount.result()


def test_counts_are_summed_and_a_few_tokens_are_no_disagreement() -> None:
    found = counted(
        (3, "a b c", Outcome.DONE),
        (5, "a b c", Outcome.DONE),  # 2 tokens off: allowed
        (6, "a b c", Outcome.DONE),  # 3 off
        (200, "x " * 196, Outcome.DONE),  # 4 off, 2 %: allowed
        (200, "x " * 205, Outcome.DONE),
    )
    assert found == Recounted("words", answers=5, usage_tokens=414, text_tokens=410, differing=2)
    assert found.note() == (
        "tokenizer words: usage says 414 tokens in 5 answers, their text has 410 (-0.97 %); 2 answers differ "
        "by more than 2 tokens and 2 %; figures keep to usage"
    )


def test_what_cannot_be_compared_is_left_out() -> None:
    found = counted((None, "a", Outcome.DONE), (3, None, Outcome.DONE), (3, "a b c", Outcome.TRUNCATED))
    assert found.answers == 0
    assert found.note() == "tokenizer words: no answer with both a usage and a whole text to compare"


def module(name: str, **names: object) -> ModuleType:
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, None)
    for key, value in names.items():
        setattr(made, key, value)
    return made


class Letters:
    """A tokenizer whose tokens are letters; remembers where it came from."""

    def __init__(self, came_from: str) -> None:
        self.came_from = came_from

    @classmethod
    def from_file(cls, path: str) -> Letters:
        return cls(f"file {path}")

    @classmethod
    def from_pretrained(cls, name: str) -> Letters:
        if name == "no/such":
            raise OSError("no\nsuch repository")
        return cls(f"hub {name}")

    def encode(self, text: str, add_special_tokens: bool = True) -> SimpleNamespace:
        assert not add_special_tokens
        asked.append(self.came_from)
        return SimpleNamespace(ids=list(text))


asked: list[str] = []


def test_a_file_a_folder_and_a_hub_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", module("tokenizers", Tokenizer=Letters))
    file = tmp_path / "tokenizer.json"
    file.write_text("{}")
    asked.clear()
    for where in (file, tmp_path, "org/model"):
        assert load_tokenizer(str(where))("abc") == 3
    assert asked == [f"file {file}", f"file {file}", "hub org/model"]
    with pytest.raises(
        TrafficError, match=r"--tokenizer no/such: cannot be loaded \(no such repository\); give"
    ):
        load_tokenizer("no/such")


def test_transformers_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    class Auto:
        @staticmethod
        def from_pretrained(name: str) -> SimpleNamespace:
            return SimpleNamespace(encode=lambda text, add_special_tokens: text.split())

    monkeypatch.setattr(retokenised, "find_spec", lambda name: name if name == "transformers" else None)
    monkeypatch.setitem(sys.modules, "transformers", module("transformers", AutoTokenizer=Auto))
    assert load_tokenizer("org/model")("a b") == 2


def test_neither_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retokenised, "find_spec", lambda name: None)
    with pytest.raises(TrafficError, match="needs the package tokenizers or transformers; install one"):
        load_tokenizer("org/model")


def test_offline_prompts_are_about_as_long_as_they_say_for_a_real_tokenizer() -> None:
    """SmolLM2's: within a quarter of 400 tokens on average over each of the two generators."""
    file = shared_file("data/smollm2_tokenizer.json")
    if find_spec("tokenizers") is None:
        pytest.skip("no package tokenizers here")
    count = load_tokenizer(str(file))
    for name in ("gsm8k", "chat"):
        stream = TrafficMix([TrafficClass(name, prompt_tokens=400)], 1).cell(CellKey("off", 1, 0)).stream(0)
        lengths = [count(prompt.text) for prompt in islice(stream, 50)]
        assert 300 <= sum(lengths) / len(lengths) <= 500
