"""dspark_argmax: dspark with a global argmax in place of the early stop, which stalls on a staircase cost.

Source: TensorRT-LLM#17056 and SGLang's implementation of arXiv:2607.05147.
"""

from __future__ import annotations

from governors.admission import highest
from governors.dspark import OPTIONS, DSpark, cost_warnings, depths, rests
from governors.entry import GovernorContext, GovernorEntry, Options


def build(options: Options, context: GovernorContext) -> DSpark:
    return DSpark("dspark_argmax", options, context, highest)


def warn(options: Options, context: GovernorContext) -> tuple[str, ...]:
    return cost_warnings("dspark_argmax", context)


ENTRY = GovernorEntry(
    name="dspark_argmax",
    summary="per-request windows: the drafts, by survival, with the most tokens a second over all counts",
    layer="C",
    source="TensorRT-LLM#17056, SGLang; rest, probing and the history fallback are ours",
    build=build,
    options=OPTIONS,
    needs_profile=True,
    warn=warn,
    changes_depth_if=rests,
    depths=depths,
)
