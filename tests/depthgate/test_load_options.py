"""Flags that choose what sends a run's requests: what goes together, and what a manifest keeps of it."""

from __future__ import annotations

import argparse
from dataclasses import replace

import pytest

from depthgate.exits import UsageError
from depthgate.load_drivers import LoadChoice
from depthgate.load_options import add_load_flags, load_choice
from loadgen.swarm.fleet import FleetSettings, SwarmError
from suites.locate import find_suite
from suites.model import LoadSpec
from suites.parse import load_suite


def chosen(*flags: str, clock: str | None = None) -> LoadChoice:
    parser = argparse.ArgumentParser()
    add_load_flags(parser)
    args = parser.parse_args(flags)
    args.clock = clock
    return load_choice(args)


def test_one_process_is_the_default() -> None:
    assert chosen() == chosen("--load", "asyncio") == LoadChoice()


def test_locust_here_and_elsewhere() -> None:
    assert chosen("--load", "locust").fleet == FleetSettings(1, None, "127.0.0.1", None, None)
    assert chosen("--load", "locust", "--workers", "3", "--web").fleet == FleetSettings(3, web_port=8089)
    elsewhere = ("--expect-workers", "4", "--bind", "10.0.0.1", "--master-port", "6000")
    assert chosen("--load", "locust", *elsewhere).fleet == FleetSettings(1, 4, "10.0.0.1", 6000)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--workers", "3"), "--workers: needs --load locust"),
        (("--load", "asyncio", "--web"), "--web: needs --load locust"),
        (("--load", "locust", "--workers", "2", "--expect-workers", "2"), "drop one"),
    ],
)
def test_what_does_not_go_together_is_said(flags: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        chosen(*flags)


def test_no_http_no_locust() -> None:
    with pytest.raises(UsageError, match="drop --clock virtual"):
        chosen("--load", "locust", clock="virtual")


def test_a_manifest_brings_the_choice_back() -> None:
    for choice in (LoadChoice(), LoadChoice("locust", FleetSettings(2, 3, "10.0.0.1", 6000, 8089))):
        assert LoadChoice.of(choice.to_json()) == choice
    assert LoadChoice.of(None) == LoadChoice.of({"kind": "carrier-pigeon"}) == LoadChoice()


def test_a_load_that_locust_cannot_drive_is_refused_before_the_run() -> None:
    suite = load_suite(find_suite("quickstart"))
    opened = replace(suite, load=LoadSpec((1,), "open", requests_per_stream=4, rate_per_s=2.0))
    LoadChoice("locust").check(suite)
    LoadChoice().check(opened)
    with pytest.raises(SwarmError, match="an open loop; use --load asyncio"):
        LoadChoice("locust").check(opened)


@pytest.mark.parametrize(
    "flags",
    [("--workers", "0"), ("--expect-workers", "-1"), ("--master-port", "65536"), ("--web", "x")],
)
def test_numbers_have_their_range_said(flags: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        chosen("--load", "locust", *flags)
    assert f"argument {flags[0]}: '{flags[1]}' must be a whole number from 1 to " in capsys.readouterr().err


def test_an_address_that_is_not_this_machine_s_is_refused_before_the_run() -> None:
    suite = load_suite(find_suite("quickstart"))
    for bind in ("192.0.2.1", "no-such-host.invalid"):  # RFC 5737, RFC 6761
        with pytest.raises(SwarmError, match=f"--bind {bind}: no address of this machine"):
            LoadChoice("locust", FleetSettings(expected=1, bind=bind)).check(suite)
