"""`depthgate lossless SUITE`: does any arm change what the model says?"""

from __future__ import annotations

import argparse

from depthgate.options import whole

MOST_PROMPTS = 10_000
SUMMARY = "the correctness gate: greedy answers of every arm against no speculation"
EXAMPLE = """  depthgate lossless vllm-cpu-smoke
  depthgate lossless threshold-collapse --engine vllm --prompts 8 --json
exit codes: 0 lossless, 1 an answer or a count differs, 2 usage, 70 its own fault"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the verb."""
    parser.add_argument("suite", type=str, help="whose engine, arms and traffic are taken")
    parser.add_argument("--engine", help="another engine: vllm, vllm:SUITE, vllm:{JSON} or a URL")
    parser.add_argument("--prompts", type=whole(1, MOST_PROMPTS), default=4, metavar="N", help="default: 4")
    parser.add_argument("--json", action="store_true", help="print one object")


def main(args: argparse.Namespace) -> int:
    """One line an arm; every fault after it. Exit code 1 when there is one."""
    import json

    from depthgate.engine_choice import engine_choice
    from depthgate.launch import Overrides, check_arms
    from depthgate.loop import run_loop
    from depthgate.lossless import check_lossless
    from suites.locate import find_suite
    from suites.parse import load_suite

    choice = engine_choice(args.engine)
    suite = Overrides(url=choice.url, started=choice.started).apply(load_suite(find_suite(args.suite)))
    check_arms(suite, "wall")
    found = run_loop(lambda: check_lossless(suite, args.prompts))
    if args.json:
        arms = [arm.arm for arm in found.arms]
        print(json.dumps({"baseline": found.baseline, "arms": arms, "faults": list(found.faults)}, indent=1))
    else:
        names = ", ".join(arm.arm for arm in found.arms[1:])
        state = "differs" if found.faults else "lossless"
        print(f"{state}: {names} against {found.baseline}, {args.prompts} greedy prompts, one at a time")
        for fault in found.faults:
            print(f"  {fault}")
    return 1 if found.faults else 0
