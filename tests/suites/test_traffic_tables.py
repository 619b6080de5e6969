"""The [[traffic]] tables: every field is read, every slip is named."""

from __future__ import annotations

import tomllib

import pytest

from suites.canonical import content, suite_sha256
from suites.model import Lengths, Suite, SuiteError
from suites.parse import parse_suite

TOP = """
name = "tiny"
question = "Does it hold?"
[[arms]]
name = "off"
governor = "off"
baseline = true
"""
HASH_BEFORE = "c3c895850bbc2d13f201729fce8b3f5eb9df0903c57c3d6ee663be1847716d05"
CLOSED = '[load]\nmode = "closed"\nconcurrency = [1]\nrequests_per_stream = 4\n'


def suite(traffic: str, load: str = CLOSED) -> Suite:
    return parse_suite(tomllib.loads(f'{TOP}{load}[[traffic]]\nname = "chat"\n{traffic}'), "tiny.toml")


def fault(traffic: str, load: str = CLOSED) -> str:
    with pytest.raises(SuiteError) as caught:
        suite(traffic, load)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix("tiny.toml: ")


FULL = """
source = "hub:a/b"
column = "data.turns"
config = "main"
rows = 100
sample = "reservoir"
streaming = true
turns = 3
min_tokens = 8
max_tokens = { distribution = "lognormal", mean = 200, sd = 80, min = 16, max = 900 }
max_tokens_column = "wanted"
body = { top_k = 1, nested = { a = [1, 2] } }
"""


def test_every_field_is_read_and_comes_back_from_the_canonical_form() -> None:
    whole = suite(FULL, CLOSED + "body = { top_p = 1.0 }\n")
    (item,) = whole.traffic
    assert item.max_tokens == Lengths("lognormal", 200.0, 80.0, 16, 900)
    assert (item.rows, item.sample, item.streaming, item.turns, item.min_tokens) == (
        100,
        "reservoir",
        True,
        3,
        8,
    )
    assert (item.body, whole.load.body) == ({"top_k": 1, "nested": {"a": [1, 2]}}, {"top_p": 1.0})
    assert parse_suite(content(whole), "again") == whole


def test_fields_that_are_left_out_leave_old_hashes_as_they_are() -> None:
    """The hash of this suite from before these fields were there."""
    assert suite_sha256(suite("")) == HASH_BEFORE


@pytest.mark.parametrize(
    ("traffic", "said"),
    [
        ("turns = 0", "traffic[0].turns = 0: must be a whole number of at least 1"),
        ('column = "q"', "traffic[0].column = 'q': of a hub: or file: source"),
        ("rows = 5", "traffic[0].rows = 5: of a hub: or file: source"),
        ('source = "hub:a"\nprompt_tokens = 5', "prompt_tokens = 5: prompts of 'hub:a' are as long as they"),
        ('source = "file:a"\nconfig = "x"', "config = 'x': a file has no configurations"),
        ('source = "hub:a"\nstreaming = true', "streaming = True: of how many rows? add rows = 1000"),
        ('source = "hub:a"\nsample = "first"', "sample = 'first': of how many rows?"),
        ('source = "hub:a"\nrows = 5\nsample = "frist"', 'did you mean "first"?'),
        ("prompt_words = 5\nprompt_tokens = 5", "prompt_tokens says how long already"),
        ("min_tokens = 200", "min_tokens = 200: must be at most max_tokens, 180"),
        ("max_tokens = 1.5", "max_tokens = 1.5: must be a whole number"),
        ("body = { seed = 1 }", "body = {'seed': 1}: 'seed' is set by the client; write seed in the suite"),
        ("body = { max_tokens = 1 }", "write max_tokens in the traffic class"),
        ("body = { stream = false }", "'stream' is set by the client; remove it"),
        (f"body = {{ t = {2**63} }}", "traffic[0].body.t = 9223372036854775808: must fit in 64 bits"),
        ("body = { t = nan }", "traffic[0].body.t = nan: must be a finite number"),
    ],
)
def test_slips(traffic: str, said: str) -> None:
    assert said in fault(traffic)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{ api_key = "hunter2" }', "body.api_key"),
        ('{ headers = { Authorization = "hunter2" } }', "body.headers.Authorization"),
        ('{ env = { HF_TOKEN = "hunter2" } }', "body.env.HF_TOKEN"),
        ('{ args = ["--api-key=hunter2"] }', "body.args[0]"),
        ("{ args = ['--override', '{\"api_key\": \"hunter2\"}'] }", "body.args[1]"),
        ('{ token = "hunter2" }', "body.token"),
    ],
)
def test_a_secret_is_refused_and_not_repeated(body: str, field: str) -> None:
    said = fault(f"body = {body}")
    assert f"traffic[0].{field}: a suite stands in every run of it" in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("{}", "max_tokens.distribution: missing"),
        ('{ distribution = "lognorm" }', 'did you mean "lognormal"?'),
        ('{ distribution = "normal", mean = 5 }', "sd: missing: a normal distribution needs it"),
        ('{ distribution = "normal", mean = -5, sd = 1 }', "mean = -5: must be above 0 tokens"),
        ('{ distribution = "uniform", min = 5 }', "max: missing: a uniform distribution needs it"),
        (
            '{ distribution = "uniform", min = 5, max = 9, sd = 1 }',
            "uniform distribution has min and max alone",
        ),
        ('{ distribution = "uniform", min = 5, max = 4 }', "max = 4: must be at least min, 5"),
        ('{ distribution = "normal", mean = 9, sd = 1, max = 8 }', "mean = 9: must lie between min and max"),
        ('{ distribution = "uniform", min = 5, max = 9, seed = 1 }', "seed = 1: no such field"),
    ],
)
def test_slips_in_a_distribution(table: str, said: str) -> None:
    assert said in fault(f"max_tokens = {table}")


@pytest.mark.parametrize(
    ("load", "said"),
    [
        ('[load]\nmode = "open"\nrate_per_s = 1\nduration_s = 9\n', "an open loop does not wait for answers"),
        (CLOSED + 'route = "completions"\n', "only the chat route carries earlier turns"),
        (CLOSED + "bursts = [{ at_s = 1, requests = 2 }]\n", "bursts on top do not wait for answers"),
    ],
)
def test_loads_that_cannot_wait_for_an_answer(load: str, said: str) -> None:
    assert said in fault("turns = 2", load)
    assert suite("turns = 1", load).traffic[0].turns == 1
