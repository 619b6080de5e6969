"""`depthgate replay TRACE --governor NAME`: what a policy would have decided on a recorded trace."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

from depthgate.options import whole
from suites.grammar import counted
from suites.limits import MOST_SEED

SUMMARY = "replay a recorded observation trace through a governor, bit for bit"
EXAMPLE = """  depthgate replay out/RUN/trace/schedule.r0.jsonl --governor hysteresis_schedule \\
      --options '{"schedule": [[1,4,2],[5,512,0]]}' --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the verb."""
    parser.add_argument("trace", type=Path, help="a trace, as `serve --trace` or `run --trace` writes it")
    parser.add_argument("--governor", required=True, help="a name of `depthgate list governors`")
    parser.add_argument("--options", default="{}", metavar="JSON", help="the governor's options")
    parser.add_argument("--seed", type=whole(0, MOST_SEED), default=0)
    parser.add_argument("--json", action="store_true", help="one decision a line")


def main(args: argparse.Namespace) -> int:
    """Replay and print the decisions, or their summary."""
    from depthgate.exits import UsageError
    from depthgate.options import json_object
    from governors.registry import GovernorContext, build_governor
    from governors.replay import read_trace, replay

    trace = read_trace(args.trace)
    if not trace.steps:
        raise UsageError(f"{args.trace}: holds no whole step; record one with depthgate serve --trace FILE")
    context = GovernorContext(limits=trace.steps[0].observation.limits, seed=args.seed)
    governor = build_governor(args.governor, json_object("--options", args.options), context)
    decisions = replay(trace, governor)
    if args.json:
        for step, decision in enumerate(decisions):
            windows = decision.windows if isinstance(decision.windows, int) else decision.windows.tolist()
            row = {
                "step": step,
                "windows": windows,
                "depth_next": decision.depth_next,
                "reason": decision.reason,
            }
            print(json.dumps(row))
        return 0
    depths = [decision.depth_next for decision in decisions]
    switches = sum(before != after for before, after in pairwise(depths))
    print(f"{counted(len(depths), 'step')}, {switches} switch{'' if switches == 1 else 'es'} of depth")
    for depth, count in sorted(Counter(depths).items()):
        print(f"  depth {depth}: {count / len(depths):6.1%}")
    return 0
