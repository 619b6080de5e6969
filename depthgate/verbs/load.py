"""`depthgate load`: the load generator alone, against any OpenAI-compatible server."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from depthgate.options import positive, whole
from suites.limits import (
    LONGEST_S,
    MOST_ARRIVALS,
    MOST_PER_S,
    MOST_SEED,
    MOST_STREAMS,
    MOST_WORKERS,
)
from suites.traffic import MOST_TOKENS

SUMMARY = "drive load against a server and print latencies and throughput"
INTERRUPTED = "interrupted; what was recorded is kept"
EXAMPLE = """  depthgate load --url http://127.0.0.1:8000 --concurrency 16 --requests 128 --max-tokens 128
  depthgate load --url http://127.0.0.1:8000 --rate 4 --arrivals gamma --cv 2 --requests 200
  depthgate load --url http://127.0.0.1:8000 --model m --concurrency 4 --requests 16 --max-tokens 64 --json -
the API key, if one is needed, comes from the environment variable OPENAI_API_KEY"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the verb."""
    parser.add_argument("--url", required=True, help="the server, with or without /v1")
    parser.add_argument("--route", choices=("chat", "completions"), default="chat", help="default: chat")
    parser.add_argument("--model", help="default: the only model that the server lists")
    parser.add_argument(
        "--concurrency", type=whole(1, MOST_STREAMS), metavar="C", help="streams at once; default: 1"
    )
    parser.add_argument(
        "--requests",
        type=whole(1, MOST_ARRIVALS),
        required=True,
        metavar="N",
        help="requests in all, over the streams",
    )
    parser.add_argument(
        "--max-tokens", type=whole(1, MOST_TOKENS), default=128, metavar="T", help="default: 128"
    )
    parser.add_argument("--ignore-eos", action="store_true", help="ask the server for exactly --max-tokens")
    _add_pace(parser)
    parser.add_argument(
        "--prompts", type=Path, metavar="FILE", help="JSONL, CSV, parquet, or a text file: a prompt a line"
    )
    parser.add_argument(
        "--timeout", type=positive(LONGEST_S), default=300.0, metavar="S", help="per request; default: 300 s"
    )
    _add_body(parser)
    parser.add_argument(
        "--workers",
        type=whole(1, MOST_WORKERS),
        metavar="N",
        help="processes that send; default: as many as it takes",
    )
    parser.add_argument("--seed", type=whole(0, MOST_SEED), default=0)
    _add_outputs(parser)


def _add_body(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-usage", action="store_true", help="for a server that refuses stream_options")
    parser.add_argument(
        "--no-continuous-usage", action="store_true", help="for a server that refuses continuous_usage_stats"
    )
    parser.add_argument(
        "--body", metavar="JSON", help="fields added to each request's body: '{\"top_k\": 1}'"
    )


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tokenizer", metavar="T", help="count answers again: a tokenizer.json, its folder, or a hub id"
    )
    parser.add_argument(
        "--records", type=Path, metavar="FILE", help="append every request's record as JSON lines"
    )
    parser.add_argument("--json", metavar="OUT", help="write one object there; - is stdout")


def _add_pace(parser: argparse.ArgumentParser) -> None:
    open_loop = parser.add_argument_group("open loop", "requests come whether or not others ended")
    open_loop.add_argument(
        "--rate", type=positive(MOST_PER_S), metavar="R", help="requests a second, in place of streams"
    )
    open_loop.add_argument(
        "--arrivals", choices=("poisson", "gamma", "constant"), default="poisson", help="default: poisson"
    )
    open_loop.add_argument(
        "--cv", type=positive(100), help="of gamma gaps: sd / mean (burstiness is 1 / cv^2)"
    )
    open_loop.add_argument(
        "--trace", metavar="FILE", help="due times from a file: a second a line, or JSONL; at most --requests"
    )
    open_loop.add_argument(
        "--max-in-flight", type=whole(1, MOST_STREAMS), metavar="M", help="more than that wait here"
    )
    closed = parser.add_argument_group("closed loop", "streams that pause")
    closed.add_argument(
        "--think", type=positive(LONGEST_S), metavar="S", help="mean pause before each further request"
    )
    closed.add_argument("--think-kind", choices=("fixed", "exponential"), help="default: fixed")
    closed.add_argument(
        "--stagger", type=positive(LONGEST_S), metavar="S", help="first requests spread over so long"
    )


def main(args: argparse.Namespace) -> int:
    """Drive, print, and exit 4 when the figures cannot be trusted, 1 when a request failed."""
    from depthgate.loading import drive
    from depthgate.output_file import check_file

    to_file = Path(args.json) if args.json not in (None, "-") else None
    for flag, path in (("--json", to_file), ("--records", args.records)):
        if path is not None:
            check_file(flag, path)
    result = drive(args)
    if args.json == "-":
        json.dump(result.figures, sys.stdout, indent=1, allow_nan=False)
        print()
    else:
        print(result.text)
    for warning in result.warnings:
        print(f"depthgate: the client was the limit: {warning}", file=sys.stderr)
    for fault in result.faults:
        print(f"depthgate: invalid: {fault}", file=sys.stderr)
    if result.interrupted:
        print("depthgate: interrupted; the figures are of what had ended", file=sys.stderr)
    if to_file is not None:
        to_file.write_text(json.dumps(result.figures, indent=1, allow_nan=False) + "\n")
    return result.exit_code
