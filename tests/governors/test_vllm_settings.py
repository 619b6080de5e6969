"""What a server is told, by environment or additional_config; and what of it is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from governors.entry import GovernorError
from governors.vllm_settings import Settings, read_settings
from governors.vllm_versions import TRIED, require_tried
from tests.governors.profiles import STAIRS


def test_nothing_said_is_vllms_own_rule_with_telemetry() -> None:
    assert read_settings({}) == Settings()
    assert read_settings({"DEPTHGATE_GOVERNOR": ""}, {"other": 1}) == Settings()


def test_the_environment_wins_over_additional_config(tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps(STAIRS.to_mapping()))
    config = {
        "depthgate": {
            "governor": "off",
            "options": {"depth": 1},
            "telemetry": False,
            "profile": str(profile),
        }
    }
    environ = {
        "DEPTHGATE_GOVERNOR": "fixed",
        "DEPTHGATE_STEPS": "/x/steps.jsonl",
        "DEPTHGATE_CONTROL": "/x/control",
        "DEPTHGATE_UNTRIED_VLLM": "1",
        "DEPTHGATE_UNARMED_DEPTH": "true",
        "DEPTHGATE_TIME_EVERY": "8",
    }
    assert read_settings(environ, config) == Settings(
        governor="fixed",
        options={"depth": 1},
        profile=STAIRS,
        steps=Path("/x/steps.jsonl"),
        control=Path("/x/control"),
        untried_vllm=True,
        telemetry=False,
        time_every=8,
        unarmed_depth=True,
    )


@pytest.mark.parametrize(
    ("environ", "config", "mend"),
    [
        ({"DEPTHGATE_OPTIONS": "{"}, None, "give a JSON object"),
        ({"DEPTHGATE_OPTIONS": "[1]"}, None, "give a JSON object of option to value"),
        ({"DEPTHGATE_TELEMETRY": "maybe"}, None, "telemetry='maybe': give 1 or 0"),
        ({"DEPTHGATE_TIME_EVERY": "0"}, None, "time_every='0': give a whole number of steps, at least 1"),
        ({}, {"depthgate": {"time_every": 1.5}}, "time_every=1.5: give a whole number of steps"),
        ({"DEPTHGATE_PROFILE": "/nowhere.json"}, None, "give the JSON file of a profile"),
        ({}, {"depthgate": 3}, "give an object"),
        ({}, {"depthgate": {"governer": "fixed"}}, "governer is not known"),
        ({}, {"depthgate": {"governor": 3}}, "governor=3: give a string"),
    ],
)
def test_what_cannot_be_followed_is_refused(environ: dict[str, str], config: Any, mend: str) -> None:
    with pytest.raises(GovernorError) as caught:
        read_settings(environ, config)
    assert mend in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_version_never_tried_is_refused_with_those_that_were() -> None:
    for version in (*TRIED, "0.32.1", "0.33.0rc1", "0.26.0+cpu"):
        require_tried(version, untried=False)
    with pytest.raises(GovernorError, match=r"vLLM 0\.29\.0 was never tried .*0\.28, 0\.32.*UNTRIED_VLLM=1"):
        require_tried("0.29.0", untried=False)
    with pytest.raises(GovernorError):
        require_tried("dev", untried=False)
    require_tried("0.99", untried=True)
