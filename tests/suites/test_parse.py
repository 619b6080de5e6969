"""A suite is read strictly: each fault names file, field, value and mend, in one line."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suites.canonical import canonical_text, content, suite_sha256
from suites.locate import find_suite, suite_names
from suites.model import SuiteError
from suites.parse import load_suite, parse_suite

GOOD = """
name = "tiny"
question = "Does it hold?"
[load]
mode = "burst"
concurrency = [1, 4]
requests_per_stream = 1
[[traffic]]
name = "gsm8k"
[[arms]]
name = "off"
governor = "off"
baseline = true
[[arms]]
name = "fixed_2"
governor = "fixed"
options = { k = 2 }
[[budgets]]
metric = "tokens_per_s"
min_ratio = 0.97
"""


def _broken(before: str, after: str) -> str:
    assert GOOD.count(before) == 1, before
    text = GOOD.replace(before, after)
    with pytest.raises(SuiteError) as caught:
        parse_suite(tomllib.loads(text), "tiny.toml")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("tiny.toml: ")
    return message


def test_a_good_suite_is_read_with_its_defaults() -> None:
    suite = parse_suite(tomllib.loads(GOOD), "tiny.toml")
    assert suite.baseline.name == "off"
    assert suite.arms[1].options == {"k": 2}
    assert suite.load.concurrency == (1, 4)
    assert (suite.seed, suite.repeats, suite.confidence) == (0, 3, 0.95)
    assert suite.budgets[0].min_ratio == 0.97


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('name = "tiny"', "", 'name: missing; add name = "…"'),
        ('name = "tiny"', 'name = "../etc"', "name = '../etc': must be 1 to 64 letters"),
        ('question = "Does it hold?"', 'question = "a\\nb"', "question = 'a\\nb': must be non-empty text"),
        ('governor = "fixed"', "governor = 5", "arms[1].governor = 5: must be non-empty text"),
        ('governor = "fixed"', 'governer = "fixed"', "arms[1].governor: missing"),
        ("min_ratio = 0.97", "min_ratoi = 0.97", 'did you mean "min_ratio"?'),
        ("min_ratio = 0.97", "min_ratio = nan", "budgets[0].min_ratio = nan: must be a finite number"),
        ("min_ratio = 0.97", "min_ratio = -inf", "budgets[0].min_ratio = -inf: must be a finite number"),
        ("min_ratio = 0.97", "min_ratio = true", "budgets[0].min_ratio = True: must be a finite number"),
        ("min_ratio = 0.97", "max_ratio = 1.1", "more is better; use min_ratio"),
        ("min_ratio = 0.97", "max_value = 9", "more is better; use min_ratio"),
        ("min_ratio = 0.97", "", "no bound; add min_ratio"),
        (
            "min_ratio = 0.97",
            'min_ratio = 0.97\narms = ["fixed2"]',
            "no arm 'fixed2'; did you mean \"fixed_2\"?",
        ),
        ("min_ratio = 0.97", 'min_ratio = 0.97\narms = ["off"]', "is the baseline"),
        ('metric = "tokens_per_s"', 'metric = "token_per_s"', 'did you mean "tokens_per_s"?'),
        ('metric = "tokens_per_s"', 'metric = "refusal_rate"', "use max_value"),
        ("baseline = true", "", "no baseline arm; add baseline = true"),
        ("options = { k = 2 }", "baseline = true", "baseline = true on off, fixed_2; keep it on exactly one"),
        ("options = { k = 2 }", "options = { k = inf }", "arms[1].options.k = inf: must be a finite number"),
        ("options = { k = 2 }", "options = { k = 2020-01-01 }", "arms[1].options.k"),
        ("options = { k = 2 }", "options = 2", "arms[1].options = 2: must be a table"),
        ('name = "fixed_2"', 'name = "off"', "arms.name = 'off': 2 share this name"),
        ("[1, 4]", "[]", "load.concurrency = []: at least one point"),
        ("[1, 4]", "[4, 1]", "load.concurrency = [4, 1]: must ascend, each point once; write [1, 4]"),
        ("[1, 4]", "[1, 1, 4]", "write [1, 4]"),
        ("[1, 4]", "[0, 4]", "every point must be a whole number of at least 1"),
        ("[1, 4]", "[1, 4.0]", "every point must be a whole number of at least 1"),
        ("[1, 4]", "[true, 4]", "every point must be a whole number of at least 1"),
        ("[1, 4]", "4", "load.concurrency = 4: must be a list"),
        ('mode = "burst"', 'mode = "brust"', 'did you mean "burst"?'),
        ("requests_per_stream = 1", "", "load.requests_per_stream: missing: the number of bursts"),
        ("requests_per_stream = 1", "requests_per_stream = 0", "whole number of at least 1"),
        (
            "requests_per_stream = 1",
            "requests_per_stream = 1\nduration_s = 5",
            "a burst ends with its requests",
        ),
        ('mode = "burst"\n', "duration_s = 5\nwarmup_s = 5\n", "leaves no window"),
        ('name = "gsm8k"', 'name = "gsm8k"\nweight = 0', "traffic[0].weight = 0: must be above 0"),
        ('name = "gsm8k"', 'name = "gsm8k"\nsource = "web"', 'must be "offline", "hub:ID" or "file:PATH"'),
        ('name = "gsm8k"', 'name = "gsm8k"\nignore_eos = "yes"', "must be true or false"),
        ('name = "tiny"', 'name = "tiny"\nconfidence = 1.0', "confidence = 1.0: must be in 0.5 to 0.999"),
        (
            'name = "tiny"',
            'name = "tiny"\nconfidence = 0.9999999999999999',
            "must be in 0.5 to 0.999, say 0.95; the bootstrap's draws show no further tail",
        ),
        (
            'name = "tiny"',
            'name = "tiny"\nseed = 99999999999999999999',
            "must be at most 9223372036854775807",
        ),
        ("[1, 4]", "[1, 99999999999]", "load.concurrency = [1, 99999999999]: must be at most 100000 streams"),
        ("requests_per_stream = 1", "requests_per_stream = 99999999", "must be at most 1000000"),
        ('name = "tiny"', 'name = "tiny"\nrepeats = 1000000000000', "must be at most 1000"),
        ('name = "tiny"', 'name = "tiny"\nrepeats = 0', "repeats = 0: must be a whole number of at least 1"),
        ('name = "tiny"', 'name = "tiny"\nengine = "vllm"', "engine = 'vllm': must be a table"),
        ('name = "tiny"', 'name = "tiny"\nengine = { url = "localhost:80" }', "must begin with http://"),
        ('name = "tiny"', 'name = "tiny"\n"a\\nb" = 1', "'a\\nb' = 1: no such field"),
        ("min_ratio = 0.97", f"min_ratio = {'9' * 400}", "must be a finite number"),
        ('name = "tiny"', 'name = "tiny"\nmadeup = 1', "madeup = 1: no such field; known: "),
    ],
)
def test_a_fault_names_field_value_and_mend(before: str, after: str, said: str) -> None:
    assert said in _broken(before, after)


@pytest.mark.parametrize(
    "url",
    [
        "http://me:hunter2@127.0.0.1:8000",
        "https://hunter2@h/v1",
        "http://h/v1?key=hunter2",
        "http://h#hunter2",
        "ftp://me:hunter2@h",
        "me:hunter2@h:8000",
        "http://[::1?hunter2",
    ],
)
def test_a_url_with_what_may_be_a_secret_is_refused_by_its_field_without_repeating_it(url: str) -> None:
    for place, after in (
        ("engine.url", f'name = "tiny"\nengine = {{ kind = "openai", url = "{url}" }}'),
        ("arms[0].url", f'name = "off"\nurl = "{url}"'),
    ):
        said = _broken('name = "tiny"' if place == "engine.url" else 'name = "off"', after)
        assert said.startswith(f"tiny.toml: {place}: holds credentials, a query or a fragment; drop them")
        assert "hunter2" not in said


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000", "https://h/v1/", "http://h/~me@home", "http://[::1]:80"]
)
def test_a_plain_url_is_taken(url: str) -> None:
    table = tomllib.loads(GOOD) | {"engine": {"kind": "openai", "url": url}}
    assert parse_suite(table, "tiny.toml").engine.url == url


@pytest.mark.parametrize("table", ["load", "traffic", "arms"])
def test_a_missing_part_is_named(table: str) -> None:
    whole = tomllib.loads(GOOD)
    del whole[table]
    with pytest.raises(SuiteError, match=f"tiny.toml: {table}: "):
        parse_suite(whole, "tiny.toml")


def test_files_that_are_no_suites(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("name = ")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    for name, said in [
        ("a.toml", "not valid TOML"),
        ("b.toml", "not valid TOML"),
        ("c.toml", "no such suite"),
    ]:
        with pytest.raises(SuiteError, match=said):
            load_suite(tmp_path / name)


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(SuiteError, match='did you mean "threshold-collapse"'):
        find_suite("threshold-colapse")


@pytest.mark.parametrize("name", suite_names())
def test_bundled_suites_are_valid_and_named_as_their_file(name: str) -> None:
    assert load_suite(name).name == name


@pytest.mark.parametrize("name", suite_names())
def test_the_canonical_content_reads_back_as_the_same_suite(name: str) -> None:
    suite = load_suite(name)
    again = parse_suite(content(suite), "manifest.json")
    assert canonical_text(again) == canonical_text(suite)
    assert again == suite


def test_the_example_in_the_docs_is_a_suite() -> None:
    page = (Path(__file__).parents[2] / "docs/writing-a-suite.md").read_text()
    example = page.split("```toml\n", 1)[1].split("```", 1)[0]
    assert parse_suite(tomllib.loads(example), "docs").baseline.name == "off"


def test_the_hash_is_of_the_experiment_not_of_the_file() -> None:
    plain = suite_sha256(parse_suite(tomllib.loads(GOOD), "a"))
    comment = suite_sha256(parse_suite(tomllib.loads("# why\nseed = 0\n" + GOOD), "b"))
    assert comment == plain
    other = suite_sha256(parse_suite(tomllib.loads(GOOD.replace("0.97", "0.96")), "c"))
    assert other != plain


def test_the_hash_does_not_depend_on_version_or_machine() -> None:
    """Pinned: a change here un-seals every suite that anyone has sealed."""
    assert suite_sha256(parse_suite(tomllib.loads(GOOD), "a")) == PINNED


PINNED = "9419fcc2763833e17217035e2e23f478c08cb808c1412e1cb0b425ec9cd6be73"

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
PLACES = [
    ("name",),
    ("load",),
    ("load", "concurrency"),
    ("arms",),
    ("arms", 0, "options"),
    ("budgets", 0),
    ("seed",),
]


@given(place=st.sampled_from(PLACES), value=JSON)
def test_no_value_anywhere_does_worse_than_a_one_line_suite_error(
    place: tuple[str | int, ...], value: object
) -> None:
    table = copy.deepcopy(tomllib.loads(GOOD))
    holder = table
    for step in place[:-1]:
        holder = holder[step]  # type: ignore[index]
    holder[place[-1]] = value  # type: ignore[index]
    try:
        suite = parse_suite(table, "any.toml")
    except SuiteError as error:
        lines = str(error).splitlines()
    else:
        lines = ["read"]
        assert parse_suite(content(suite), "again") == suite
    assert len(lines) == 1
