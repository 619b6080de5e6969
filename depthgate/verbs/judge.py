"""`depthgate judge RUN...`: rule on what run folders hold, whole or partial."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

SUMMARY = "judge run folders against their suites' budgets; the exit code is the ruling"
EXAMPLE = "  depthgate judge out/threshold-collapse-20261130-101500-ab12\n  depthgate judge out/RUN --json"


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the verb."""
    parser.add_argument("runs", nargs="+", metavar="RUN", type=Path, help="a run folder")
    parser.add_argument("--json", action="store_true", help="one object a run, in a list")


def main(args: argparse.Namespace) -> int:
    """Judge every run; the worst ruling is the exit code."""
    from depthgate.rulings import exit_code
    from reports.judge import judge_run
    from reports.table import print_cells, print_verdicts

    judgements = [judge_run(run) for run in args.runs]
    if args.json:
        json.dump([asdict(judgement) for judgement in judgements], sys.stdout, indent=1, allow_nan=False)
        print()
    else:
        for judgement in judgements:
            print_cells(judgement)
            print_verdicts(judgement)
    return exit_code(judgements)
