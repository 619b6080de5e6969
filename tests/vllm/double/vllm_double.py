"""Test double inside vLLM on a CPU: a verifier that accepts drafts by the toss of a coin, if a file says so.

vLLM's own kernels for the CPU refuse `rejection_sample_method: "synthetic"`. This stands in for that, and is
lossy on purpose: an accepted draft is not what the target would have said. Put this folder on PYTHONPATH and
name a file in VLLM_DOUBLE_RATES: while it holds a JSON list (conditional acceptance by position), drafts
are accepted at these rates; without it vLLM's kernel verifies as ever. For tests alone.
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

KERNEL = "vllm.v1.sample.rejection_sampler.rejection_greedy_sample_kernel"
RATES_FILE = "VLLM_DOUBLE_RATES"


def register() -> None:
    """vLLM's entry point, called in each of its processes; idempotent."""
    if RATES_FILE not in os.environ:
        return
    from vllm.utils import cpu_triton_utils as kernels

    stock = kernels._rejection_greedy_sample_kernel_impl
    if hasattr(stock, "__wrapped__"):
        return
    double = doubled(stock, Path(os.environ[RATES_FILE]))
    kernels._rejection_greedy_sample_kernel_impl = double  # before the platform registers it
    from vllm.triton_utils.dispatcher import register_kernels

    register_kernels({KERNEL: double})


def doubled(stock: Any, rates_file: Path) -> Any:
    """`stock`, or the coin while the file is there."""
    toss = functools.partial(_uniform, _generator())

    @functools.wraps(stock)
    def kernel(
        output_token_ids: Any,
        cu_num_draft_tokens: Any,
        draft_token_ids: Any,
        target_argmax: Any,
        bonus_token_ids: Any,
        is_greedy: Any,
        max_spec_len: int,
        uniform_probs: Any = None,
        synthetic_conditional_rates: Any = None,
        SYNTHETIC_MODE: bool = False,
    ) -> None:
        rates = _rates(rates_file)
        if rates is None:
            stock(
                output_token_ids, cu_num_draft_tokens, draft_token_ids, target_argmax, bonus_token_ids,
                is_greedy, max_spec_len, uniform_probs, synthetic_conditional_rates, SYNTHETIC_MODE,
            )  # fmt: skip
            return
        begin = 0
        for row, end in enumerate(cu_num_draft_tokens.tolist()):
            drafts, targets = draft_token_ids[begin:end].tolist(), target_argmax[begin:end].tolist()
            tokens = accepted_by_coin(drafts, targets, int(bonus_token_ids.reshape(-1)[row]), rates, toss)
            for place, token in enumerate(tokens):
                output_token_ids[row, place] = token
            begin = end

    return kernel


def accepted_by_coin(
    drafts: list[int], targets: list[int], bonus: int, rates: list[float], toss: Any
) -> list[int]:
    """Drafts up to the first that the coin rejects, then the target's token there; all of them: the bonus."""
    tokens: list[int] = []
    for place, (draft, target) in enumerate(zip(drafts, targets, strict=True)):
        if draft < 0 or toss() >= rates[min(place, len(rates) - 1)]:
            return [*tokens, target]
        tokens.append(draft)
    return [*tokens, bonus]


def _rates(path: Path) -> list[float] | None:
    try:
        return [float(rate) for rate in json.loads(path.read_text())]
    except (OSError, ValueError):
        return None


def _generator() -> Any:
    import random

    return random.Random(49548)


def _uniform(generator: Any) -> float:
    return float(generator.random())
