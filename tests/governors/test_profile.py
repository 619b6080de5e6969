"""Profiles: what is refused, and that a profile never serves another drafter class."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from governors.profile import Profile, ProfileError
from tests.governors.profiles import EAGLE, STAIRS


def _mapping(**changes: Any) -> dict[str, Any]:
    return {**STAIRS.to_mapping(), **changes}


def test_survives_json() -> None:
    assert Profile.from_mapping(json.loads(json.dumps(STAIRS.to_mapping()))) == STAIRS
    assert Profile.from_mapping(EAGLE.to_mapping()) == EAGLE


def test_a_missing_draft_time_is_unknown() -> None:
    mapping = _mapping()
    del mapping["draft_s"]
    assert Profile.from_mapping(mapping).draft_s is None


def test_empty_tables_are_a_profile() -> None:
    empty = _mapping(
        batches=[], depths=[], step_s=[], verify_tokens=[], verify_s=[], acceptance=[], captured_tokens=[]
    )
    assert Profile.from_mapping(empty).step_s == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"batches": [1, 4, 4]}, r"profile\.batches=\(1, 4, 4\): sort it"),
        ({"batches": [0, 4, 16]}, r"profile\.batches=.*: begin at 1"),
        ({"depths": [-1, 1, 2, 4]}, r"profile\.depths=.*: begin at 0"),
        ({"depths": [0, 1, 3]}, r"profile\.step_s\[0\] has 4 entries, profile\.depths 3"),
        ({"step_s": []}, r"profile\.step_s has 0 entries, profile\.batches 3"),
        ({"step_s": 3}, r"profile\.step_s=3: give a list"),
        ({"batches": [1, 4, True]}, r"profile\.batches=True: give whole numbers"),
        ({"batches": [1, 4, 256.0]}, r"profile\.batches=256\.0: give whole numbers"),
        ({"verify_tokens": [4, 8]}, r"profile\.verify_s has 6 entries, profile\.verify_tokens 2"),
        ({"verify_s": [0.01, 0.01, math.nan, 0.02, 0.03, 0.04]}, r"profile\.verify_s=nan: give seconds"),
        ({"verify_s": [0.01, 0.01, math.inf, 0.02, 0.03, 0.04]}, r"profile\.verify_s=inf"),
        ({"verify_s": [-0.01, 0.01, 0.02, 0.02, 0.03, 0.04]}, r"profile\.verify_s=-0\.01"),
        ({"verify_s": ["10 ms", 1, 1, 1, 1, 1]}, r"profile\.verify_s='10 ms': give numbers"),
        ({"draft_s": [0.001]}, r"profile\.draft_s has 1 entries, profile\.batches 3"),
        ({"acceptance": [0.5, 0.6]}, r"profile\.acceptance=.*do not rise"),
        ({"acceptance": [1.5]}, r"profile\.acceptance=.*0\.\.1"),
        ({"acceptance": [math.nan]}, r"profile\.acceptance=.*0\.\.1"),
        ({"captured_tokens": [8, 4]}, r"profile\.captured_tokens=\(8, 4\): sort it"),
        ({"is_model": 1}, r"profile\.is_model=1: give true"),
        ({"source": None}, r"profile\.source=None: say in words"),
        ({"binding": "H100"}, r"profile\.binding='H100': give a table"),
        ({"binding": {"hardware": "H100"}}, r"binding\.target_model is missing"),
        ({"acceptence": []}, r"profile\.acceptence is no field of a profile; known are binding"),
    ],
)
def test_refuses(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ProfileError, match=said) as caught:
        Profile.from_mapping(_mapping(**changes))
    assert "\n" not in str(caught.value)


def test_refuses_an_empty_binding() -> None:
    binding = {"hardware": "", "target_model": "m", "drafter_class": "eagle", "engine_version": "v"}
    with pytest.raises(ProfileError, match=r"profile\.binding\.hardware=''"):
        Profile.from_mapping(_mapping(binding=binding))


def test_refuses_a_missing_field() -> None:
    mapping = _mapping()
    del mapping["verify_s"]
    with pytest.raises(ProfileError, match=r"profile\.verify_s is missing"):
        Profile.from_mapping(mapping)


def test_parameters_never_transfer_between_drafter_classes() -> None:
    EAGLE.require_class("eagle")
    with pytest.raises(ProfileError, match=r"drafter_class='eagle', but the engine's drafter is 'mtp'"):
        EAGLE.require_class("mtp")
