"""Prompts from data sets: a hub id or a local JSONL, parquet or CSV file, read through `datasets`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from loadgen.traffic import TrafficError
from loadgen.transcript import excerpt

BUILDERS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}
CONFIGS = {"openai/gsm8k": "main", "gsm8k": "main"}  # sets that have several configurations and no default
KNOWN_COLUMNS = ("question", "prompt", "turns", "conversations", "messages", "instruction", "text")
CONTENT = ("value", "content", "text")  # where a turn keeps its words, by set


def hub_prompts(name: str, split: str, column: str | None) -> list[str]:
    """Prompts of a hub data set (gsm8k: `question`; MT-bench: `prompt`/`turns`; ShareGPT: `conversations`).

    Raises TrafficError when the hub cannot be reached, or has no such set, split or column.
    """
    source = f"hub:{name}"
    mend = 'use source = "file:PATH" with a local copy, or source = "offline"'

    def load(datasets: Any) -> Any:
        return datasets.load_dataset(name, CONFIGS.get(name), split=split)

    return _prompts(source, load, column, mend)


def file_prompts(path: Path, column: str | None) -> list[str]:
    """Prompts of a local file, by its suffix. Raises TrafficError: no file, another suffix, no column."""
    source = f"file:{path}"
    builder = BUILDERS.get(path.suffix.lower())
    if builder is None:
        raise TrafficError(
            f"{source}: suffix {path.suffix!r} is none of {', '.join(BUILDERS)}; convert the file"
        )
    if not path.is_file():
        raise TrafficError(f"{source}: no such file (looked in {path.absolute().parent}); check the path")

    def load(datasets: Any) -> Any:
        return datasets.load_dataset(builder, data_files=str(path), split="train")

    return _prompts(source, load, column, f"check that it is whole and a {builder} file")


def _prompts(source: str, load: Callable[[Any], Any], column: str | None, mend: str) -> list[str]:
    rows = _quietly(source, load, mend)
    chosen = find_column(source, rows.column_names, column)
    texts = [text for text in map(first_words, rows[chosen]) if text]
    if not texts:
        raise TrafficError(
            f"{source}: column {chosen!r} holds no text; name another: {', '.join(rows.column_names)}"
        )
    return texts


def _quietly(source: str, load: Callable[[Any], Any], mend: str) -> Any:
    import datasets

    bars = datasets.utils.logging.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        return load(datasets)
    except (
        Exception
    ) as error:  # datasets, pyarrow and the hub client raise many kinds; all mean the same here
        raise TrafficError(f"{source}: cannot be read ({excerpt(error)}); {mend}") from error
    finally:
        if bars:
            datasets.enable_progress_bars()


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


def first_words(cell: object) -> str:
    """The first user turn of a cell: a text, a list of turns (MT-bench), or of messages (ShareGPT)."""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, Mapping):
        return next((first_words(cell[key]) for key in CONTENT if isinstance(cell.get(key), str)), "")
    if isinstance(cell, list):
        return next((words for words in map(first_words, cell) if words), "")
    return ""
