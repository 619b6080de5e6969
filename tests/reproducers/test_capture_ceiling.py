"""capture-ceiling: its rule, what the configuration alone foretells, both reports on the embedded engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.reproduction import ReproductionVerdict
from reproducers.capture_ceiling import REPRODUCER, assess, check
from reproducers.changes import together, with_arm, with_load, with_options
from reproducers.configuration import EngineConfig, default_sizes
from suites.parse import load_suite
from tests.reproducers.made_up import cell, judgement, rates_by_width
from tests.reproducers.virtual import assessed, reproduced

POSITIONS = [0.8, 0.6, 0.45, 0.34, 0.26, 0.2, 0.15]


def verdict(deep: dict[int, float], shallow: dict[int, float]) -> ReproductionVerdict:
    """Factors over no speculation, by concurrency."""
    run = judgement([cell(arm, at) for arm in ("off", "shallow", "deep") for at in deep])
    rates = rates_by_width({"off": dict.fromkeys(deep, 1.0), "shallow": shallow, "deep": deep})
    return assess(run, rates).verdict


def test_a_cliff_at_the_full_batch_is_reproduced_and_a_slope_is_not() -> None:
    assert verdict({5: 1.3, 6: 0.3}, {5: 1.3, 6: 1.3}) is ReproductionVerdict.REPRODUCED
    assert verdict({5: 1.3, 6: 1.2}, {5: 1.3, 6: 1.3}) is ReproductionVerdict.NOT_REPRODUCED


def test_a_loss_that_one_draft_less_shares_is_no_ceiling() -> None:
    assert verdict({5: 1.3, 6: 0.3}, {5: 1.3, 6: 0.3}) is ReproductionVerdict.NOT_REPRODUCED


def test_the_field_s_configurations_are_foretold() -> None:
    """vllm#54933: 42 asked, 40 captured, 6 x 7 = 42 tokens. vllm#49390: 512 / (1 + 7) = 64 requests."""
    (six,) = check(EngineConfig(6, (0, 6), default_sizes(42), capture_limit=42))
    assert six.sentence == (
        "K=6 with 40 captured tokens (42 asked, cut down to 40): at most 5 of max_num_seqs=6 requests run in "
        "a graph; raise max_cudagraph_capture_size to 48, or lower max_num_seqs to 5"
    )
    (seven,) = check(EngineConfig(256, (7,), default_sizes(512), capture_limit=512))
    assert seven.sentence == (
        "K=7 with 512 captured tokens: at most 64 of max_num_seqs=256 requests run in a graph; "
        "raise max_cudagraph_capture_size to 2048, or lower max_num_seqs to 64"
    )


def test_enough_captured_tokens_or_unknown_ones_are_no_finding() -> None:
    assert check(EngineConfig(64, (0, 7), default_sizes(512))) == ()
    assert check(EngineConfig(64, (7,), None)) == ()


def test_the_embedded_engine_has_it_below_the_ceiling_alone(tmp_path: Path) -> None:
    main = reproduced(REPRODUCER, tmp_path / "main")
    assert main.verdict is ReproductionVerdict.REPRODUCED
    assert REPRODUCER.expected.holds(main.ratio)
    control = reproduced(REPRODUCER, tmp_path / "control", control=True)
    assert control.verdict is ReproductionVerdict.NOT_REPRODUCED


@pytest.mark.parametrize(
    ("widths", "expected"),
    [((56, 72), ReproductionVerdict.REPRODUCED), ((56, 64), ReproductionVerdict.NOT_REPRODUCED)],
    ids=["above-64", "up-to-64"],
)
def test_seven_drafts_with_512_captured_fall_off_above_64_requests(
    widths: tuple[int, int], expected: ReproductionVerdict, tmp_path: Path
) -> None:
    """vllm#49390 under load: 64 x 8 = 512 tokens still fit, 72 x 8 = 576 do not, 72 x 7 = 504 do."""
    change = together(
        with_options(
            k_max=7,
            max_num_seqs=256,
            acceptance={"by_class": {"default": POSITIONS}},
            penalties={"capture_sizes": list(default_sizes(512))},
        ),
        with_load(concurrency=widths, requests_per_stream=1),
        with_arm("deep", "fixed", depth=7),
        with_arm("shallow", "fixed", depth=6),
    )
    assert assessed(REPRODUCER, change(load_suite(REPRODUCER.suite)), tmp_path / "run").verdict is expected
