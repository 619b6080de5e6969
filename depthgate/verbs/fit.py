"""`depthgate fit`: step records of runs to a profile for cost-model governors."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "fit step-cost constants to recorded steps, and write them as a profile for cost-model governors"
EXAMPLE = """  depthgate fit out/threshold-collapse-20261130-133850-6150 --out fitted.toml
  depthgate fit steps.jsonl --hardware "NVIDIA H200" --model Qwen3-4B --drafter-class eagle \\
    --engine-version "vllm 0.26.0" --out fitted.toml --page out/fit.html
then: options = { governor_profile = "fitted.toml" } in a suite's vllm engine"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the verb."""
    parser.add_argument(
        "sources", nargs="+", type=Path, metavar="RUN-OR-STEPS", help="run folders, JSONL files of steps"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help=".toml or .json")
    parser.add_argument("--arm", action="append", default=[], help="only this arm of a run folder; repeat")
    parser.add_argument("--hardware", help="the binding; default: what the manifests say")
    parser.add_argument("--model", help="the same: target model")
    parser.add_argument("--drafter-class", help="the same")
    parser.add_argument("--engine-version", help="the same")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write a page of residuals")


def main(args: argparse.Namespace) -> int:
    """A line a constant, then the error on held-out steps."""
    from depthgate.fitting import fit

    return fit(args)
