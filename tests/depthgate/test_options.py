"""Flag values: JSON objects and NAME=URL pairs; a fault names flag, value and mend."""

from __future__ import annotations

import argparse

import pytest

from depthgate.exits import UsageError
from depthgate.options import address, arm_urls, checked_url, is_url, json_object


def test_json_object_reads_an_object() -> None:
    assert json_object("--options", '{"k": 2}') == {"k": 2}


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "2", "null", "[" * 100_000, '{"x": NaN}', '{"x": 1e999}', '{"k": 1, "k": 2}']
)
def test_json_object_refuses_the_rest(text: str) -> None:
    with pytest.raises(UsageError, match="--options"):
        json_object("--options", text)


def test_arm_urls_keep_order_and_equals_signs() -> None:
    assert arm_urls(["off=http://h:1", "b=https://h//a=b"]) == {"off": "http://h:1", "b": "https://h//a=b"}


@pytest.mark.parametrize("pair", ["off", "=http://h", "off=h:1", "off="])
def test_arm_urls_refuse_what_is_no_pair(pair: str) -> None:
    with pytest.raises(UsageError, match="NAME=URL"):
        arm_urls([pair])


def test_arm_urls_refuse_an_arm_given_twice() -> None:
    with pytest.raises(UsageError, match="twice"):
        arm_urls(["off=http://h:1", "off=http://h:2"])


def test_only_http_urls_are_urls() -> None:
    assert is_url("http://127.0.0.1:8000")
    assert not is_url("embedded")


def test_a_url_with_credentials_is_refused_without_repeating_them() -> None:
    with pytest.raises(UsageError) as refused:
        checked_url("--url", "http://me:hunter2@127.0.0.1:1")
    assert "OPENAI_API_KEY" in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("rest", ["?api-key=hunter2", "#hunter2"])
def test_a_url_with_a_query_is_refused_without_repeating_it(rest: str) -> None:
    with pytest.raises(UsageError, match="holds a query or a fragment") as refused:
        checked_url("--url", f"http://127.0.0.1:1/v1{rest}")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://127.0.0.1:99999", "http://h:port", "http://", "ftp://h"]
)
def test_urls_that_are_none_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--url"):
        checked_url("--url", url)


def test_an_empty_host_is_not_taken_for_every_interface() -> None:
    assert address("0.0.0.0") == "0.0.0.0"
    with pytest.raises(argparse.ArgumentTypeError, match=r"write 127\.0\.0\.1"):
        address("")
