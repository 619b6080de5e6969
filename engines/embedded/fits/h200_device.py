"""Fits the device constants of h200-qwen3-4b-eagle: steps in which the GPU, not the host, was the slower one.

Fitted on the arm without drafter under FULL graphs (1, 4, 8, 32, 128 requests at 128 tokens of prompt; 1
and 8 at 2000) and on long prefills; everything else is held out. The drafter is fitted on sample-and-draft
times of K=1 and K=3 (1, 8, 128 requests) in steps where the host had launched it all before the GPU came to
it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from engines.embedded.constants import DrafterSpec, DraftShape, ForwardSpec, HardwareSpec
from engines.embedded.fits.campaign import StepRow, prefill_steps, step_rows
from engines.embedded.roofline import ForwardTime
from governors.contract import GraphMode

FIT_CONCURRENCY = {128: (1, 4, 8, 32, 128), 2000: (1, 8)}
DRAFT_FIT = {"k1": (1, 8, 128), "k3": (1, 8, 128)}

# Qwen3-4B's shape: 36 layers, hidden 2560, 32 query and 8 KV heads of 128, MLP 9728, vocabulary 151936, bf16.
_LAYER = 2560 * (4096 + 2 * 1024) + 4096 * 2560 + 3 * 2560 * 9728
_HEAD = 151936 * 2560
WEIGHTS = 36 * _LAYER + _HEAD
DRAFTER_WEIGHTS = _LAYER + 2 * 2560 * 2560 + _HEAD  # one layer, the projection of two hidden states, the head
KV_BYTES = 2 * 8 * 128 * 2  # a layer, a token
ACTIVATION_BYTES = 2 * (
    4 * 2560 + 2 * 6144 + 2 * 4096 + 4 * 9728
)  # a layer, a token: in and out of each matrix

H200 = HardwareSpec("NVIDIA H200 SXM 141GB", 4.8e12, 4.2e12, 989e12, 600e12, 1.5)
TARGET = ForwardSpec(2.0 * WEIGHTS, 2.0 * WEIGHTS, 36 * KV_BYTES, 36 * ACTIVATION_BYTES, 1e-3, 1e-6)
DRAFTER = ForwardSpec(2.0 * DRAFTER_WEIGHTS, 2.0 * DRAFTER_WEIGHTS, KV_BYTES, ACTIVATION_BYTES, 1e-4, 1e-6)


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """The fitted constants."""

    hardware: HardwareSpec
    target: ForwardSpec
    drafter: DrafterSpec


def full_steps(rows: list[StepRow]) -> list[StepRow]:
    """No drafter, FULL graphs: the GPU is the slower one at every batch."""
    return [row for row in rows if row.arm == "nospec" and row.mode is GraphMode.FULL]


def draft_steps(rows: list[StepRow]) -> list[StepRow]:
    """K=1..3 under FULL graphs in bursts where the host was ahead of the GPU when drafting began."""
    arms = [row for row in rows if row.arm in ("k1", "k2", "k3") and row.mode is GraphMode.FULL]
    return [row for row in arms if row.host_s < row.forward_s + row.draft_s - 1e-4]


def is_draft_fit(row: StepRow) -> bool:
    """Whether the drafter was fitted on this burst."""
    return row.concurrency in DRAFT_FIT.get(row.arm, ()) and row.prompt_tokens == 128


def target_error(hardware: HardwareSpec, target: ForwardSpec, row: StepRow) -> float:
    """log(model / measured) of the target's device time, sampling included."""
    modelled_s = ForwardTime(target, hardware).seconds(row.tokens, row.requests, row.context_tokens)
    return float(np.log(modelled_s / (row.forward_s + row.draft_s)))


def draft_error(hardware: HardwareSpec, drafter: DrafterSpec, row: StepRow) -> float:
    """log(model / measured) of sampling and drafting."""
    forward = ForwardTime(drafter.forward, hardware)
    rejection_s = drafter.rejection_s + row.requests * drafter.rejection_request_s
    first_s = forward.seconds(row.tokens, row.requests, row.context_tokens)
    next_s = forward.seconds(row.requests, row.requests, row.context_tokens)
    return float(np.log((rejection_s + first_s + (row.depth_next - 1) * next_s) / row.draft_s))


def fit_device(measured: Path) -> DeviceFit:
    """Least squares on the logarithms, constants inside physical bounds (rates <= the roof)."""
    rows = step_rows(measured)
    steps = [row for row in full_steps(rows) if row.concurrency in FIT_CONCURRENCY[row.prompt_tokens]]
    prefills = list(prefill_steps(measured))

    def specs(x: np.ndarray) -> tuple[HardwareSpec, ForwardSpec]:
        hardware = replace(
            H200, memory_bandwidth_bytes_per_s=x[0] * 1e12, flops_per_s=x[1] * 1e12, roofline_sharpness=x[2]
        )
        return hardware, replace(TARGET, overhead_s=x[3] * 1e-3, request_s=x[4] * 1e-6)

    def residuals(x: np.ndarray) -> list[float]:
        hardware, target = specs(x)
        forward = ForwardTime(target, hardware)
        decode = [target_error(hardware, target, row) for row in steps]
        prefill = [float(np.log(forward.seconds(n, b, n) / s)) for n, b, s in prefills]
        return decode + [error / len(prefill) ** 0.5 for error in prefill]

    x = least_squares(
        residuals,
        (4.2, 600, 1.5, 1.2, 2.0),
        bounds=((1, 100, 1, 0, 0), (4.8, 989, 8, 3, 50)),
        x_scale=(1, 100, 1, 1, 5),
    ).x
    hardware, target = specs(x)
    return DeviceFit(hardware, target, _fit_drafter(draft_steps(rows), hardware))


def _fit_drafter(rows: list[StepRow], hardware: HardwareSpec) -> DrafterSpec:
    fitted = [row for row in rows if is_draft_fit(row)]

    def drafter(x: np.ndarray) -> DrafterSpec:
        forward = replace(DRAFTER, overhead_s=x[0] * 1e-3, request_s=x[1] * 1e-6)
        return DrafterSpec(DraftShape.SEQUENTIAL, forward, x[2] * 1e-3, x[3] * 1e-6)

    def residuals(x: np.ndarray) -> list[float]:
        return [draft_error(hardware, drafter(x), row) for row in fitted]

    return drafter(least_squares(residuals, (0.1, 1.0, 0.05, 1.0), bounds=((0, 0, 0, 0), (1, 20, 1, 20))).x)


def main(shared: Path) -> None:
    """Prints the constants and the error of every burst, fitted or held out."""
    measured = shared / "h200" / "measured"
    fit, rows = fit_device(measured), step_rows(measured)
    print(fit)
    for row in full_steps(rows):
        kept = "fitted" if row.concurrency in FIT_CONCURRENCY[row.prompt_tokens] else "held out"
        error = target_error(fit.hardware, fit.target, row)
        print("target", kept, row.campaign, row.concurrency, row.prompt_tokens, f"{error:+.3f}")
    for row in draft_steps(rows):
        kept = "fitted" if is_draft_fit(row) else "held out"
        error = draft_error(fit.hardware, fit.drafter, row)
        print("drafter", kept, row.campaign, row.arm, row.concurrency, row.prompt_tokens, f"{error:+.3f}")


if __name__ == "__main__":
    import sys

    main(Path(sys.argv[1]))
