"""Profiles against the data they were fitted to, and against what was held out. Needs the development data.

Tolerances are those of docs/profiles.md. Where one is marked "seen", the comparison was looked at first and
showed a miss that no named constant explains; the bound records the miss.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from engines.embedded.fits import community, h100, h200_device, h200_host
from engines.embedded.fits.bursts import burst_tokens_per_s, measured_bursts
from engines.embedded.fits.bursts import geometric_mean as gmean
from engines.embedded.fits.campaign import StepRow, step_rows
from engines.embedded.profile import EngineProfile, apply_options, load_profile
from engines.embedded.roofline import RooflineCost, decode_shape, modelled_step_s
from governors.contract import GraphMode
from tests.shared_files import SHARED, shared_file

H200 = load_profile("h200-qwen3-4b-eagle")
H100 = load_profile("h100-llama3.1-8b-eagle")
GB10 = load_profile("gb10-qwen3.5-122b-mtp")
STRIX = load_profile("strix-halo-27b-mtp")
V1_ARMS = ("nospec", "nospec_pw", "zero", "k1", "k2", "k3", "k4", "k2_pw", "dyn")


def measured() -> Path:
    shared_file("h200/measured/steps")
    return shared_file("h200/measured/second_step_times.csv").parent


@cache
def bursts() -> tuple[StepRow, ...]:
    return tuple(step_rows(measured()))


def close(fitted: float, committed: float) -> bool:
    """The committed constants are rounded to three digits; a constant at its bound of 0 counts as 0."""
    return fitted == pytest.approx(committed, rel=0.01, abs=1e-8)


class TestReproduced:
    """The committed constants are what the committed scripts find."""

    def test_h200_device(self) -> None:
        fit = h200_device.fit_device(measured())
        for name in ("memory_bandwidth_bytes_per_s", "flops_per_s", "roofline_sharpness"):
            assert close(getattr(fit.hardware, name), getattr(H200.hardware, name)), name
        for name in (
            "weight_bytes",
            "kv_bytes_per_token",
            "activation_bytes_per_token",
            "overhead_s",
            "request_s",
        ):
            assert close(getattr(fit.target, name), getattr(H200.target, name)), name
            assert close(getattr(fit.drafter.forward, name), getattr(H200.drafter.forward, name)), name
        for name in ("rejection_s", "rejection_request_s"):
            assert close(getattr(fit.drafter, name), getattr(H200.drafter, name)), name

    def test_h200_host(self) -> None:
        fit = h200_host.fit_host(measured()).host
        for name in fit.__dataclass_fields__:
            assert close(getattr(fit, name), getattr(H200.host, name)), name

    def test_h100(self) -> None:
        shared_file("tables/vllm_eagle_step_cost.json")
        fit = h100.fit_h100(SHARED)
        for name in ("flops_per_s", "roofline_sharpness"):
            assert close(getattr(fit.hardware, name), getattr(H100.hardware, name)), name
        for name in ("weight_bytes", "kv_bytes_per_token", "overhead_s", "request_s"):
            assert close(getattr(fit.target, name), getattr(H100.target, name)), name
            assert close(getattr(fit.drafter.forward, name), getattr(H100.drafter.forward, name)), name
        assert close(fit.drafter.rejection_s, H100.drafter.rejection_s)
        assert close(fit.verify_request_s, H100.host.verify_request_s)

    def test_strix(self) -> None:
        shared_file("tables/strix_halo_community.json")
        sized = community.size_strix(STRIX, SHARED)
        assert close(sized.hardware.memory_bandwidth_bytes_per_s, STRIX.hardware.memory_bandwidth_bytes_per_s)
        assert close(sized.hardware.flops_per_s, STRIX.hardware.flops_per_s)
        assert close(sized.hardware.matmul_weight_factor, STRIX.hardware.matmul_weight_factor)
        for found, committed in zip(
            sized.acceptance.by_class["default"], STRIX.acceptance.by_class["default"], strict=True
        ):
            assert close(found, committed)


class TestH200HeldOut:
    def test_target_on_the_device(self) -> None:
        held_out = [
            row
            for row in h200_device.full_steps(list(bursts()))
            if row.concurrency not in h200_device.FIT_CONCURRENCY[row.prompt_tokens] and row.concurrency <= 32
        ]
        errors = [h200_device.target_error(H200.hardware, H200.target, row) for row in held_out]
        assert len(errors) > 20
        assert max(map(abs, errors)) < 0.05

    def test_target_at_256_requests(self) -> None:
        """Seen: one of four bursts waited for its host and took 21 % longer than the model says."""
        rows = [row for row in h200_device.full_steps(list(bursts())) if row.concurrency == 256]
        errors = [h200_device.target_error(H200.hardware, H200.target, row) for row in rows]
        assert abs(median(errors)) < 0.05
        assert max(map(abs, errors)) < 0.25

    def test_drafter_on_the_device(self) -> None:
        held_out = [
            row for row in h200_device.draft_steps(list(bursts())) if not h200_device.is_draft_fit(row)
        ]
        errors = [h200_device.draft_error(H200.hardware, H200.drafter, row) for row in held_out]
        assert {row.arm for row in held_out} == {"k1", "k2", "k3"}
        assert max(map(abs, errors)) < 0.15
        assert median(map(abs, errors)) < 0.05

    def test_host_by_held_out_arm(self) -> None:
        """One level a burst leaves less than 10 % of execute_model and sample_tokens unexplained, by arm."""
        fit = h200_host.fit_host(measured())
        constants = np.array([*fit.constants_ms.values()])
        _, held_out = h200_host.fit_rows(bursts())
        for arm in ("dyn", "k2_pw", "k3"):
            rows = [row for row in held_out if row.arm == arm and row.mode is not GraphMode.NONE]
            _, left = h200_host.levels(rows, constants)
            assert len(rows) > 10
            assert float(np.sqrt((left[:, :2] ** 2).mean())) < 0.1, arm

    def test_uncaptured_steps(self) -> None:
        """K2, K3, K4 at 256 requests, fitted on K4 at 128: 45-55 ms by the campaign's summary."""
        rows = [r for r in bursts() if r.concurrency == 256 and r.arm in ("k2", "k3", "k4")]
        assert all(row.mode is GraphMode.NONE for row in rows)
        modelled = gmean([modelled_step_s(H200, 256, row.depth_next) for row in rows])
        assert modelled == pytest.approx(gmean([row.period_s for row in rows]), rel=0.2)
        assert 0.045 < modelled < 0.055

    def test_step_times_of_every_arm(self) -> None:
        """All V1 bursts up to 32 requests: the period spans 3.3 to 24 ms; the host's level is not known."""
        errors: dict[str, list[float]] = {arm: [] for arm in V1_ARMS}
        for row in bursts():
            if row.arm in errors and row.concurrency <= 32 and row.prompt_tokens == 128:
                errors[row.arm].append(math.log(modelled_burst_step_s(row) / row.period_s))
        assert all(len(found) >= 10 for found in errors.values())
        assert abs(gmean([math.exp(e) for e in errors["nospec"]]) - 1) < 0.05
        for arm, found in errors.items():
            assert abs(sum(found) / len(found)) < 0.2, arm


def modelled_burst_step_s(row: StepRow) -> float:
    """What the model expects of such a step: armed where the traces ran PIECEWISE."""
    shape = decode_shape(
        row.requests,
        row.depth_next,
        row.context_tokens,
        armed=row.mode is GraphMode.PIECEWISE,
        speculative=not row.arm.startswith("nospec"),
    )
    return RooflineCost(H200).expected(shape).step_s


@cache
def burst(arm: str, concurrency: int) -> float:
    return gmean([burst_tokens_per_s(H200, arm, concurrency, seed) for seed in range(6)])


class TestH200Ratios:
    """Burst throughput against the 95 % intervals that the second campaign states. None was fitted to."""

    @pytest.mark.parametrize(
        ("over", "under", "concurrency", "low", "high"),
        [
            ("nospec_pw", "nospec", (6, 8, 16), 0.31, 0.40),
            ("zero", "nospec", (6, 8, 16), 0.27, 0.33),
            ("zero", "nospec_pw", (1, 2, 4), 0.71, 1.02),
            ("zero", "nospec_pw", (6, 8, 16), 0.74, 0.98),
            ("dyn", "k2", (1, 2, 4), 0.37, 0.50),
            ("dyn", "k2", (6, 8, 16), 0.23, 0.32),
            ("dyn", "nospec", (1, 2, 4), 0.48, 0.62),
            ("dyn", "nospec", (6, 8, 16), 0.27, 0.35),
            ("dyn", "zero", (6, 8, 16), 0.86, 1.23),
            ("k2", "nospec", (1, 2, 4), 1.0, 1.5),  # 1.27, no interval stated
            ("k2", "nospec", (6, 8, 16), 1.0, 1.3),  # 1.13, no interval stated
        ],
    )
    def test_ratio(
        self, over: str, under: str, concurrency: tuple[int, ...], low: float, high: float
    ) -> None:
        assert low < gmean([burst(over, c) / burst(under, c) for c in concurrency]) < high

    def test_piecewise_at_low_load_misses(self) -> None:
        """Seen: measured .37 (.33-.42), the model says .30: its PIECEWISE launch is too dear there."""
        assert 0.28 < gmean([burst("nospec_pw", c) / burst("nospec", c) for c in (1, 2, 4)]) < 0.33

    def test_throughput_of_every_arm(self) -> None:
        """Each cell is a few rounds on a host that swings by 20-35 % from burst to burst."""
        real = measured_bursts(measured())
        errors = [math.log(burst(arm, c) / gmean(found)) for (arm, c), found in real.items() if c <= 16]
        assert len(errors) >= 50
        assert abs(sum(errors) / len(errors)) < 0.1
        assert math.sqrt(sum(error**2 for error in errors) / len(errors)) < 0.2

    def test_throughput_without_drafter(self) -> None:
        real = measured_bursts(measured())
        for concurrency in (1, 2, 4, 6, 8, 16):
            assert burst("nospec", concurrency) == pytest.approx(gmean(real["nospec", concurrency]), rel=0.06)


class TestH100:
    def table(self) -> dict[tuple[int, int], float]:
        shared_file("tables/vllm_eagle_step_cost.json")
        return h100.table_s(SHARED)

    def errors(self, batch: int) -> dict[int, float]:
        return {k: modelled_step_s(H100, b, k) / s - 1 for (b, k), s in self.table().items() if b == batch}

    def test_fitted_batches(self) -> None:
        for batch in h100.FIT_BATCHES:
            assert all(abs(error) < 0.03 for error in self.errors(batch).values()), batch

    def test_held_out_batches(self) -> None:
        assert all(abs(error) < 0.02 for error in self.errors(4).values())
        assert all(abs(error) < 0.12 for error in self.errors(64).values())

    def test_best_depth(self) -> None:
        length = {depth: 1 + sum(H100.acceptance.by_class["default"][:depth]) for depth in (0, 1, 3, 5)}

        def best(batch: int) -> int:
            return max(length, key=lambda depth: length[depth] / modelled_step_s(H100, batch, depth))

        assert [best(batch) for batch in (1, 4, 16, 64, 256)] == [3, 3, 3, 1, 0]


class TestCommunity:
    """Figures that sized a constant come out; what did not size one is within 5 %."""

    def test_gb10_figures_that_sized_it(self) -> None:
        """Sizing again takes half a minute; that the constants still do it is what counts."""
        assert community.burst(GB10, "k2", 1) == pytest.approx(59.6, rel=0.01)
        assert community.burst(GB10, "k2", 8) == pytest.approx(232, rel=0.01)
        assert community.burst(GB10, "dyn", 1) == pytest.approx(50.0, rel=0.01)

    def test_gb10_collapse_lies_in_the_reported_range(self) -> None:
        for seed in range(4):
            rate = burst_tokens_per_s(GB10, "dyn", 8, 100 + seed)
            assert 24 < rate < 157
            assert 40 < 8 * 180 / rate < 60

    def test_gb10_measured_mechanisms_alone_do_not_explain_it(self) -> None:
        """PIECEWISE launches and one drafter pass leave the upper end of the report, not its minute."""
        unattributed = apply_options(GB10, {"host": {"zero_depth_s": 0.0}})
        assert community.burst(unattributed, "dyn", 8) > 100

    def test_strix_held_out(self) -> None:
        assert community.tokens_per_s(STRIX, 2, 0) == pytest.approx(20.14, rel=0.05)
        assert community.tokens_per_s(STRIX, 4, 4) == pytest.approx(26.35, rel=0.05)

    def test_strix_crossover(self) -> None:
        def gain(batch: int) -> float:
            return community.tokens_per_s(STRIX, batch, 4) / community.tokens_per_s(STRIX, batch, 0)

        assert gain(1) > 1 > gain(4)
        assert gain(2) < 1


@pytest.mark.parametrize("profile", [H200, H100, GB10, STRIX], ids=lambda p: p.name)
def test_bandwidth_is_within_its_roof(profile: EngineProfile) -> None:
    hardware = profile.hardware
    assert hardware.memory_bandwidth_bytes_per_s <= hardware.memory_bandwidth_roof_bytes_per_s
    assert hardware.flops_per_s <= hardware.flops_roof_per_s
