"""`depthgate profile`: measure an engine's step costs, write them as a profile for cost-model governors."""

from __future__ import annotations

import argparse
from pathlib import Path

from depthgate.options import whole

MOST_STEPS, MOST_ROUNDS = 10_000, 1_000

SUMMARY = "measure what a step costs at every K and batch, and write a profile for cost-model governors"
INTERRUPTED = "interrupted; of what was under way no profile is written"
EXAMPLE = """  depthgate profile --engine vllm --depths 0,2,4 --batches 1,4,8 --out tiny.json
  depthgate profile --profile h200-qwen3-4b-eagle --depths 0,1,2,3 --batches 1,8,64 --out model.json
then: options = { governor_profile = "tiny.json" } in a suite's vllm engine"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the verb."""
    parser.add_argument(
        "--engine", default="embedded", help="embedded (default), vllm, vllm:SUITE or vllm:{JSON}"
    )
    parser.add_argument("--profile", default="h200-qwen3-4b-eagle", help="of the embedded engine")
    parser.add_argument("--depths", default="0,1,2,3,4", help="every K to measure; default: 0,1,2,3,4")
    parser.add_argument(
        "--batches",
        default="1,2,4,8,16",
        help="decoding requests; default: 1,2,4,8,16. Add points beside captured sizes over 1+K",
    )
    parser.add_argument(
        "--context", default="96", metavar="WORDS", help="words a prompt; several: a file for each"
    )
    parser.add_argument(
        "--steps", type=whole(1, MOST_STEPS), default=20, help="steps wanted at each point; default: 20"
    )
    parser.add_argument(
        "--rounds", type=whole(1, MOST_ROUNDS), default=3, help="times the grid is walked; default: 3"
    )
    parser.add_argument(
        "--captured", default="", metavar="TOKENS", help="captured graph sizes, 1,2,4,8: costs become stairs"
    )
    parser.add_argument("--hardware", help="what the profile is bound to; default: this machine's GPU or CPU")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")


def main(args: argparse.Namespace) -> int:
    """One file a context; the table on stdout, progress on stderr."""
    from depthgate.profile_command import write_profiles

    return write_profiles(args)
