"""`depthgate serve`: the embedded engine over HTTP, with OpenAI's API."""

from __future__ import annotations

import argparse
from pathlib import Path

from depthgate.options import address, whole
from suites.limits import MOST_SEED

SUMMARY = "serve the embedded engine (a model) over HTTP, with OpenAI's API"
EXAMPLE = """  depthgate serve --profile h200-qwen3-4b-eagle --governor fixed --options '{"depth": 2}'
  depthgate serve --governor schedule --options '{"schedule": [[1,4,2],[5,512,0]]}'"""
DEFAULT_PROFILE = "h200-qwen3-4b-eagle"


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the verb."""
    parser.add_argument(
        "--profile",
        default=DEFAULT_PROFILE,
        help=f"a profile's name or TOML file; default: {DEFAULT_PROFILE}",
    )
    parser.add_argument(
        "--governor", default="off", help="a name of `depthgate list governors`; default: off"
    )
    parser.add_argument("--options", default="{}", metavar="JSON", help="the governor's options")
    parser.add_argument(
        "--engine-options", default="{}", metavar="JSON", help="overrides of the profile, e.g. k_max"
    )
    parser.add_argument(
        "--host", type=address, default="127.0.0.1", help="default: 127.0.0.1, this machine alone"
    )
    parser.add_argument(
        "--port", type=whole(0, 65_535), default=8000, help="default: 8000; 0 takes a free one"
    )
    parser.add_argument("--seed", type=whole(0, MOST_SEED), default=0)
    parser.add_argument("--steps", type=Path, metavar="FILE", help="append StepRecords as JSON lines")
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="record observations, for `depthgate replay`"
    )


def main(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM; prints one line of JSON when it listens."""
    from depthgate.options import json_object
    from engines.embedded.server import ServeSettings, serve

    return serve(
        ServeSettings(
            profile=args.profile,
            governor=args.governor,
            options=json_object("--options", args.options),
            engine_options=json_object("--engine-options", args.engine_options),
            host=args.host,
            port=args.port,
            seed=args.seed,
            steps_path=args.steps,
            trace_path=args.trace,
        )
    )
