"""The [load] table: every mode's fields, and one line for each way to get them wrong."""

from __future__ import annotations

import tomllib

import pytest

from suites.canonical import content, suite_sha256
from suites.model import Burst, LoadSpec, Phase, SuiteError
from suites.parse import parse_suite

REST = """
[[traffic]]
name = "gsm8k"
[[traffic]]
name = "chat"
[[arms]]
name = "off"
governor = "off"
baseline = true
"""


def read(load: str) -> LoadSpec:
    table = tomllib.loads(f'name = "x"\nquestion = "?"\n[load]\n{load}{REST}')
    suite = parse_suite(table, "x.toml")
    assert suite_sha256(parse_suite(content(suite), "again")) == suite_sha256(suite)
    return suite.load


OPEN = 'mode = "open"\n'
OPEN_5S = OPEN + "rate_per_s = 2\nduration_s = 5\n"
FIVE_S = "concurrency = [4]\nduration_s = 5\n"
BURSTS = FIVE_S + "[[load.bursts]]\n"
PHASE = "concurrency = [4]\n[[load.phases]]\n"


def test_an_open_loop_is_poisson_and_multiplies_its_rate() -> None:
    load = read(OPEN + "rate_per_s = 0.5\nconcurrency = [1, 2, 4]\nduration_s = 60\nmax_in_flight = 8")
    assert (load.mode, load.arrivals, load.rate_per_s, load.concurrency) == (
        "open",
        "poisson",
        0.5,
        (1, 2, 4),
    )
    assert (load.most_in_flight(4), load.trace, load.phases) == (8, None, None)


@pytest.mark.parametrize(
    ("rates", "base", "multiples"),
    [("[1, 2, 4]", 1.0, (1, 2, 4)), ("[0.5, 1, 2]", 0.5, (1, 2, 4)), ("[0.25, 1.5]", 0.25, (1, 6))],
)
def test_a_list_of_rates_is_the_swept_axis(rates: str, base: float, multiples: tuple[int, ...]) -> None:
    load = read(f"{OPEN}rate_per_s = {rates}\nduration_s = 60")
    assert (load.rate_per_s, load.concurrency) == (base, multiples)


@pytest.mark.parametrize(
    "load",
    [
        OPEN_5S,
        FIVE_S,
        BURSTS + "at_s = 1\nrequests = 2",
        'mode = "burst"\nrequests_per_stream = 2\nconcurrency = [4]',
    ],
)
def test_workers_go_with_every_mode(load: str) -> None:
    assert read(f"workers = 3\n{load}").workers == 3


def test_a_trace_needs_no_length() -> None:
    load = read(OPEN + 'arrivals = "trace"\ntrace = "due.txt"')
    assert (load.trace, load.concurrency, load.duration_s) == ("due.txt", (1,), None)


def test_phases_that_say_how_many_streams_are_one_point() -> None:
    load = read(
        "[[load.phases]]\nconcurrency = 1\nrequests_per_stream = 2\nwarmup = true\n"
        "[[load.phases]]\nconcurrency = 64\nduration_s = 20\nramp_s = 5\nweights = { chat = 3, gsm8k = 0 }\n"
    )
    assert load.concurrency == (64,)
    assert load.phases == (
        Phase(concurrency=1, requests_per_stream=2, warmup=True),
        Phase(concurrency=64, duration_s=20, ramp_s=5, weights={"chat": 3.0}),
    )


def test_phases_without_streams_are_swept() -> None:
    load = read("concurrency = [2, 8]\n[[load.phases]]\nduration_s = 5\nweights = { chat = 1 }\n")
    assert (load.concurrency, load.phases) == ((2, 8), (Phase(duration_s=5, weights={"chat": 1.0}),))


def test_bursts_on_top_count_as_in_flight() -> None:
    load = read(
        "concurrency = [8]\nduration_s = 60\n"
        '[[load.bursts]]\nat_s = 20\nrequests = 12\ntimes = 3\nevery_s = 10\ntraffic = "chat"\n'
    )
    assert load.bursts == (Burst(20, 12, 3, 10, "chat"),)
    assert load.most_in_flight(8) == 20


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (OPEN + "duration_s = 5", "load.rate_per_s: missing: requests a second"),
        (OPEN + "rate_per_s = 2", "load.duration_s: missing: say how long"),
        (OPEN + "rate_per_s = 0\nduration_s = 5", "load.rate_per_s = 0: must be above 0 requests/s"),
        (OPEN + "rate_per_s = [2, 1]\nduration_s = 5", "must ascend, each rate once; write [1, 2]"),
        (OPEN + "rate_per_s = []\nduration_s = 5", "every rate must be a number above 0"),
        (OPEN + "rate_per_s = [1, nan]\nduration_s = 5", "every rate must be a number above 0"),
        (OPEN + "rate_per_s = [1]\nconcurrency = [1]\nduration_s = 5", "takes the place of concurrency"),
        (OPEN + "rate_per_s = [1, 1.00001]\nduration_s = 5", "rates must share a coarser step"),
        (OPEN + "rate_per_s = [1e-320, 1]\nduration_s = 5", "every rate must be a number above 0"),
        (OPEN + "rate_per_s = 1e6\nduration_s = 5", "more than 1000000 arrivals in a cell"),
        (OPEN + "rate_per_s = 1e300\nrequests_per_stream = 3", "above 0 requests/s and at most 1000000"),
        (OPEN + "rate_per_s = 1e-300\nrequests_per_stream = 3", "take more than 1000000 s; raise it"),
        (OPEN_5S + 'arrivals = "gamma"\ncv = 1e-300', "load.cv = 1e-300: must be 0.001 to 100"),
        (
            OPEN + "[[load.phases]]\nrate_per_s = 1e6\nduration_s = 0.1\n"
            "[[load.phases]]\nrate_per_s = 0\nduration_s = 5\nramp_s = 5",
            "more than 1000000 arrivals in a cell",
        ),
        (OPEN_5S + 'arrivals = "gamma"', "load.cv: missing: gamma arrivals"),
        (OPEN_5S + "cv = 2", "load.cv = 2: poisson arrivals have none"),
        (OPEN + 'arrivals = "poison"', 'did you mean "poisson"?'),
        (OPEN + 'arrivals = "trace"', "load.trace: missing: trace arrivals need"),
        (OPEN + 'arrivals = "trace"\ntrace = "x"\nrate_per_s = 1', "a trace has its own times"),
        (OPEN_5S + 'trace = "x"', 'remove it or use arrivals = "trace"'),
        (OPEN_5S + "think_s = 1", 'not of mode = "open"; remove it or use mode'),
        (OPEN_5S + "warmup_requests = 1", "load.warmup_requests = 1: not of mode"),
        (OPEN_5S + "max_in_flight = 0", "whole number of at least 1"),
        (OPEN + "[[load.phases]]\nconcurrency = 2\nduration_s = 5", 'not of mode = "open"; use rate_per_s'),
        (OPEN + "[[load.phases]]\nduration_s = 5", "load.rate_per_s: missing"),
        (OPEN + "[[load.phases]]\nrate_per_s = 1\nrequests_per_stream = 5", "[0].duration_s: missing"),
        (FIVE_S + "rate_per_s = 2", 'not of mode = "closed"; remove it or use mode = "open"'),
        (FIVE_S + "think = \"fixed\"", "load.think = 'fixed': of what mean?"),
        (FIVE_S + "think_s = -1", "load.think_s = -1: must be above 0 seconds"),
        (PHASE + "duration_s = 5\nrequests_per_stream = 1", "a phase has one length"),
        (PHASE + "requests_per_stream = 1\nramp_s = 1", "a ramp needs a phase with duration_s"),
        (PHASE + "duration_s = 5\nramp_s = 6", "load.phases[0].ramp_s = 6: must be at most duration_s = 5"),
        (PHASE + "duration_s = 5\nwarmup = true", "all of them warm up"),
        (PHASE + "duration_s = 5\n[[load.phases]]\nduration_s = 5\nwarmup = true", "warm-up comes first"),
        (PHASE + "duration_s = 5\nweights = { chta = 1 }", 'weights.chta: no such traffic class; did you'),
        (PHASE + "duration_s = 5\nweights = { chat = 0 }", "no class has any"),
        (PHASE + "duration_s = 5\nconcurrency = 8", "load.concurrency = [4]: phases say how many streams"),
        (PHASE + "requests_per_stream = 5\nconcurrency = 0", "nobody would send"),
        ("[[load.phases]]\nconcurrency = 0\nduration_s = 5", "load.phases = [{'concurrency': 0"),
        (PHASE + "duration_s = 1e308", "[0].duration_s = 1e+308: must be above 0 seconds and at most"),
        (FIVE_S + "think_s = 1e308", "load.think_s = 1e+308: must be above 0 seconds and at most 1000000"),
        (FIVE_S + "phases = []", "load.phases = []: must be 1 to 1000 tables"),
        ("duration_s = 5\n" + PHASE + "duration_s = 5", "load.duration_s = 5: phases say how long"),
        (BURSTS + "at_s = 1", "load.bursts[0].requests: missing"),
        (BURSTS + "at_s = 1\nrequests = 2000\ntimes = 1000\nevery_s = 1e-9", "more than 1000000 requests"),
        (BURSTS + "at_s = 5\nrequests = 1", "is not before duration_s = 5"),
        (
            BURSTS + "at_s = 1\nrequests = 1\ntimes = 2",
            "load.bursts[0].times = 2: needs the other; add every_s",
        ),
        (
            BURSTS + "at_s = 1\nrequests = 1\ntraffic = \"x\"",
            "load.bursts[0].traffic = 'x': no such traffic class; known: chat, gsm8k",
        ),
        ('mode = "burst"\nconcurrency = [4]\nrequests_per_stream = 1\nthink_s = 1', 'not of mode = "burst"'),
    ],
)  # fmt: skip
def test_a_fault_is_one_line_with_its_mend(load: str, said: str) -> None:
    with pytest.raises(SuiteError) as caught:
        read(load)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
