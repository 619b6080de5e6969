"""`depthgate validate`: how well the embedded engine predicts published and measured tables, as a number."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "the embedded engine's prediction error: fit part of each published table, predict the rest"
EXAMPLE = """  depthgate validate
  depthgate validate h20-qwen3-8b-dcut --cells
  depthgate validate --json --page out/validation.html
exit codes: 0 median error <= 6 %, 90th percentile <= 15 % and the gain's sign right in >= 95 % of the cells
outside a 2 % band, over all held-out cells; 1 one of them is missed; 2 usage; 70 its own fault"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the verb."""
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="only these (default: all)")
    parser.add_argument("--cells", action="store_true", help="every cell: measured, predicted, role")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write a page with figures")


def main(args: argparse.Namespace) -> int:
    """A row a table and the totals; progress on stderr."""
    from depthgate.validation import validate

    return validate(args)
