"""What the user says, whatever shape it is kept in; and nothing that others say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.rows import at_path, first_words, user_turns


@pytest.mark.parametrize(
    ("cell", "turns"),
    [
        ("  a ", ("a",)),
        (["", "b"], ("b",)),
        (["a", "b"], ("a", "b")),
        ([["a"], ["b", "c"]], ("a", "b", "c")),
        ([{"role": "user", "content": "c"}], ("c",)),
        ([{"from": "gpt", "value": "x"}, {"from": "human", "value": "c"}], ("c",)),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}], ("a",)),
        ([{"role": "user", "content": [{"text": "a"}, {"text": "b"}]}], ("a b",)),
        ({"from": ["human", "gpt", "human"], "value": ["a", "x", "b"]}, ("a", "b")),
        ({"role": ["user", "assistant"], "content": ["a", "x"]}, ("a",)),
        ({"content": "a"}, ("a",)),
        ({"text": ["a", "b"]}, ("a b",)),
        ([{"role": "assistant", "content": "x"}], ()),
        ([{"role": "user", "content": None}], ()),
        (None, ()),
        (3, ()),
        (b"raw", ()),
        ([], ()),
    ],
)
def test_user_turns(cell: object, turns: tuple[str, ...]) -> None:
    assert user_turns(cell) == turns
    assert first_words(cell) == (turns[0] if turns else "")


def test_a_path_that_leads_nowhere_is_none() -> None:
    assert at_path({"a": {"b": "x"}}, ["a", "b"]) == "x"
    assert at_path({"a": {"b": "x"}}, ["a", "c"]) is None
    assert at_path("x", ["a"]) is None


CELLS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "from", "value", "content", "text", "x"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)


@given(CELLS)
def test_any_cell_gives_texts_or_nothing(cell: object) -> None:
    assert all(isinstance(turn, str) and turn == turn.strip() != "" for turn in user_turns(cell))
