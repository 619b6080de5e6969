"""Tokens as text, and what a prompt and its limits become."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.embedded.intake import take_in
from engines.embedded.text import (
    BYTES_PER_TOKEN,
    END_OF_TEXT,
    WORDS,
    TokenText,
    count_tokens,
    end_of_text_tokens,
    request_key,
)


def test_words_are_distinct_and_one_token_long() -> None:
    assert len(set(WORDS)) == len(WORDS)
    assert {len(f" {word}") for word in WORDS} == {BYTES_PER_TOKEN}


@given(st.integers(0, 2**64 - 1), st.lists(st.integers(1, 300), min_size=1, max_size=6))
def test_text_does_not_depend_on_how_it_is_cut(key: int, cuts: list[int]) -> None:
    whole, parts = TokenText(key), TokenText(key)
    total = sum(cuts)
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(parts.piece(at, at + cut))
        at += cut
    assert b"".join(pieces) == whole.piece(0, total)
    assert [WORDS[i] for i in whole.ids(0, total)] == whole.piece(0, total).decode().split()


def test_text_depends_on_prompt_and_seed_and_is_pinned() -> None:
    assert TokenText(request_key("hi", 0)).piece(0, 5) == b" pod cod pie bag bog"
    texts = {TokenText(request_key(p, s)).piece(0, 9) for p in ("a", "b", (97,)) for s in (0, 1, -1)}
    assert len(texts) == 9


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("日本", 2), ("\ud800", 1), ((5, 6, 7), 3)],
)
def test_prompt_tokens(prompt: str | tuple[int, ...], tokens: int) -> None:
    assert count_tokens(prompt) == tokens


def test_generated_text_counts_as_its_own_tokens() -> None:
    assert count_tokens(TokenText(7).piece(0, 123).decode()) == 123


@pytest.mark.parametrize("traffic_class", ["gsm8k", "chat", "never-heard-of"])
def test_lengths_follow_the_class_distribution(traffic_class: str) -> None:
    lengths = [end_of_text_tokens(request_key(f"prompt {i}", 3), traffic_class) for i in range(3000)]
    median, _ = END_OF_TEXT.get(traffic_class, END_OF_TEXT["default"])
    # the sample median of 3,000 log-normals with sd 1.18 has a relative sd of 1.25*1.18/sqrt(3000) = 2.7 %
    assert statistics.median(lengths) == pytest.approx(median, rel=0.1)
    assert min(lengths) >= 1


def test_intake_ends_by_length_or_by_stop() -> None:
    own = end_of_text_tokens(request_key("p", 0), "gsm8k")
    free = take_in("p", 10_000, ignore_eos=False, traffic_class="gsm8k")
    assert (free.request.output_tokens, free.finish_reason) == (own, "stop")
    cut = take_in("p", own - 1, ignore_eos=False, traffic_class="gsm8k")
    assert (cut.request.output_tokens, cut.finish_reason) == (own - 1, "length")
    full = take_in("p", 10_000, ignore_eos=True, traffic_class="gsm8k")
    assert (full.request.output_tokens, full.finish_reason) == (10_000, "length")
    least = take_in("p", 10_000, ignore_eos=False, min_tokens=own + 50, traffic_class="gsm8k")
    assert least.request.output_tokens == own + 50


def test_acceptance_seed_follows_prompt_seed_and_engine_seed() -> None:
    def seed(prompt: str, seed: int, engine_seed: int) -> int:
        intake = take_in(prompt, 9, ignore_eos=True, seed=seed, engine_seed=engine_seed)
        return intake.request.acceptance_seed

    seeds = [seed(p, s, e) for p in ("a", "b") for s in (0, 1) for e in (0, 1, 2)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= value < 2**63 for value in seeds)
    assert seeds == [seed(p, s, e) for p in ("a", "b") for s in (0, 1) for e in (0, 1, 2)]
