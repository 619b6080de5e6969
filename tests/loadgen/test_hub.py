"""Prompts from files and hubs, through `datasets`."""

from __future__ import annotations

import csv
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from loadgen.hub import file_prompts, first_words, hub_prompts
from loadgen.records import CellKey
from loadgen.traffic import TrafficError, TrafficMix
from suites.model import TrafficClass
from tests.shared_files import shared_file

ROWS = [{"id": n, "question": f"how many {n}?", "answer": f"it is {n}"} for n in range(5)]


@pytest.fixture(autouse=True)
def _cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_a_local_file(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"set.{suffix}", ROWS)
    assert file_prompts(path, None) == [row["question"] for row in ROWS]
    assert file_prompts(path, "answer")[0] == "it is 0"


def test_a_mix_uses_every_prompt_of_a_file_before_it_repeats_one(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", ROWS)
    mix = TrafficMix([TrafficClass("gsm8k", source=f"file:{path}")], 0)
    first = [prompt.text for prompt in islice(mix.cell(CellKey("a", 1, 0)).stream(0), 5)]
    assert sorted(first) == [row["question"] for row in ROWS]
    assert first != [row["question"] for row in ROWS]


def test_turns_and_conversations(tmp_path: Path) -> None:
    turns = write(tmp_path / "mt.jsonl", [{"turns": ["first", "second"]}, {"turns": ["other"]}])
    assert file_prompts(turns, None) == ["first", "other"]
    chats = [{"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]}]
    assert file_prompts(write(tmp_path / "sharegpt.jsonl", chats), None) == ["hi"]


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("  a ", "a"),
        (["", "b"], "b"),
        ([{"role": "user", "content": "c"}], "c"),
        (None, ""),
        (3, ""),
        ([], ""),
    ],
)
def test_first_words(cell: object, words: str) -> None:
    assert first_words(cell) == words


def test_a_missing_column_names_those_there_are(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", ROWS)
    with pytest.raises(TrafficError, match="no column 'prompt'; it has id, question, answer"):
        file_prompts(path, "prompt")
    odd = write(tmp_path / "odd.jsonl", [{"a": "x", "b": "y"}])
    with pytest.raises(TrafficError, match="no column that looks like a prompt; set column to one of a, b"):
        file_prompts(odd, None)


def test_a_column_without_text(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", [{"question": " ", "id": 1}])
    with pytest.raises(TrafficError, match="column 'question' holds no text"):
        file_prompts(path, None)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(TrafficError, match="no such file"):
        file_prompts(tmp_path / "gone.jsonl", None)
    with pytest.raises(TrafficError, match=r"suffix '\.xml' is none of"):
        file_prompts(tmp_path / "set.xml", None)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 nope")
    with pytest.raises(TrafficError, match=r"cannot be read .*; check that it is whole"):
        file_prompts(broken, None)


def test_a_hub_that_cannot_be_reached_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach 'openai/gsm8k' on the Hub")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(TrafficError, match=r'hub:openai/gsm8k: cannot be read .*use source = "file:PATH"'):
        hub_prompts("openai/gsm8k", "test", None)


def test_a_hub_set_is_asked_for_by_name_split_and_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked: list[tuple[object, ...]] = []

    def load(*names: object, split: str) -> datasets.Dataset:
        asked.append((*names, split))
        return datasets.Dataset.from_list(ROWS)

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert len(hub_prompts("openai/gsm8k", "test", None)) == 5
    assert asked == [("openai/gsm8k", "main", "test")]


@pytest.mark.parametrize(
    ("name", "rows"), [("gsm8k_test_200", 200), ("mt_bench_question", 80), ("spec_bench_question", 480)]
)
def test_real_sets(name: str, rows: int) -> None:
    texts = file_prompts(shared_file(f"data/{name}.jsonl"), None)
    assert len(texts) == rows
    assert min(map(len, texts)) > 10
