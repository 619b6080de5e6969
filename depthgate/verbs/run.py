"""`depthgate run SUITE`: run every arm of a suite, judge it, write its page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from depthgate.load_options import OF_LOCUST, add_load_flags

SUMMARY = "run a suite: every arm, concurrency and repeat; then judge it"
INTERRUPTED = "interrupted; what was recorded is kept"
EXAMPLE = """  depthgate run quickstart
  depthgate run suites/sweep-c1-c256.toml --clock virtual
  depthgate run my-suite.toml --engine http://127.0.0.1:8000 --exploratory
  depthgate run --resume out/quickstart-20261130-101500-ab12"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the verb."""
    parser.add_argument("suite", nargs="?", help="a suite's name (depthgate list suites) or its TOML file")
    parser.add_argument(
        "--clock",
        choices=("wall", "virtual"),
        help="wall (default): HTTP against a running engine; virtual: the embedded engine's own clock",
    )
    parser.add_argument(
        "--engine",
        help="another engine: the URL of a server that already runs, vllm, vllm:SUITE or vllm:{JSON}",
    )
    parser.add_argument(
        "--arm", action="append", default=[], metavar="NAME=URL", help="a server for one arm; repeat"
    )
    parser.add_argument(
        "--profile", help="another profile of the embedded engine (makes the run exploratory)"
    )
    parser.add_argument(
        "--exploratory", action="store_true", help="run a suite that was altered after sealing"
    )
    parser.add_argument(
        "--trace",
        action="store_true",
        help="keep what each governor saw, for `depthgate replay` (wall clock)",
    )
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="RUN",
        help="go on with a run that was ended, after its last whole cell",
    )
    parser.add_argument(
        "--keep-journal",
        action="store_true",
        help="leave the requests of a large run as JSON lines; without it they become Parquet at the end",
    )
    add_load_flags(parser)
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="default: out")
    parser.add_argument("--json", action="store_true", help="print the judgement as one object")


def main(args: argparse.Namespace) -> int:
    """Run, judge, report; the exit code is the ruling."""
    import json
    from dataclasses import asdict

    from depthgate.reporting import report_input, show, write_page
    from depthgate.rulings import exit_code

    run_dir = _resumed(args) if args.resume else _run(args)
    shown = report_input(run_dir)
    page = write_page([shown], run_dir / "report.html")
    if args.json:
        print(json.dumps(asdict(shown.judgement), indent=1, allow_nan=False))
    else:
        show(shown, page)
    return exit_code([shown.judgement])


def _run(args: argparse.Namespace) -> Path:
    from depthgate.engine_choice import engine_choice
    from depthgate.exits import UsageError
    from depthgate.launch import Overrides, plan_run, run_plan
    from depthgate.load_options import load_choice
    from depthgate.options import arm_urls

    if args.suite is None:
        raise UsageError("run: no suite; name one (depthgate list suites), or add --resume RUN")
    choice = engine_choice(args.engine)
    overrides = Overrides(
        profile=args.profile,
        url=choice.url,
        started=choice.started,
        arm_urls=arm_urls(args.arm),
    )
    plan = plan_run(
        args.suite,
        args.clock or "wall",
        args.out,
        overrides,
        exploratory=args.exploratory,
        trace=args.trace,
        keep_journal=args.keep_journal,
        load=load_choice(args),
    )
    run_plan(plan, quiet=args.json)
    return plan.run_dir


SETTLED = ("clock", "engine", "arm", "profile", "exploratory", "trace", "keep_journal", "load", *OF_LOCUST)


def _resumed(args: argparse.Namespace) -> Path:
    """A run that was finished already is judged as it is: its ruling is the exit code, as any other's."""
    from depthgate.exits import UsageError
    from depthgate.resumption import resume_run

    for name in SETTLED:
        if getattr(args, name):
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag}: a run goes on with what it began with; drop {flag} or --resume")
    run_dir: Path = args.resume
    if not resume_run(run_dir, args.suite, quiet=args.json):
        print(
            f"{run_dir}: this run is finished: judged as it is; what it lacks takes a new run",
            file=sys.stderr,
        )
    return run_dir
