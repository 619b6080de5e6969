"""The registry: every bad option of every policy is refused in one line that names the mend."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from governors.contract import DepthLimits, Reason
from governors.entry import GovernorContext
from governors.registry import (
    GOVERNORS,
    GovernorError,
    build_governor,
    changes_depth,
    governor_entry,
    governor_names,
    governor_warnings,
)
from tests.governors.observations import observation
from tests.governors.profiles import STAIRS

CONTEXT = GovernorContext(DepthLimits(k_max=3, max_num_seqs=64), profile=STAIRS, drafter_class="eagle")
ROWS = [[1, 4, 2], [5, 512, 0]]
REQUIRED: dict[str, dict[str, Any]] = {
    "disable_above": {"above": 4},
    "schedule": {"schedule": ROWS},
    "hysteresis_schedule": {"schedule": ROWS},
    "cycle": {"depths": [3, 0, 0, 0]},
}


def test_names_and_layers() -> None:
    assert list(GOVERNORS) == [
        "off",
        "fixed",
        "disable_above",
        "schedule",
        "hysteresis_schedule",
        "goodput_table",
        "ema_ladder",
        "cycle",
        "dspark",
        "dspark_argmax",
    ]
    assert all(name == entry.name and entry.layer in "DC" for name, entry in GOVERNORS.items())
    assert governor_names()[: len(GOVERNORS)] == tuple(GOVERNORS)
    assert [name for name, entry in GOVERNORS.items() if not entry.speculative] == ["off"]


@pytest.mark.parametrize("name", list(GOVERNORS))
def test_builds_and_decides_with_its_required_options_alone(name: str) -> None:
    governor = build_governor(name, REQUIRED.get(name, {}), CONTEXT)
    decision = governor.decide(observation(batch=2))
    assert 0 <= decision.depth_next <= 3


@pytest.mark.parametrize("name", list(GOVERNORS))
def test_every_documented_option_is_read(name: str) -> None:
    """A value that suits no option is refused for each: none is documented and then ignored."""
    for option in GOVERNORS[name].options:
        with pytest.raises(GovernorError, match=rf"{name}\.{option}="):
            build_governor(name, {**REQUIRED.get(name, {}), option: [None]}, CONTEXT)


def test_unknown_governor_names_the_nearest() -> None:
    with pytest.raises(
        GovernorError, match=r"unknown governor 'dspark_argmin'; did you mean 'dspark_argmax'\?"
    ):
        governor_entry("dspark_argmin")
    with pytest.raises(GovernorError, match=r"unknown governor 'zzz'; known: off, fixed"):
        governor_entry("zzz")


def test_unknown_option_names_the_nearest() -> None:
    with pytest.raises(GovernorError, match=r"fixed has no option 'detph'; did you mean 'depth'\?"):
        build_governor("fixed", {"detph": 2}, CONTEXT)
    with pytest.raises(GovernorError, match=r"off has no option 'depth'; it takes none"):
        governor_warnings("off", {"depth": 2}, CONTEXT)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        (
            "fixed",
            {"depth": 4},
            "fixed.depth=4: the engine drafts at most k_max=3; lower the depth or "
            "raise the engine's k_max (vLLM: num_speculative_tokens)",
        ),
        ("fixed", {"depth": -1}, "fixed.depth=-1: give an integer from 0 to 3"),
        ("fixed", {"depth": True}, "fixed.depth=True: give an integer"),
        ("fixed", {"depth": 2.0}, "fixed.depth=2.0: give an integer"),
        ("fixed", {"depth": "2"}, "fixed.depth='2': give an integer"),
        ("fixed", {"depth": None}, "fixed.depth=None: give an integer"),
        ("disable_above", {}, "disable_above.above is missing: give an integer"),
        ("disable_above", {"above": -1}, "disable_above.above=-1: give an integer"),
        (
            "disable_above",
            {"above": 4, "depth": 9},
            "disable_above.depth=9: the engine drafts at most k_max=3",
        ),
        ("disable_above", {"above": 4, "count": "all"}, "count='all': give one of scheduled, decodes"),
        ("schedule", {}, "schedule.schedule is missing: give a non-empty list of [lo, hi, K]"),
        ("schedule", {"schedule": ROWS, "count": 1}, "schedule.count=1: give one of"),
        (
            "hysteresis_schedule",
            {"schedule": ROWS, "dead_band": 65},
            "dead_band=65: give an integer from 0 to 64",
        ),
        (
            "hysteresis_schedule",
            {"schedule": ROWS, "dwell_steps": 0},
            "dwell_steps=0: give an integer from 1",
        ),
        (
            "hysteresis_schedule",
            {"schedule": [[2, 4, 1]]},
            "hysteresis_schedule.schedule=[[2, 4, 1]]: the first",
        ),
        ("goodput_table", {"depths": "some"}, "depths='some': give one of measured, all"),
        ("goodput_table", {"warmup_steps": 0}, "warmup_steps=0"),
        ("goodput_table", {"window_steps": 0}, "window_steps=0"),
        ("goodput_table", {"prior_weight": math.nan}, "prior_weight=nan: give a number from 0 to"),
        ("goodput_table", {"prior_weight": math.inf}, "prior_weight=inf"),
        ("goodput_table", {"probe_every": -1}, "probe_every=-1"),
        ("dspark", {"unknown_acceptance": 1.5}, "dspark.unknown_acceptance=1.5: give a number from 0 to 1"),
        ("dspark_argmax", {"unknown_acceptance": True}, "dspark_argmax.unknown_acceptance=True"),
        ("dspark", {"history_weight": 0}, "dspark.history_weight=0"),
        ("dspark", {"rest_after": -1}, "dspark.rest_after=-1"),
        ("dspark", {"rest_after": 1.5}, "dspark.rest_after=1.5"),
        ("dspark_argmax", {"probe_every": "often"}, "dspark_argmax.probe_every='often'"),
    ],
)
def test_refuses(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(GovernorError, match=re.escape(said)) as caught:
        build_governor(name, options, CONTEXT)
    assert "\n" not in str(caught.value)
    with pytest.raises(GovernorError, match=re.escape(said)):
        governor_warnings(name, options, CONTEXT)


@pytest.mark.parametrize("name", ["goodput_table", "dspark", "dspark_argmax"])
def test_a_profile_of_another_drafter_class_is_refused(name: str) -> None:
    other = replace(CONTEXT, drafter_class="mtp")
    with pytest.raises(GovernorError, match=rf"{name}: .*parameters never transfer between classes"):
        build_governor(name, {}, other)


def test_a_policy_that_needs_no_profile_does_not_mind_its_class() -> None:
    build_governor("fixed", {}, replace(CONTEXT, drafter_class="mtp"))


@pytest.mark.parametrize("name", ["goodput_table", "dspark", "dspark_argmax"])
def test_without_a_profile_it_refuses_to_trim_and_says_so(name: str) -> None:
    bare = replace(CONTEXT, profile=None)
    assert governor_warnings(name, {}, bare) == (
        f"{name} has no profile: it refuses to trim and keeps k_max (reason no-model)",
    )
    decision = build_governor(name, {}, bare).decide(observation(batch=4))
    assert (decision.windows, decision.depth_next, decision.reason) == (3, 3, Reason.NO_MODEL)


def test_warnings() -> None:
    assert governor_warnings("fixed", {}, CONTEXT) == ()
    assert governor_warnings("dspark", {}, CONTEXT) == ()
    unknown = governor_warnings("dspark", {}, replace(CONTEXT, drafter_class=None))
    assert unknown == (
        "dspark: the engine's drafter class is not known; the profile is for 'eagle', unchecked",
    )
    never = governor_warnings("disable_above", {"above": 64}, CONTEXT)
    assert never == ("disable_above.above=64 is never exceeded with max_num_seqs=64: K never changes",)
    flat = replace(CONTEXT, profile=replace(STAIRS, verify_s=(0.01,) * 6, step_s=((0.01,) * 4,) * 3))
    assert "verify_s of the profile is empty or flat" in governor_warnings("dspark_argmax", {}, flat)[0]
    assert "step_s is empty or flat" in governor_warnings("goodput_table", {}, flat)[0]
    smaller = replace(CONTEXT, limits=DepthLimits(3, 64, captured_tokens=(4, 8, 16)))
    assert governor_warnings("dspark", {}, smaller) == (
        "dspark: fitted with 32 captured tokens, but the engine has 16",
    )


def test_which_arms_an_engine_must_arm_its_schedule_for() -> None:
    changing = [name for name in GOVERNORS if changes_depth(name, {})]
    assert changing == [
        "disable_above",
        "schedule",
        "hysteresis_schedule",
        "goodput_table",
        "ema_ladder",
        "cycle",
    ]
    assert changes_depth("dspark", {"rest_after": 64})
    assert not changes_depth("dspark", {"rest_after": 0})
