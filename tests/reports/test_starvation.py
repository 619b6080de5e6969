"""The detector of state starvation: which steps count, at which depth, what it says of a made-up journal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reports.starvation import FIRST, SETTLED, resumption, starvation, starvation_note
from reports.step_series import StepSeries


def journal(depths: list[int], rates: list[float], requests: int = 10) -> StepSeries:
    """A step for each depth in force; `rates`: what share of its drafts passes."""
    count = len(depths)
    verified = np.array(depths, dtype=np.int64) * requests
    accepted = np.array([round(v * rate) for v, rate in zip(verified, rates, strict=True)], dtype=np.int64)
    return StepSeries(
        step=np.arange(count),
        start_s=np.linspace(0.0, 1.0, count),
        batch=np.full(count, requests),
        depth_in_force=np.array(depths, dtype=np.int64),
        depth_chosen=np.array(depths, dtype=np.int64),
        depth_executed=np.array(depths, dtype=np.int64),
        verified=verified,
        accepted=accepted,
        emitted=accepted + requests,
    )


def after(pauses: int, starved: float, fed: float, running: int = 12) -> StepSeries:
    """K=3 from the start, then `pauses` times three steps at 0 and `running` at 3, the first two starved."""
    depths = [3] * 4 + ([0] * 3 + [3] * running) * pauses
    rates = [fed] * 4 + ([0.0] * 3 + [starved] * 2 + [fed] * (running - 2)) * pauses
    return journal(depths, rates)


def test_the_first_steps_after_a_pause_are_resumed_and_late_ones_settled() -> None:
    found = resumption(after(pauses=1, starved=0.1, fed=0.7))
    assert found.resumed_verified[:, 3].tolist() == [0, FIRST * 30]
    assert found.settled_verified[:, 3].tolist() == [4 * 30, (12 - SETTLED + 1) * 30]
    assert found.resumed_rate == pytest.approx(0.1)
    assert found.settled_rate == pytest.approx(0.7)


def test_starvation_is_the_ratio_at_the_same_depth() -> None:
    found = starvation(resumption(after(pauses=6, starved=0.1, fed=0.7)))
    assert found is not None
    assert found.point == pytest.approx(0.1 / 0.7)
    assert found.high < 0.2


def test_a_drafter_that_minds_no_pause_is_at_one() -> None:
    found = starvation(resumption(after(pauses=6, starved=0.7, fed=0.7)))
    assert found is not None
    assert found.point == pytest.approx(1.0)
    assert found.low < 1.0 < found.high


def test_few_settled_drafts_decide_nothing() -> None:
    """Ten pauses, and one settled verification of ten drafts in which all happened to pass."""
    depths = [1] + [0, 0, 1] * 10
    lucky = starvation(resumption(journal(depths, [1.0] + [0.0, 0.0, 0.6] * 10, requests=1)))
    assert lucky is not None
    assert lucky.high > 1.0


def test_depths_are_compared_with_themselves_alone() -> None:
    """After pauses K is 1, where .9 pass; settled steps are at K=3, where .5 do: that is no starvation."""
    shallow = [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    depths = ([3] * 10 + shallow) * 4
    rates = [0.5 if depth == 3 else 0.9 for depth in depths]
    found = starvation(resumption(journal(depths, rates)))
    assert found is not None
    assert found.point == pytest.approx(1.0)


def test_a_reference_serves_a_journal_that_never_settles() -> None:
    pulse = resumption(journal([0, 0, 0, 3] * 8, [0.0, 0.0, 0.0, 0.1] * 8))
    assert pulse.settled_rate is None
    assert starvation(pulse) is None
    found = starvation(pulse, resumption(journal([3] * 20, [0.7] * 20)))
    assert found is not None
    assert found.point == pytest.approx(0.1 / 0.7)


def test_one_pause_shows_no_spread_and_none_shows_nothing() -> None:
    assert starvation(resumption(after(pauses=1, starved=0.1, fed=0.7))) is None
    never = resumption(journal([3] * 5, [0.7] * 5))
    assert never.resumed_rate is None
    assert never.settled_rate == pytest.approx(0.7)
    empty = resumption(journal([], []))
    assert (empty.resumed_rate, empty.settled_rate) == (None, None)


def test_a_starved_cell_is_noted_over_all_its_journals() -> None:
    """One pause a journal shows no spread; three journals do. Depths may differ between them."""
    journals = [after(pauses=1, starved=rate, fed=0.7) for rate in (0.1, 0.13, 0.07)]
    journals.append(journal([1] * 5, [0.9] * 5))
    note = starvation_note(journals, seed=1, confidence=0.95)
    assert note is not None
    assert note.startswith("drafter state starves after K=0: the first drafts after it pass 0.14 (0.")
    assert starvation_note(journals[:1], seed=1, confidence=0.95) is None
    assert starvation_note([after(4, starved=0.7, fed=0.7)], seed=1, confidence=0.95) is None
    assert starvation_note([], seed=1, confidence=0.95) is None


def test_steps_that_only_prefill_are_no_pause() -> None:
    steps = journal([3, 0, 3, 3], [0.7, 0.0, 0.7, 0.7])
    prefill = replace(steps, batch=np.array([10, 0, 10, 10]))
    assert resumption(prefill).resumed_rate is None
