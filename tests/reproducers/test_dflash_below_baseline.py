"""dflash-below-baseline on the embedded engine, and what its profile was fitted to and was not."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.embedded.profile import load_profile
from engines.embedded.roofline import modelled_step_s
from reports.reproduction import ReproductionVerdict
from reproducers.dflash_below_baseline import REPRODUCER
from reproducers.registry import REPRODUCERS
from tests.reproducers.virtual import reproduced

PROFILE = load_profile("rtx5090-qwen3-4b-dflash")


def tokens_per_s(requests: int, depth: int) -> float:
    curve = PROFILE.acceptance.by_class["default"]
    return requests * (1 + sum(curve[:depth])) / modelled_step_s(PROFILE, requests, depth)


@pytest.mark.parametrize(
    ("requests", "depth", "published"), [(1, 0, 170), (16, 0, 2277), (1, 7, 274), (16, 7, 1834)]
)
def test_the_profile_gives_what_it_was_fitted_to(requests: int, depth: int, published: float) -> None:
    assert tokens_per_s(requests, depth) == pytest.approx(published, rel=0.01)


def test_held_out_at_8_requests_it_misses_by_a_tenth() -> None:
    """pegainfer 1,180 without and 1,525 with DFlash; vLLM's DFlash 1,240, which our figure lies between."""
    assert tokens_per_s(8, 0) == pytest.approx(1180, rel=0.07)
    assert 1240 < tokens_per_s(8, 7) < 1525


def test_drafter_classes_are_evaluated_apart() -> None:
    suites = {REPRODUCERS[f"{name}-below-baseline"].suite for name in ("suffix", "dflash")}
    assert len(suites) == 2


def test_the_embedded_engine_has_it_with_poor_drafts_alone(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED
