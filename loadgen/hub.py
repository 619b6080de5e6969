"""Conversations from data sets: hub ids and local parquet, CSV and JSON through `datasets`; JSONL by line.

JSONL needs no `datasets` and no cache, and its rows may differ in shape, which Arrow's tables do not allow.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Any

import orjson

from loadgen.known_sets import KNOWN_SETS, KnownSet
from loadgen.rows import Row, at_path, user_turns
from loadgen.traffic import TrafficError
from loadgen.transcript import excerpt
from suites.model import TrafficClass

BUILDERS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}
KNOWN_COLUMNS = ("question", "prompt", "turns", "conversations", "messages", "instruction", "text")
BATCH = 1000  # rows read at once
Batch = Mapping[str, Sequence[Any]]  # of each column, one cell a row


def set_rows(item: TrafficClass, seed: int) -> list[Row]:
    """The rows that a class takes from its hub or file source, in an order that the seed fixes.

    Raises TrafficError: it cannot be reached or read, has no such split or column, or holds no text.
    """
    kind, _, where = item.source.partition(":")
    return _hub_rows(item, where, seed) if kind == "hub" else _file_rows(item, Path(where), seed)


def file_prompts(path: Path, column: str | None) -> list[str]:
    """First turns of a local file. Raises TrafficError: no file, another suffix, no column."""
    rows = set_rows(TrafficClass("prompts", source=f"file:{path}", column=column), 0)
    return [row.turns[0] for row in rows]


def find_column(source: str, columns: Iterable[str], wanted: str | None) -> str:
    """`wanted`, else the first name that prompts usually have. Raises TrafficError naming what there is."""
    names = list(columns)
    if wanted is not None and wanted not in names:
        raise TrafficError(f"{source}: no column {wanted!r}; it has {', '.join(names)}")
    found = wanted or next((name for name in KNOWN_COLUMNS if name in names), None)
    if found is None:
        raise TrafficError(
            f"{source}: no column that looks like a prompt; set column to one of {', '.join(names)}"
        )
    return found


def _hub_rows(item: TrafficClass, name: str, seed: int) -> list[Row]:
    known = KNOWN_SETS.get(name, KnownSet(""))
    more = {} if known.data_files is None else {"data_files": known.data_files}

    def load(datasets: Any) -> Any:
        config = item.config or known.config
        return datasets.load_dataset(name, config, split=item.split, **more, **_streaming(item))

    mend = 'use source = "file:PATH" with a local copy, or source = "offline"'
    return _quietly(item, lambda datasets: _taken(item, _batches(item, load(datasets)), seed), mend)


def _file_rows(item: TrafficClass, path: Path, seed: int) -> list[Row]:
    builder = BUILDERS.get(path.suffix.lower())
    if builder is None:
        raise TrafficError(
            f"{item.source}: suffix {path.suffix!r} is none of {', '.join(BUILDERS)}; convert the file"
        )
    if not path.is_file():
        raise TrafficError(
            f"{item.source}: no such file (looked in {path.absolute().parent}); check the path"
        )

    if path.suffix.lower() == ".jsonl":
        return _taken(item, _lines(item, path), seed)

    def load(datasets: Any) -> Any:
        return datasets.load_dataset(builder, data_files=str(path), split="train", **_streaming(item))

    mend = f"check that it is whole and a {builder} file"
    return _quietly(item, lambda datasets: _taken(item, _batches(item, load(datasets)), seed), mend)


def _streaming(item: TrafficClass) -> dict[str, bool]:
    return {"streaming": True} if item.streaming else {}


def _quietly(item: TrafficClass, read: Callable[[Any], list[Row]], mend: str) -> list[Row]:
    try:
        import datasets
    except ImportError:
        raise TrafficError(f"{item.source}: needs the package datasets; install depthgate[bench]") from None
    try:
        with _silence(datasets):
            return read(datasets)
    except TrafficError:
        raise
    except (
        Exception
    ) as error:  # datasets, pyarrow and the hub client raise many kinds; all mean the same here
        raise TrafficError(f"{item.source}: cannot be read ({excerpt(error)}); {mend}") from error


@contextmanager
def _silence(datasets: Any) -> Iterator[None]:
    """No progress bars, no line of the hub client's retries or of a broken file: one error says it all."""
    bars = datasets.utils.logging.is_progress_bar_enabled()
    loggers = [logging.getLogger(name) for name in ("huggingface_hub", "datasets")]
    levels = [logger.level for logger in loggers]
    datasets.disable_progress_bars()
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if bars:
            datasets.enable_progress_bars()


def _batches(item: TrafficClass, table: Any) -> Iterator[Batch]:
    """Of a Dataset, or of an IterableDataset: then no more than a batch and what is kept is held."""
    return iter(table.iter(min(BATCH, item.rows or BATCH)))


def _lines(item: TrafficClass, path: Path) -> Iterator[Batch]:
    """A batch of one for each line of a JSONL file."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield {name: [value] for name, value in _object(item, number, line).items()}
    except OSError as error:
        raise TrafficError(f"{item.source}: cannot be read ({error.strerror}); check the path") from None


def _object(item: TrafficClass, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise TrafficError(f"{item.source}: line {number} is not JSON ({error}); mend or drop it") from None
    if not isinstance(row, dict):
        raise TrafficError(f'{item.source}: line {number} is no object; write {{"prompt": "..."}}')
    return row


def _taken(item: TrafficClass, batches: Iterator[Batch], seed: int) -> list[Row]:
    first = next(batches, None)
    if first is None:
        raise TrafficError(f"{item.source}: has no rows; name another file or split")
    column, *path = _path(item, first)
    found = _rows(item, column, path, chain([first], batches))
    if item.sample == "reservoir" and item.rows is not None:
        rows = _reservoir(found, item.rows, Random(f"{seed}/{item.name}/rows"))
    else:
        rows = list(islice(found, item.rows))
    if not rows:
        raise TrafficError(
            f"{item.source}: column {column!r} holds no text; name another: {', '.join(first)}"
        )
    return rows


def _path(item: TrafficClass, columns: Iterable[str]) -> list[str]:
    """The prompts' column, and the way on from there; a column whose own name has dots goes before a path."""
    if item.max_tokens_column is not None:
        find_column(item.source, columns, item.max_tokens_column)
    if item.column is None or item.column in columns:
        return [find_column(item.source, columns, item.column)]
    column, *path = item.column.split(".")
    return [find_column(item.source, columns, column if path else item.column), *path]


def _reservoir(rows: Iterator[Row], size: int, rng: Random) -> list[Row]:
    """`size` of all rows, each with the same chance, in one pass (Vitter 1985, algorithm R)."""
    kept = list(islice(rows, size))
    for number, row in enumerate(rows, start=size + 1):
        place = int(rng.random() * number)
        if place < size:
            kept[place] = row
    return kept


def _rows(item: TrafficClass, column: str, path: Sequence[str], batches: Iterable[Batch]) -> Iterator[Row]:
    limits = item.max_tokens_column
    for batch in batches:
        for number, cell in enumerate(batch.get(column, ())):
            if turns := user_turns(at_path(cell, path)):
                yield Row(turns, None if limits is None else _limit(item, batch.get(limits, [None])[number]))


def _limit(item: TrafficClass, value: object) -> int:
    whole = isinstance(value, int | float) and value >= 1 and int(value) == value
    if isinstance(value, bool) or not whole:
        raise TrafficError(
            f"{item.source}: column {item.max_tokens_column!r} holds {value!r}: must be a whole number of "
            "at least 1; mend the row or remove max_tokens_column"
        )
    assert isinstance(value, int | float)
    return int(value)
