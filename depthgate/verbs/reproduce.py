"""`depthgate reproduce NAME`: does a collapse from the field happen here? `--all`: the whole catalogue."""

from __future__ import annotations

import argparse
from pathlib import Path

from depthgate.options import whole
from suites.limits import MOST_REPEATS
from suites.traffic import MOST_TOKENS

SUMMARY = "reproduce a collapse by name: reproduced, not-reproduced, inconclusive or invalid"
INTERRUPTED = "interrupted; what was recorded is kept"
EXAMPLE = """  depthgate reproduce threshold-collapse
  depthgate reproduce --all --clock virtual
  depthgate reproduce threshold-collapse --control --clock virtual
  depthgate reproduce threshold-collapse --clock virtual --profile gb10-qwen3.5-122b-mtp --json
  depthgate reproduce zero-depth-tax --engine 'vllm:{"model": "…", "drafter": "…", "method": "eagle"}'
  depthgate reproduce threshold-collapse --arm off=http://127.0.0.1:8001 \\
      --arm fixed_2=http://127.0.0.1:8002 --arm schedule=http://127.0.0.1:8003
exit codes: 0 reproduced, 1 not-reproduced, 2 usage, 3 inconclusive, 4 invalid, 70 its own fault
with --all: 0 all reproduced and every control not, 1 one is otherwise, 3 one inconclusive, 4 one invalid"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the verb."""
    parser.add_argument("name", nargs="?", help="a name of `depthgate list reproducers`")
    parser.add_argument("--all", action="store_true", help="every reproducer and its control; one page")
    parser.add_argument(
        "--control", action="store_true", help="the control alone: the same run with the cause removed"
    )
    parser.add_argument(
        "--engine",
        default="embedded",
        help="embedded (default), URL, vllm (tiny models on this CPU), vllm:SUITE or vllm:{JSON}",
    )
    parser.add_argument(
        "--arm", action="append", default=[], metavar="NAME=URL", help="a server for one arm; repeat"
    )
    parser.add_argument("--profile", help="profile of the embedded engine")
    parser.add_argument(
        "--clock", choices=("wall", "virtual"), default="wall", help="default: wall, over HTTP"
    )
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        metavar="PROFILE",
        help="show this profile, in virtual time, on the same page; repeat",
    )
    parser.add_argument("--repeats", type=whole(1, MOST_REPEATS), metavar="N", help="default: the suite's")
    parser.add_argument(
        "--max-tokens",
        type=whole(1, MOST_TOKENS),
        metavar="N",
        help="of an answer, at most: a smaller load for a slow machine",
    )
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="default: out")
    parser.add_argument("--json", action="store_true", help="print one object; --all: a list")


def main(args: argparse.Namespace) -> int:
    """Reproduce one, beside profiles first judged on their own; or all of them. One page."""
    from depthgate.exits import UsageError

    if args.all == bool(args.name):
        raise UsageError("give the name of one reproducer (depthgate list reproducers), or --all")
    return _all(args) if args.all else _one(args)


def _all(args: argparse.Namespace) -> int:
    from depthgate.catalogue import CatalogueRequest, reproduce_all
    from depthgate.exits import UsageError

    for flag, given in (("--arm", args.arm), ("--beside", args.beside), ("--control", args.control)):
        if given:
            raise UsageError(f"{flag} goes with one reproducer: give its name in place of --all")
    return reproduce_all(
        CatalogueRequest(
            engine=args.engine,
            profile=args.profile,
            clock=args.clock,
            repeats=args.repeats,
            max_tokens=args.max_tokens,
            out=args.out,
            as_json=args.json,
        )
    )


def _one(args: argparse.Namespace) -> int:
    from depthgate.options import arm_urls
    from depthgate.reproduction import Request, reproduce

    return reproduce(
        Request(
            name=args.name,
            engine=args.engine,
            arm_urls=arm_urls(args.arm),
            profile=args.profile,
            clock=args.clock,
            beside=tuple(args.beside),
            control=args.control,
            repeats=args.repeats,
            max_tokens=args.max_tokens,
            out=args.out,
            as_json=args.json,
        )
    )
