"""Only what the project wrote itself is markup."""

from __future__ import annotations

import json

import pytest

from reports.markup import Markup, escaped, script_json, showable, tag


def test_text_is_escaped_and_markup_is_not_escaped_twice() -> None:
    assert tag("p", "a<b", tag("b", "&")) == "<p>a&lt;b<b>&amp;</b></p>"


def test_attributes_are_escaped_even_when_they_are_markup() -> None:
    assert tag("a", title='"><x', href=Markup('"')) == '<a title="&quot;&gt;&lt;x" href="&quot;"></a>'


def test_attribute_names() -> None:
    assert tag("td", "x", class_="a", data_sort="1", scope=None) == '<td class="a" data-sort="1">x</td>'


def test_void_elements_have_no_end() -> None:
    assert tag("input", type="radio", name="n") == '<input type="radio" name="n">'


def test_children_may_be_nested_lists_and_none() -> None:
    assert escaped(["a", None, [tag("i", "b")]]) == "a<i>b</i>"


@pytest.mark.parametrize("bad", ["\x00", "\x1b", "\x9b", "\u202e", "\u2066", "\ud800", "\uffff"])
def test_characters_that_no_page_can_show_are_replaced(bad: str) -> None:
    assert showable(f"a{bad}b") == "a\ufffdb"


def test_script_json_reads_back_and_cannot_end_a_script() -> None:
    data = {"name": "</script><!--\u2028&"}
    assert json.loads(script_json(data)) == data
    assert not set("<>&\u2028") & set(script_json(data))


def test_script_json_refuses_nan() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        script_json(float("nan"))
