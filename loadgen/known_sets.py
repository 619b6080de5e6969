"""Hub sets that are often used: what `load_dataset` needs beyond their name, and what their pages say."""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN = "not known: see the source"


@dataclass(frozen=True, slots=True)
class KnownSet:
    """`config`: of sets with several and no default. `data_files`: of sets without a layout."""

    licence: str
    config: str | None = None
    data_files: str | None = None


KNOWN_SETS = {
    "openai/gsm8k": KnownSet("MIT", config="main"),
    "gsm8k": KnownSet("MIT", config="main"),
    "HuggingFaceH4/mt_bench_prompts": KnownSet("Apache-2.0"),
    "nvidia/SPEED-Bench": KnownSet(
        "NVIDIA evaluation dataset licence; its parts have their own", config="qualitative"
    ),
    "anon8231489123/ShareGPT_Vicuna_unfiltered": KnownSet(
        "Apache-2.0 by its page; the texts are their users'",
        data_files="ShareGPT_V3_unfiltered_cleaned_split.json",
    ),
}


def licence_of(source: str) -> str:
    """Of a traffic class's source: "offline", "hub:ID" or "file:PATH"."""
    if source == "offline":
        return "Apache-2.0 (made by depthgate)"
    known = KNOWN_SETS.get(source.removeprefix("hub:")) if source.startswith("hub:") else None
    return UNKNOWN if known is None else known.licence
