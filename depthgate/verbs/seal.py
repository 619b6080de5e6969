"""`depthgate seal SUITE`: write down what a suite promises, before it runs."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

SUMMARY = "seal a suite: only a run of a sealed, unaltered suite is gated"
EXAMPLE = "  depthgate seal suites/quickstart.toml"


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the verb."""
    parser.add_argument("suite", help="a suite's name or its TOML file")
    parser.add_argument(
        "--force", action="store_true", help="seal anew what changed after sealing; keeps the former seal"
    )
    parser.add_argument("--json", action="store_true", help="print the seal as one object")


def main(args: argparse.Namespace) -> int:
    """Seal and say where the seal lies."""
    from suites.locate import find_suite
    from suites.seal import seal_path, seal_suite

    path = find_suite(args.suite)
    seal = seal_suite(path, force=args.force)
    if args.json:
        print(json.dumps(asdict(seal), indent=1))
    else:
        print(f"sealed {path.name} as {seal.sha256[:12]} at {seal.sealed_utc}: {seal_path(path)}")
        print("commit the seal before the run; a run of an altered suite is refused")
    return 0
