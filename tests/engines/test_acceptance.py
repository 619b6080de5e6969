"""Acceptance processes: published rates over a population, independence, drift, batch slope, confidence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from engines.embedded.acceptance import AcceptanceProcess, starved_logits
from engines.embedded.calibration import sigmoid
from engines.embedded.core import EngineCore
from engines.embedded.requests import NewRequest
from engines.embedded.specs import AcceptanceSpec, ConfidenceSpec
from governors.contract import DepthDecision, StepObservation, StepOutcome
from tests.engines.fakes import LinearCost, core_spec, scheduler

CURVE = (0.8, 0.62, 0.48, 0.37)


@dataclass
class Counting:
    """Fixed depth; keeps each request's latest history and every decided (confidence, accepted) pair."""

    depth: int

    def __post_init__(self) -> None:
        self.reached: dict[int, NDArray[np.int64]] = {}
        self.accepted: dict[int, NDArray[np.int64]] = {}
        self.claimed: list[NDArray[np.float64]] = []
        self.passed: list[NDArray[np.bool_]] = []
        self._confidence: NDArray[np.float64] = np.zeros((0, 0))

    def decide(self, observation: StepObservation) -> DepthDecision:
        history = observation.history
        for row, handle in enumerate(observation.request_ids.tolist()):
            self.reached[handle] = history.reached[row]
            self.accepted[handle] = history.accepted[row]
        self._confidence = observation.confidence
        return DepthDecision(self.depth, self.depth)

    def observe(self, outcome: StepOutcome) -> None:
        positions = np.arange(self._confidence.shape[1])
        decided = positions < np.minimum(outcome.accepted + 1, outcome.verified)[:, None]
        self.claimed.append(self._confidence[decided])
        self.passed.append((positions < outcome.accepted[:, None])[decided])


def run_population(acceptance: AcceptanceSpec, requests: int, output: int, depth: int, seed: int) -> Counting:
    governor = Counting(depth)
    seqs = 500
    spec = core_spec(
        scheduler(seqs=seqs, budget=50_000, model_len=4_096, block=64, blocks=100_000),
        acceptance=acceptance,
        k_max=depth,
        seed=seed,
    )
    core = EngineCore(spec, LinearCost(), governor)
    for index in range(requests):
        core.submit(NewRequest(4, output, acceptance_seed=index), 0.0)
    now_s = 0.0
    while (result := core.step(now_s)) is not None:
        now_s = result.record.end_s
    return governor


def z_scores(governor: Counting, curve: tuple[float, ...]) -> list[float]:
    """(rate - published) in standard errors, clustered by request: its rounds are not independent."""
    accepted = np.array(list(governor.accepted.values()), dtype=np.float64)
    rounds = np.array([reached[0] for reached in governor.reached.values()], dtype=np.float64)
    scores = []
    for position, published in enumerate(curve):
        residual = accepted[:, position] - published * rounds
        scores.append(float(residual.sum() / np.sqrt((residual**2).sum())))
    return scores


@pytest.mark.parametrize(
    ("spread", "drift", "drift_tokens"),
    [(0.0, 0.0, 100.0), (0.8, 0.0, 100.0), (0.0, 0.8, 60.0), (0.6, 0.5, 40.0)],
)
def test_the_engine_shows_the_published_rates(spread: float, drift: float, drift_tokens: float) -> None:
    """1,500 requests of 300 tokens at full depth: every position within 4 clustered standard errors of a_p.

    One position exceeds that by chance once in 16,000 runs; the seed is fixed.
    """
    spec = AcceptanceSpec({"default": CURVE}, spread=spread, drift=drift, drift_tokens=drift_tokens)
    governor = run_population(spec, requests=1_500, output=300, depth=4, seed=7)
    assert max(abs(score) for score in z_scores(governor, CURVE)) < 4.0


def test_the_bound_would_catch_a_curve_that_is_off_by_two_points() -> None:
    spec = AcceptanceSpec({"default": CURVE}, spread=0.6, drift=0.5, drift_tokens=40.0)
    governor = run_population(spec, requests=1_500, output=300, depth=4, seed=7)
    shifted = tuple(rate - 0.02 for rate in CURVE)
    assert min(abs(score) for score in z_scores(governor, shifted)) > 1.0
    assert max(abs(score) for score in z_scores(governor, shifted)) > 4.0


def test_classes_have_their_own_rates_and_default_serves_the_others() -> None:
    process = AcceptanceProcess(AcceptanceSpec({"default": (0.5,), "gsm8k": (0.9,)}), k_max=1, seed=0)
    classes = [process.trait(name, 1).class_index for name in ("gsm8k", "default", "verse")]
    rates = sigmoid(process.logits(np.array(classes), np.zeros(3), 1))[:, 0]
    assert rates.tolist() == pytest.approx([0.9, 0.5, 0.5])


def process_of(
    spread: float = 0.0, drift: float = 0.0, drift_tokens: float = 100.0, batch_slope: float = 0.0
) -> AcceptanceProcess:
    spec = AcceptanceSpec({"default": CURVE}, spread, drift, drift_tokens, batch_slope)
    return AcceptanceProcess(spec, k_max=4, seed=3)


def test_a_shorter_window_sees_the_same_luck() -> None:
    process = process_of()
    keys = np.array([process.trait("default", seed).key for seed in range(400)], dtype=np.uint64)
    emitted = np.arange(400) % 37
    logits = process.logits(np.zeros(400, dtype=np.int64), np.zeros(400), 4)
    full = process.accepted(keys, emitted, logits, np.full(400, 4))
    for depth in (1, 2, 3):
        short = process.accepted(keys, emitted, logits[:, :depth].copy(), np.full(400, depth))
        assert short.tolist() == np.minimum(full, depth).tolist()
    assert len(set(full.tolist())) == 5


def outputs_of(others: int, handle_seed: int) -> list[int]:
    """What the request with `handle_seed` emits a step, beside `others`."""
    spec = core_spec(
        scheduler(seqs=64, budget=4_000, blocks=4_000),
        acceptance=AcceptanceSpec({"default": CURVE}, spread=0.7, drift=0.6, drift_tokens=16.0),
        k_max=4,
        seed=1,
    )
    core = EngineCore(spec, LinearCost(), Counting(4))
    mine = core.submit(NewRequest(4, 120, acceptance_seed=handle_seed), 0.0)
    for seed in range(others):
        core.submit(NewRequest(9, 60 + seed, acceptance_seed=1_000 + seed), 0.0)
    mined = []
    while (result := core.step(0.0)) is not None:
        mined += result.counts[result.handles == mine].tolist()
    return mined


def test_a_requests_draws_do_not_depend_on_who_else_runs() -> None:
    alone = outputs_of(others=0, handle_seed=5)
    assert sum(alone) == 120
    assert outputs_of(others=20, handle_seed=5) == alone
    assert outputs_of(others=0, handle_seed=6) != alone


def test_offsets_spread_between_requests() -> None:
    process = process_of(spread=0.7)
    own = np.array([process.trait("default", seed).own for seed in range(4_000)])
    assert abs(own.mean()) < 4 * 0.7 / np.sqrt(4_000)
    assert abs(own.std() / 0.7 - 1) < 4 / np.sqrt(2 * 4_000)


@pytest.mark.parametrize("step_tokens", [1, 3, 5])
def test_drift_is_stationary_and_fades_over_its_length(step_tokens: int) -> None:
    """sd .5 throughout; correlation e^-1 after drift_tokens = 40, however the output advances."""
    requests, process = 4_000, process_of(drift=0.5, drift_tokens=40.0)
    traits = [process.trait("default", seed) for seed in range(requests)]
    keys = np.array([trait.key for trait in traits], dtype=np.uint64)
    start = np.array([trait.drift for trait in traits])
    drift, ends = start.copy(), np.full(requests, process.cell_tokens)
    emitted = np.zeros(requests, dtype=np.int64)
    while emitted[0] < 40:
        emitted += min(step_tokens, 40 - int(emitted[0]))
        process.drifted(keys, emitted, ends, drift)
    assert abs(drift.std() / 0.5 - 1) < 4 / np.sqrt(2 * requests)
    correlation = float(np.corrcoef(start, drift)[0, 1])
    assert abs(correlation - np.exp(-1)) < 4 * (1 - np.exp(-2)) / np.sqrt(requests)


def test_the_drift_path_does_not_depend_on_the_stride() -> None:
    paths = []
    for stride in (1, 2, 40):
        process = process_of(drift=0.5, drift_tokens=16.0)
        keys = np.arange(50, dtype=np.uint64)
        drift, ends = np.zeros(50), np.full(50, process.cell_tokens)
        for emitted in range(stride, 41, stride):
            process.drifted(keys, np.full(50, emitted), ends, drift)
        paths.append(drift.tolist())
    assert process.cell_tokens == 2
    assert paths[0] == paths[1]
    assert paths[0] == paths[2]


def test_the_batch_slope_is_in_logits_a_doubling() -> None:
    process = process_of(batch_slope=-0.25)
    alone = process.logits(np.zeros(1, dtype=np.int64), np.zeros(1), 2)
    eight = process.logits(np.zeros(8, dtype=np.int64), np.zeros(8), 2)
    assert sigmoid(alone)[0].tolist() == pytest.approx([0.8, 0.62 / 0.8])
    assert (eight[0] - alone[0]).tolist() == pytest.approx([-0.75, -0.75])


def test_a_knee_counts_doublings_of_the_step_s_tokens_above_it() -> None:
    """4 requests at K=4 are 20 tokens; at K=1 it takes 10 requests to hold as many (llama.cpp#27117)."""
    spec = AcceptanceSpec({"default": CURVE}, batch_slope=-0.5, batch_knee_tokens=20)
    process = AcceptanceProcess(spec, k_max=4, seed=3)

    def shift(batch: int, depth: int) -> float:
        rows = process.logits(np.zeros(batch, dtype=np.int64), np.zeros(batch), depth)
        return float(rows[0, 0] - process_of().logits(np.zeros(1, dtype=np.int64), np.zeros(1), depth)[0, 0])

    assert [shift(batch, 4) for batch in (1, 4, 8, 16)] == pytest.approx([0.0, 0.0, -0.5, -1.0])
    assert [shift(batch, 1) for batch in (4, 10, 20)] == pytest.approx([0.0, 0.0, -0.5])


def test_acceptance_follows_its_course_from_the_engine_s_first_step() -> None:
    """Linear between the points, constant beyond them; as old as the engine, not as the clock says."""
    spec = AcceptanceSpec({"default": CURVE}, course=((10.0, 0.0), (20.0, -2.0)))
    process = AcceptanceProcess(spec, k_max=4, seed=3)
    assert [process.shift(age) for age in (0.0, 10.0, 15.0, 20.0, 99.0)] == [0.0, 0.0, -1.0, -2.0, -2.0]
    assert process_of().shift(5.0) == 0.0
    stale = replace(spec, course=((0.0, -20.0), (1e6, -20.0)))
    assert run_population(stale, 20, 40, 4, seed=1).accepted[0].sum() == 0


def test_starved_rows_alone_are_multiplied() -> None:
    logits = np.array([[0.0, 1.0], [0.0, 1.0]])
    out = sigmoid(starved_logits(logits, np.array([0, 1]), 0.1))
    assert out.tolist() == [
        pytest.approx([0.5, 0.7310586]),
        pytest.approx([0.05, 0.07310586]),
    ]


def calibration_gap(confidence: ConfidenceSpec) -> tuple[float, float]:
    """Claimed minus realised conditional acceptance among bold claims (> .85) and the rest, in sd."""
    spec = AcceptanceSpec({"default": CURVE}, spread=1.0, confidence=confidence)
    governor = run_population(spec, requests=400, output=100, depth=4, seed=2)
    claimed, passed = np.concatenate(governor.claimed), np.concatenate(governor.passed)
    gaps = []
    for chosen in (claimed > 0.85, claimed <= 0.85):
        claims, hits = claimed[chosen], passed[chosen]
        sd = np.sqrt(max(float((claims * (1 - claims)).sum()), 1.0))
        gaps.append(float((claims - hits).sum() / sd))
    return gaps[0], gaps[1]


def test_a_calibrated_head_claims_what_comes_true() -> None:
    bold, rest = calibration_gap(ConfidenceSpec())
    assert abs(bold) < 4
    assert abs(rest) < 4


def test_a_steep_head_is_overconfident_at_the_top() -> None:
    assert calibration_gap(ConfidenceSpec(slope=2.0))[0] > 6


def test_a_biased_head_claims_too_much_everywhere() -> None:
    assert min(calibration_gap(ConfidenceSpec(bias=1.0))) > 6


def test_noise_moves_claims_and_not_acceptance() -> None:
    spec = AcceptanceSpec({"default": CURVE}, spread=0.5, confidence=ConfidenceSpec())
    noisy = AcceptanceSpec({"default": CURVE}, spread=0.5, confidence=ConfidenceSpec(noise=0.8))
    quiet_run, noisy_run = (run_population(each, 50, 60, 4, seed=4) for each in (spec, noisy))
    assert [a.tolist() for a in quiet_run.passed] == [a.tolist() for a in noisy_run.passed]
    quiet, loud = (np.concatenate(run.claimed) for run in (quiet_run, noisy_run))
    moved = np.log(loud / (1 - loud)) - np.log(quiet / (1 - quiet))
    assert abs(moved.std() / 0.8 - 1) < 4 / np.sqrt(2 * len(moved))
