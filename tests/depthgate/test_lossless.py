"""The correctness gate end to end on the embedded engine; tests/vllm has it on real vLLM."""

from __future__ import annotations

import json

import pytest

from depthgate.__main__ import main
from depthgate.lossless import constant_depth
from suites.model import Arm
from tests.depthgate.cli import refusal

pytestmark = pytest.mark.http
SCHEDULE = {"schedule": [[1, 2, 4], [3, 512, 0]]}


@pytest.mark.parametrize(
    ("arm", "depth"),
    [
        (Arm("a", "off"), None),
        (Arm("a", "fixed", {"depth": 2}), 2),
        (Arm("a", "schedule", SCHEDULE), 4),  # one stream is one request
        (Arm("a", "goodput_table"), None),
        (Arm("a", "dspark"), None),
    ],
)
def test_constant_depth(arm: Arm, depth: int | None) -> None:
    assert constant_depth(arm) == depth


def test_the_embedded_engine_is_lossless_and_one_k_accepts_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["lossless", "threshold-collapse", "--prompts", "2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {"baseline": "off", "arms": ["off", "fixed_2", "schedule"], "faults": []}


def test_bad_input() -> None:
    assert "--prompts: '0' must be a whole number from 1 to" in refusal(
        "lossless", "quickstart", "--prompts", "0"
    )
    assert "not known" in refusal("lossless", "quikstart")
