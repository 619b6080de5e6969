"""Fits h100-llama3.1-8b-eagle to the 20 step times published with vllm#32374 (five batches, K = 0, 1, 3, 5).

Fitted on batches 1, 16, 256; batches 4 and 64 are held out. Only device constants are fitted: no step of the table
is launch-bound. The bandwidth is not (with one overhead it is degenerate): the fraction of the roof that the H200
fit reached is taken over. Context is not published: 256 tokens a request is assumed, and what differs from that is
absorbed by `request_s`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from engines.embedded.constants import DrafterSpec, DraftShape, ForwardSpec, HardwareSpec
from engines.embedded.roofline import ForwardTime

FIT_BATCHES = (1, 16, 256)
CONTEXT_TOKENS = 256

# Llama-3.1-8B: 32 layers, hidden 4096, 32 query and 8 KV heads of 128, MLP 14336, vocabulary 128256, bf16.
_LAYER = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336
_HEAD = 128256 * 4096
WEIGHTS = 32 * _LAYER + _HEAD
DRAFTER_WEIGHTS = _LAYER + 2 * 4096 * 4096 + _HEAD
KV_BYTES = 2 * 8 * 128 * 2
ACTIVATION_BYTES = 2 * (4 * 4096 + 2 * 6144 + 2 * 4096 + 4 * 14336)

H100 = HardwareSpec("NVIDIA H100 SXM 80GB", 3.35e12, 3.27e12, 989e12, 600e12, 1.65)
TARGET = ForwardSpec(2.0 * WEIGHTS, 2.0 * WEIGHTS, 32 * KV_BYTES, 32 * ACTIVATION_BYTES, 1e-3, 1e-6)
DRAFTER = ForwardSpec(2.0 * DRAFTER_WEIGHTS, 2.0 * DRAFTER_WEIGHTS, KV_BYTES, ACTIVATION_BYTES, 1e-4, 1e-6)


@dataclass(frozen=True, slots=True)
class H100Fit:
    """The fitted constants."""

    hardware: HardwareSpec
    target: ForwardSpec
    drafter: DrafterSpec


def table_s(shared: Path) -> dict[tuple[int, int], float]:
    """(batch, K) -> seconds a step, as published."""
    stats = json.loads((shared / "tables" / "vllm_eagle_step_cost.json").read_text())["batch_stats"]
    return {(int(b), int(k)): ms * 1e-3 for b, row in stats.items() for k, ms in row.items()}


def device_s(fit: H100Fit, batch: int, depth: int) -> float:
    """Device time of a steady step."""
    tokens, context = batch * (depth + 1), batch * CONTEXT_TOKENS
    total = ForwardTime(fit.target, fit.hardware).seconds(tokens, batch, context)
    if depth == 0:
        return total
    forward = ForwardTime(fit.drafter.forward, fit.hardware)
    first_s, next_s = forward.seconds(tokens, batch, context), forward.seconds(batch, batch, context)
    rejection_s = fit.drafter.rejection_s + batch * fit.drafter.rejection_request_s
    return total + rejection_s + first_s + (depth - 1) * next_s


def fit_h100(shared: Path) -> H100Fit:
    """Least squares on the logarithms of the 12 fitted times."""
    points = {key: value for key, value in table_s(shared).items() if key[0] in FIT_BATCHES}

    def fitted(x: NDArray[np.float64]) -> H100Fit:
        hardware = replace(H100, flops_per_s=x[0] * 1e12, roofline_sharpness=x[1])
        target = replace(TARGET, overhead_s=x[2] * 1e-3, request_s=x[3] * 1e-6)
        forward = replace(DRAFTER, overhead_s=x[4] * 1e-3, request_s=x[5] * 1e-6)
        return H100Fit(
            hardware, target, DrafterSpec(DraftShape.SEQUENTIAL, forward, x[6] * 1e-3, x[7] * 1e-6)
        )

    def residuals(x: NDArray[np.float64]) -> list[float]:
        fit = fitted(x)
        return [float(np.log(device_s(fit, *key) / value)) for key, value in points.items()]

    bounds = ((100, 1, 0, 0, 0, 0, 0, 0), (989, 8, 4, 50, 1, 20, 1, 50))
    return fitted(
        least_squares(
            residuals,
            (600, 1.7, 1.5, 5, 0.2, 1, 0.1, 5),
            bounds=bounds,
            x_scale=(100, 1, 1, 5, 0.1, 1, 0.1, 5),
        ).x
    )


def main(shared: Path) -> None:
    """Prints the constants and the error at every point."""
    fit = fit_h100(shared)
    print(fit)
    for (batch, depth), seconds in table_s(shared).items():
        kept = "fitted" if batch in FIT_BATCHES else "held out"
        print(
            batch, depth, f"{seconds * 1e3:.2f} ms", f"{device_s(fit, batch, depth) / seconds - 1:+.1%}", kept
        )


if __name__ == "__main__":
    import sys

    main(Path(sys.argv[1]))
