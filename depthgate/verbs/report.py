"""`depthgate report RUN...`: the page, the table and the JUnit file of run folders."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "write report.html (and CSV, JUnit) of run folders; the first is the page's verdict"
EXAMPLE = """  depthgate report out/RUN
  depthgate report out/RUN out/OTHER --html page.html --csv cells.csv --junit junit.xml"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the verb."""
    parser.add_argument("runs", nargs="+", metavar="RUN", type=Path, help="a run folder")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="default: report.html in the first run's folder"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="every cell of the first run, one row each")
    parser.add_argument(
        "--junit", type=Path, metavar="FILE", help="budget verdicts of the first run as JUnit XML"
    )


def main(args: argparse.Namespace) -> int:
    """Write what was asked for and say where it lies."""
    from depthgate.output_file import check_file
    from depthgate.reporting import report_input, write_page

    for flag, path in (("--html", args.html), ("--csv", args.csv), ("--junit", args.junit)):
        if path is not None:
            check_file(flag, path)
    inputs = [report_input(run) for run in args.runs]
    first = inputs[0].judgement
    print(write_page(inputs, args.html or args.runs[0] / "report.html"))
    if args.csv:
        from reports.frame import write_csv

        write_csv(first, args.csv)
        print(args.csv)
    if args.junit:
        from reports.junit import write_junit

        write_junit(first, args.junit)
        print(args.junit)
    return 0
