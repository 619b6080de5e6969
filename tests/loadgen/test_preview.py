"""The preview shows what a run sends, and says what it knows of its sources."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from loadgen.known_sets import UNKNOWN, licence_of
from loadgen.preview import SHOWN, ClassPreview, Spread, preview
from suites.model import Arm, EngineSpec, Lengths, LoadSpec, Phase, Suite, TrafficClass

SUITE = Suite(
    name="mixed",
    question="?",
    engine=EngineSpec(),
    traffic=(
        TrafficClass("gsm8k", weight=3.0, max_tokens=64),
        TrafficClass("chat", max_tokens=Lengths("uniform", min=10, max=20), prompt_tokens=300, turns=2),
    ),
    load=LoadSpec((4, 8), requests_per_stream=5),
    arms=(Arm("off", "off", baseline=True),),
    seed=9,
)


def classes(suite: Suite, requests: int = 800) -> dict[str, ClassPreview]:
    return {item.name: item for item in preview(suite, requests, 2).classes}


def test_shares_lengths_and_turns() -> None:
    found = classes(SUITE)
    gsm8k, chat = found["gsm8k"], found["chat"]
    assert (gsm8k.share, chat.share) == (0.75, 0.25)
    assert gsm8k.requests + chat.requests == 800
    assert abs(gsm8k.requests - 480) <= 4  # 3 of 5 requests: a chat has two turns, and streams hold the mix
    assert (gsm8k.turns, chat.turns) == (1, 2)
    assert gsm8k.max_tokens == Spread(64, 64, 64, 64, 64)
    assert chat.max_tokens is not None
    assert (chat.max_tokens.least, chat.max_tokens.most) == (10, 20)
    assert chat.prompt_tokens is not None
    assert 297 <= chat.prompt_tokens.least <= chat.prompt_tokens.most == 300


def test_samples_are_short_single_lines(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(json.dumps({"prompt": "a\n\x1b[31mb\t" + "c" * 500}) + "\n")
    item = TrafficClass("odd", source=f"file:{path}")
    (odd,) = preview(replace(SUITE, traffic=(item,)), 10, 2).classes
    assert len(odd.samples) == 2
    for sample in odd.samples:
        assert sample.startswith("a [31mb c")
        assert sample.isprintable()
        assert len(sample) == SHOWN
    assert (odd.source, odd.licence) == (f"file:{path}", UNKNOWN)


def test_mixes_by_phase() -> None:
    load = LoadSpec(
        (4,), phases=(Phase(duration_s=9), Phase(duration_s=9, weights={"chat": 1.0}), Phase(duration_s=9))
    )
    found = preview(replace(SUITE, load=load), 10, 1)
    own = {"gsm8k": 0.75, "chat": 0.25}
    assert found.shares_by_phase == (own, {"gsm8k": 0.0, "chat": 1.0}, own)
    assert preview(SUITE, 10, 1).shares_by_phase == ()


def test_a_class_that_is_too_rare_to_be_seen_has_no_lengths() -> None:
    rare = replace(SUITE.traffic[0], name="rare", weight=1e-6)
    found = classes(replace(SUITE, traffic=(*SUITE.traffic, rare)), 100)["rare"]
    assert (found.requests, found.prompt_tokens, found.samples) == (0, None, ())


def test_one_seed_one_digest_on_any_machine() -> None:
    digest = preview(SUITE, 200, 1).digest
    assert digest[:16] == "45be914da691599c"
    assert preview(replace(SUITE, arms=(Arm("x", "fixed", baseline=True),)), 200, 1).digest == digest
    assert preview(replace(SUITE, seed=10), 200, 1).digest != digest


def test_percentiles_are_by_nearest_rank() -> None:
    assert Spread.of(list(range(1, 101))) == Spread(1, 5, 50, 95, 100)
    assert Spread.of([7]) == Spread(7, 7, 7, 7, 7)
    assert Spread.of([]) is None


@pytest.mark.parametrize(
    ("source", "licence"),
    [
        ("offline", "Apache-2.0 (made by depthgate)"),
        ("hub:openai/gsm8k", "MIT"),
        ("hub:org/other", UNKNOWN),
        ("file:openai/gsm8k", UNKNOWN),
    ],
)
def test_licences(source: str, licence: str) -> None:
    assert licence_of(source) == licence
