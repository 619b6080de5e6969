"""Prompts from files and hubs, through `datasets`."""

from __future__ import annotations

import csv
import json
import logging
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from loadgen.hub import file_prompts, set_rows
from loadgen.records import CellKey
from loadgen.rows import Row
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


def of_file(path: Path, seed: int = 0, **fields: Any) -> list[Row]:
    return set_rows(TrafficClass("chat", source=f"file:{path}", **fields), seed)


def of_hub(name: str, **fields: Any) -> list[Row]:
    return set_rows(TrafficClass("chat", source=f"hub:{name}", **fields), 0)


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("streaming", [None, True])
def test_a_local_file(tmp_path: Path, suffix: str, streaming: bool | None) -> None:
    path = write(tmp_path / f"set.{suffix}", ROWS)
    rows = of_file(path, rows=9, streaming=streaming)
    assert rows == [Row((str(row["question"]),)) for row in ROWS]
    assert of_file(path, column="answer")[0] == Row(("it is 0",))
    assert file_prompts(path, "answer")[0] == "it is 0"


def test_a_mix_uses_every_prompt_of_a_file_before_it_repeats_one(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", ROWS)
    mix = TrafficMix([TrafficClass("gsm8k", source=f"file:{path}")], 0)
    first = [prompt.text for prompt in islice(mix.cell(CellKey("a", 1, 0)).stream(0), 5)]
    assert sorted(first) == [row["question"] for row in ROWS]
    assert first != [row["question"] for row in ROWS]


def test_in_a_mix_too_no_row_comes_twice_before_all_have_come(tmp_path: Path) -> None:
    """A prompt that comes again is in the server's prefix cache. Streams take theirs in any order."""
    path = numbered(tmp_path, 40)
    classes = [TrafficClass(name, weight, source=f"file:{path}") for name, weight in (("a", 1.0), ("b", 2.5))]
    cell = TrafficMix(classes, 3).cell(CellKey("off", 4, 0))
    prompts = [prompt for index in (3, 0, 2, 1) for prompt in islice(cell.stream(index), 35)]
    for name, requests in (("a", 40), ("b", 100)):
        times = Counter(prompt.text for prompt in prompts if prompt.traffic_class == name)
        assert times.total() == requests
        assert set(times.values()) <= {requests // 40, -(-requests // 40)}


def test_the_rows_of_a_set_have_a_digest_of_their_own(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", ROWS)
    mixes = [TrafficMix([TrafficClass("a", source=f"file:{path}"), TrafficClass("chat")], n) for n in (0, 1)]
    assert mixes[0].rows_sha256() == mixes[1].rows_sha256()
    assert mixes[0].rows_sha256().keys() == {"a"}
    write(path, [*ROWS[:-1], {"question": "other"}])
    other = TrafficMix([TrafficClass("a", source=f"file:{path}")], 0)
    assert other.rows_sha256() != mixes[0].rows_sha256()


SHAREGPT = [
    {"from": "human", "value": "hi"},
    {"from": "gpt", "value": "ho"},
    {"from": "human", "value": "and?"},
]
MESSAGES = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "ho"},
    {"role": "user", "content": "and?"},
]
SHAPES: dict[str, dict[str, Any]] = {
    "MT-bench": {"question_id": 81, "category": "writing", "turns": ["hi", "and?"]},
    "MT-bench on the hub": {"prompt_id": 1, "prompt": ["hi", "and?"], "reference": []},
    "SPEED-Bench": {"question_id": "q", "turns": ["hi", "and?"], "source": "s", "multiturn": True},
    "ShareGPT": {"id": "x", "conversations": SHAREGPT},
    "messages": {"messages": MESSAGES, "source": "s"},
}


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_the_shapes_of_known_sets(tmp_path: Path, suffix: str, shape: dict[str, Any]) -> None:
    assert of_file(write(tmp_path / f"set.{suffix}", [shape])) == [Row(("hi", "and?"))]


def test_rows_of_a_jsonl_file_may_differ_in_shape(tmp_path: Path) -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]
    rows: list[dict[str, Any]] = [
        {"messages": MESSAGES},
        {"other": 1},
        {"messages": "plain"},
        {"messages": parts},
    ]
    path = write(tmp_path / "set.jsonl", rows)
    assert of_file(path) == [Row(("hi", "and?")), Row(("plain",)), Row(("a",))]
    with pytest.raises(TrafficError, match="column 'n' holds None: must be a whole number"):
        of_file(write(path, [{"prompt": "a", "n": 3}, {"prompt": "b"}]), max_tokens_column="n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{oops\n", "line 1 is not JSON"),
        ('{"prompt": "a"}\n\n[1]\n', "line 3 is no object"),
        ("", "has no rows"),
    ],
)
def test_a_jsonl_file_that_is_none(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(content)
    with pytest.raises(TrafficError, match=said):
        of_file(path)


def test_a_dotted_column_reaches_into_nested_fields(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", [{"data": {"chat": MESSAGES}, "a.b": "own name"}])
    assert of_file(path, column="data.chat") == [Row(("hi", "and?"))]
    assert of_file(path, column="a.b") == [Row(("own name",))]
    with pytest.raises(TrafficError, match="no column 'date'; it has data"):
        of_file(path, column="date.chat")
    with pytest.raises(TrafficError, match="column 'data' holds no text"):
        of_file(path, column="data.chats")


def test_answers_as_long_as_the_set_says(tmp_path: Path) -> None:
    path = write(tmp_path / "set.csv", [{"prompt": "a", "n": 7}, {"prompt": "b", "n": 30}])
    assert of_file(path, max_tokens_column="n") == [Row(("a",), 7), Row(("b",), 30)]
    item = TrafficClass("chat", source=f"file:{path}", max_tokens_column="n", max_tokens=5)
    prompts = list(islice(TrafficMix([item], 0).cell(CellKey("off", 1, 0)).stream(0), 4))
    assert {(prompt.text, prompt.max_tokens) for prompt in prompts} == {("a", 7), ("b", 30)}
    with pytest.raises(TrafficError, match="no column 'm'; it has prompt, n"):
        of_file(path, max_tokens_column="m")
    with pytest.raises(TrafficError, match="column 'prompt' holds 'a': must be a whole number"):
        of_file(path, max_tokens_column="prompt")


def numbered(tmp_path: Path, count: int) -> Path:
    return write(tmp_path / "many.jsonl", [{"prompt": f"{n}"} for n in range(count)])


def numbers(rows: list[Row]) -> list[int]:
    return [int(row.turns[0]) for row in rows]


@pytest.mark.parametrize("streaming", [None, True])
def test_the_first_rows_or_a_reservoir_of_all(tmp_path: Path, streaming: bool | None) -> None:
    path = numbered(tmp_path, 3000)
    first = of_file(path, rows=20, streaming=streaming)
    assert numbers(first) == list(range(20))
    drawn = [
        numbers(of_file(path, seed, rows=20, sample="reservoir", streaming=streaming)) for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 20
    assert drawn[0] == RESERVOIR


# The reservoir of seed 1: the same on any machine, read whole or streamed.
RESERVOIR = [
    *(1172, 1165, 2, 2608, 1096, 979, 1339, 1786, 720, 1654),
    *(1985, 1510, 456, 1074, 1595, 1677, 1758, 2991, 18, 1323),
]


def test_every_row_has_the_same_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 reservoirs of 10 out of 40: each row is expected in 50, sd 6.1 (binomial); 4.5 sd are allowed."""
    import datasets

    table = datasets.Dataset.from_list([{"prompt": f"{n}"} for n in range(40)])
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: table)
    item = TrafficClass("chat", source="hub:org/set", rows=10, sample="reservoir")
    kept = [n for seed in range(200) for n in numbers(set_rows(item, seed))]
    assert max(abs(kept.count(n) - 50) for n in range(40)) <= 4.5 * 6.1


def test_a_streamed_set_is_not_read_beyond_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    read: list[int] = []

    def rows() -> Any:
        for n in range(10**9):
            read.append(n)
            yield {"prompt": str(n)}

    def load(name: str, config: str | None, **more: object) -> datasets.IterableDataset:
        assert (name, config, more) == ("org/huge", "en", {"split": "train", "streaming": True})
        return datasets.IterableDataset.from_generator(rows)

    monkeypatch.setattr(datasets, "load_dataset", load)
    kept = of_hub("org/huge", split="train", config="en", rows=50, streaming=True)
    assert numbers(kept) == list(range(50))
    assert len(read) <= 100


def test_a_missing_column_names_those_there_are(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", ROWS)
    with pytest.raises(TrafficError, match="no column 'prompt'; it has id, question, answer"):
        file_prompts(path, "prompt")
    odd = write(tmp_path / "odd.jsonl", [{"a": "x", "b": "y"}])
    with pytest.raises(TrafficError, match="no column that looks like a prompt; set column to one of a, b"):
        file_prompts(odd, None)


def test_a_column_without_text(tmp_path: Path) -> None:
    path = write(tmp_path / "set.jsonl", [{"question": " ", "id": 1}])
    with pytest.raises(TrafficError, match="column 'question' holds no text; name another: question, id"):
        file_prompts(path, None)


def heard(monkeypatch: pytest.MonkeyPatch, name: str) -> list[logging.LogRecord]:
    """What a logger says from now on."""
    said: list[logging.LogRecord] = []
    listener = logging.Handler()
    monkeypatch.setattr(listener, "emit", said.append)
    monkeypatch.setattr(logging.getLogger(name), "handlers", [listener])
    return said


def test_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TrafficError, match="no such file"):
        file_prompts(tmp_path / "gone.jsonl", None)
    with pytest.raises(TrafficError, match=r"suffix '\.xml' is none of"):
        file_prompts(tmp_path / "set.xml", None)
    said = heard(monkeypatch, "datasets")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 nope")
    with pytest.raises(TrafficError, match=r"cannot be read .*; check that it is whole"):
        file_prompts(broken, None)
    assert said == []


@pytest.mark.parametrize("streaming", [None, True])
def test_a_hub_that_cannot_be_reached_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, streaming: bool | None
) -> None:
    """At once, or with the first row of a stream; in one line, without the hub client's own."""
    import datasets

    said = heard(monkeypatch, "huggingface_hub.utils")

    def refuse(*_: object, **__: object) -> Any:
        logging.getLogger("huggingface_hub.utils").warning("Retrying in 1s [Retry 1/5].")
        raise ConnectionError("Couldn't reach 'openai/gsm8k' on the Hub")
        yield

    def lazy(*_: object, **__: object) -> datasets.IterableDataset:
        return datasets.IterableDataset.from_generator(refuse)

    monkeypatch.setattr(datasets, "load_dataset", lazy if streaming else lambda *_, **__: next(refuse()))
    with pytest.raises(
        TrafficError, match=r'hub:openai/gsm8k: cannot be read .*use source = "file:PATH"'
    ) as e:
        of_hub("openai/gsm8k", rows=5, streaming=streaming)
    assert "\n" not in str(e.value)
    assert said == []


@pytest.mark.parametrize(
    ("name", "config", "files"),
    [
        ("openai/gsm8k", "main", {}),
        ("nvidia/SPEED-Bench", "qualitative", {}),
        ("HuggingFaceH4/mt_bench_prompts", None, {}),
        (
            "anon8231489123/ShareGPT_Vicuna_unfiltered",
            None,
            {"data_files": "ShareGPT_V3_unfiltered_cleaned_split.json"},
        ),
    ],
)
def test_a_hub_set_is_asked_for_as_it_needs(
    monkeypatch: pytest.MonkeyPatch, name: str, config: str | None, files: dict[str, str]
) -> None:
    import datasets

    asked: list[tuple[object, ...]] = []

    def load(*names: object, **more: object) -> datasets.Dataset:
        asked.append((*names, more))
        return datasets.Dataset.from_list(ROWS)

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert len(of_hub(name)) == 5
    assert asked == [(name, config, {"split": "test"} | files)]


@pytest.mark.parametrize(
    ("name", "rows", "turns"),
    [("gsm8k_test_200", 200, 200), ("mt_bench_question", 80, 160), ("spec_bench_question", 480, 560)],
)
def test_real_sets(name: str, rows: int, turns: int) -> None:
    found = of_file(shared_file(f"data/{name}.jsonl"))
    assert len(found) == rows
    assert sum(len(row.turns) for row in found) == turns
    assert min(len(row.turns[0]) for row in found) > 10
