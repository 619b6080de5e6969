"""Changes of a suite: what they touch, and that the suite they were given stays as it was."""

from __future__ import annotations

import pytest

from reproducers.changes import together, with_arm, with_load, with_options, with_penalties
from suites.canonical import suite_sha256
from suites.parse import load_suite


def test_a_switch_is_set_and_none_drops_the_suite_s_own() -> None:
    suite = load_suite("policy-not-applied")
    assert with_penalties(zero_depth_sync=False)(suite).engine.options["penalties"] == {
        "policy_ignored": 2,
        "zero_depth_sync": False,
    }
    assert with_penalties(policy_ignored=None)(suite).engine.options["penalties"] == {}
    assert suite.engine.options["penalties"] == {"policy_ignored": 2}


def test_changes_come_together_and_leave_the_rest() -> None:
    suite = load_suite("threshold-collapse")
    before = suite_sha256(suite)
    changed = together(
        with_options(max_num_seqs=6), with_load(concurrency=(3,)), with_arm("schedule", "fixed", depth=2)
    )(suite)
    assert changed.engine.options["max_num_seqs"] == 6
    assert changed.load.concurrency == (3,)
    assert [(arm.name, arm.governor) for arm in changed.arms][-1] == ("schedule", "fixed")
    assert changed.traffic == suite.traffic
    assert suite_sha256(suite) == before


def test_an_arm_that_is_not_there_is_no_silent_change() -> None:
    with pytest.raises(AssertionError, match="no arm 'nobody'"):
        with_arm("nobody", "off")(load_suite("threshold-collapse"))
