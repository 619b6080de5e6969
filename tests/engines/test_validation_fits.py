"""Held-out predictions are held out; the closed forms behind them, against brute force."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from engines.embedded.constants import ForwardSpec, HardwareSpec
from engines.embedded.core import CoreSpec, EngineCore
from engines.embedded.roofline import ForwardTime, RooflineCost, modelled_step_s
from engines.embedded.simulate import Arrival, simulate
from engines.embedded.validation.fitting import fit, without_each
from engines.embedded.validation.prediction import Predictor
from engines.embedded.validation.setting import HOST_TIMES, placed
from engines.embedded.validation.survival import burst_shares, length, population, trimmings
from engines.embedded.validation.table import Cell, Table, load_table, table_names
from engines.embedded.validation.validate import FITTED, LEFT_OUT, SPLIT, validate_table
from governors.contract import DepthDecision, StepObservation, StepOutcome
from governors.profile import ProfileError


def changed(table: Table, index: int, factor: float) -> Table:
    cells = list(table.cells)
    cells[index] = replace(cells[index], value=cells[index].value * factor)
    return replace(table, cells=tuple(cells))


class TestHeldOut:
    TABLE = load_table("strix-27b-q4")
    SPLIT = load_table("vllm32374-eagle")

    def test_a_cell_left_out_alone_does_not_shape_its_own_prediction(self) -> None:
        before = validate_table(self.TABLE).predictions
        after = validate_table(changed(self.TABLE, 4, 1.3)).predictions
        assert before[4].role == LEFT_OUT
        assert after[4].predicted == pytest.approx(
            before[4].predicted, rel=2e-3
        )  # starts differ, optimum not
        assert after[3].predicted != pytest.approx(before[3].predicted, rel=2e-3)

    def test_cells_held_out_by_the_split_shape_no_prediction(self) -> None:
        index = self.SPLIT.fitted.index(False)
        before = validate_table(self.SPLIT).predictions
        after = validate_table(changed(self.SPLIT, index, 2.0)).predictions
        assert before[index].role == SPLIT
        for one, other in zip(before, after, strict=True):
            if one.role == SPLIT:
                assert other.predicted == one.predicted

    def test_every_cell_is_predicted_once_and_by_a_fit_without_it(self) -> None:
        for name in table_names():
            table = load_table(name)
            assert table.header.leave_one_out
            assert len(table.fitted) == len(table.cells)
        roles = [cell.role for cell in validate_table(self.SPLIT).predictions]
        assert roles.count(SPLIT) == 8
        assert roles.count(LEFT_OUT) == 12
        assert FITTED not in roles

    def test_one_gauss_newton_step_stands_in_for_a_whole_fit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        table = load_table("h20-qwen3-8b-dcut")
        start = fit(table, table.cells).values
        index = next(at for at, cell in enumerate(table.cells) if cell.arm == "dcut_16")
        others = [cell for at, cell in enumerate(table.cells) if at != index]
        whole = Predictor(table, fit(table, others, start).values).value(table.cells[index])
        monkeypatch.setattr("engines.embedded.validation.fitting.REFIT_CELLS", 10)
        indices = [at for at, fitted in enumerate(table.fitted) if fitted]
        stepped = without_each(table, start)
        assert sorted(stepped) == indices
        near = Predictor(table, stepped[indices[-1]]).value(table.cells[indices[-1]])
        exact = [cell for at, cell in enumerate(table.cells) if at != indices[-1]]
        full = Predictor(table, fit(table, exact, start).values).value(table.cells[indices[-1]])
        assert near == pytest.approx(full, rel=0.01)
        assert whole > 0


class TestPredictor:
    def test_a_step_is_the_engine_s_own(self) -> None:
        table = load_table("vllm32374-eagle")
        cell = Cell("step_s", "eagle", 16, 1.0, depth=3)
        own = modelled_step_s(table.settings["eagle"].profile, 16, 3)
        assert Predictor(table, {}).value(cell) == own

    def test_constants_reach_only_their_arms(self) -> None:
        table = load_table("h20-qwen3-8b-dcut")
        cell = Cell("ratio", "eagle3", 16, 1.0)
        other = Predictor(table, {"dflash_8,dflash_16/rate": 0.9}).value(replace(cell, arm="dflash_8"))
        assert Predictor(table, {"eagle3/rate": 0.6}).value(cell) < Predictor(
            table, {"eagle3/rate": 0.9}
        ).value(cell)
        assert other > Predictor(table, {"dflash_8,dflash_16/rate": 0.5}).value(replace(cell, arm="dflash_8"))

    def test_trimming_finds_the_best_windows(self) -> None:
        """Against every number of drafts; a trimmed step never does worse than all or none."""
        table = load_table("h20-qwen3-8b-dcut")
        values = {"dcut_16,dflash_16/rate": 0.8, "dcut_16,dflash_16/spread": 1.0, "dcut_16/policy_s": 1e-9}
        predictor = Predictor(table, values)
        for batch in (4, 64):
            trimmed = predictor.value(Cell("tokens_per_s", "dcut_16", batch, 1.0))
            whole = predictor.value(Cell("tokens_per_s", "dflash_16", batch, 1.0))
            assert trimmed >= whole * (1 - 1e-6)

    def test_a_full_cache_bounds_what_runs_at_once(self) -> None:
        table = load_table("h100nvl-gemma4-context")
        cell = Cell("tokens_per_s", "off", 256, 1.0, context_tokens=900)
        small = Predictor(table, {"kv_capacity_bytes": 20e9}).value(cell)
        assert small < Predictor(table, {"kv_capacity_bytes": 40e9}).value(cell)
        setting = replace(table.settings["off"], kv_capacity_bytes=901120.0 * 900)
        assert setting.held(900) == pytest.approx(1.0)
        beyond = setting.held(2048) * (81920 * 2048 + 819200 * 1024)
        assert beyond == pytest.approx(901120.0 * 900)

    def test_host_level_scales_every_host_time(self) -> None:
        setting = replace(load_table("h200-qwen3-4b-http").settings["k2_in_sweep"], host_level=2.0)
        host, before = setting.placed_host().host, setting.profile.host
        assert all(getattr(host, name) == 2 * getattr(before, name) for name in HOST_TIMES)
        assert host.level_sd == before.level_sd

    def test_an_unknown_constant_is_named(self) -> None:
        with pytest.raises(ProfileError, match="hardwear"):
            placed(load_table("strix-80b").settings["off"], "profile.hardwear.flops_per_s", 1.0)


class _Burst:
    """16 requests at once, drafting 3; a policy that never changes its mind."""

    def decide(self, observation: StepObservation) -> DepthDecision:
        return DepthDecision(observation.limits.k_max, 3)

    def observe(self, outcome: StepOutcome) -> None:
        """Learns nothing."""

    def start(self) -> Sequence[Arrival]:
        return [Arrival(0.0, at, 64, 400, acceptance_seed=at) for at in range(16)]

    def finished(self, stream: int, now_s: float) -> Sequence[Arrival]:
        return ()


def test_the_closed_form_is_what_the_whole_engine_does() -> None:
    """Tokens a second of the steps with the whole batch, simulated step by step with drawn acceptance."""
    table = load_table("vllm32374-eagle")
    profile = table.settings["eagle"].profile
    traffic = _Burst()
    spec = CoreSpec(profile.scheduler, profile.acceptance, profile.penalties, profile.k_max, True, False, 1)
    steps = simulate(EngineCore(spec, RooflineCost(profile), traffic), traffic).steps
    whole = [step for step in steps if step.batch == 16 and not step.prefill_requests and step.step_s]
    assert len(whole) > 100
    simulated = sum(step.emitted for step in whole) / sum(step.step_s or 0.0 for step in whole)
    predicted = Predictor(table, {}).value(Cell("tokens_per_s", "eagle", 16, 1.0, 3, context_tokens=250))
    assert predicted == pytest.approx(simulated, rel=0.02)


class TestSurvival:
    def test_length_without_spread_is_the_geometric_sum(self) -> None:
        assert length(0.8, 0.0, 3) == pytest.approx(1 + 0.8 + 0.64 + 0.512)

    def test_spread_against_a_drawn_population(self) -> None:
        random = Random(3)
        logit = math.log(0.7 / 0.3)
        rates = [1 / (1 + math.exp(-(logit + 1.2 * random.gauss(0, 1)))) for _ in range(40_000)]
        drawn = 1 + sum(sum(rate**k for k in range(1, 8)) for rate in rates) / len(rates)
        assert length(0.7, 1.2, 7) == pytest.approx(drawn, rel=0.01)

    def test_trimmings_keep_the_likeliest_first_and_prefixes_whole(self) -> None:
        steps = trimmings(0.8, 1.0, 7)
        gains = [
            (later[1] - earlier[1]) / (later[0] - earlier[0])
            for earlier, later in pairwise(steps)
            if later[0] - earlier[0] > 1e-6
        ]
        assert all(later <= earlier + 1e-9 for earlier, later in pairwise(gains))
        assert steps[-1] == pytest.approx((7.0, length(0.8, 1.0, 7) - 1))
        survival, _ = population(0.8, 1.0, 7)
        assert (np.diff(survival, axis=1) <= 0).all()

    def test_burst_shares_against_a_drawn_burst(self) -> None:
        """Mean number of running requests over a burst of 64 answers of 128 tokens at .8, .6."""
        random = Random(5)

        def steps() -> int:
            left, count = 128, 0
            while left > 0:
                left -= 1 + (random.random() < 0.8) * (1 + (random.random() < 0.75))
                count += 1
            return count

        drawn = []
        for _ in range(60):
            ends = sorted(steps() for _ in range(64))
            drawn.append(sum(ends) / (64 * ends[-1]))
        shares = burst_shares((0.8, 0.6), 128, 64)
        modelled = 1 - sum((1 - active) * share for active, share in shares)
        assert modelled == pytest.approx(sum(drawn) / len(drawn), abs=0.01)


class TestSlidingWindow:
    HARDWARE = HardwareSpec("h", 100.0, 100.0, 1e9, 1e9, roofline_sharpness=1.0)
    SPEC = ForwardSpec(200, 0, 1, 0, 0.0, kv_window_bytes_per_token=10, kv_window_tokens=20)

    @pytest.mark.parametrize(
        ("context", "bytes_read"), [(20, 200 + 20 + 200), (40, 200 + 40 + 400), (400, 200 + 400 + 400)]
    )
    def test_two_requests_read_at_most_their_windows(self, context: int, bytes_read: int) -> None:
        assert ForwardTime(self.SPEC, self.HARDWARE).seconds(2, 2, context) == pytest.approx(bytes_read / 100)

    def test_no_window_by_default(self) -> None:
        plain = ForwardTime(ForwardSpec(200, 0, 1, 0, 0.0), self.HARDWARE)
        assert plain.seconds(2, 2, 400) == pytest.approx(6.0)
