"""`depthgate doctor`: cliffs that follow from a configuration alone, each with its mend; sends no request."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

SUMMARY = "cliffs that an engine's configuration alone foretells, and what to set instead"
EXAMPLE = """  depthgate doctor capture-ceiling
  depthgate doctor --config '{"max_num_seqs": 256, "num_speculative_tokens": 7}'
  depthgate doctor --config '{"max_num_seqs": 6, "num_speculative_tokens": 6, \\
      "max_cudagraph_capture_size": 42}'
exit codes: 0 nothing found, 1 a cliff is foretold, 2 usage, 70 its own fault"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the verb."""
    parser.add_argument("suite", nargs="?", help="a suite's name or its TOML file: its engine is looked at")
    parser.add_argument(
        "--config",
        metavar="JSON|SUITE",
        help="a suite, or an object of max_num_seqs, num_speculative_tokens (a K or a list), "
        "cudagraph_capture_sizes or max_cudagraph_capture_size, padding",
    )
    parser.add_argument("--json", action="store_true", help="print one object")


def main(args: argparse.Namespace) -> int:
    """One line a finding."""
    from depthgate.diagnosis import config_of_json, config_of_suite, diagnose
    from depthgate.exits import UsageError
    from depthgate.options import json_object
    from suites.parse import load_suite

    named = args.suite or args.config
    if not named or (args.suite and args.config):
        raise UsageError("give a suite, or --config with a suite or a JSON object; one of them")
    if named.lstrip().startswith("{"):
        config = config_of_json(json_object("--config", named))
    else:
        config = config_of_suite(load_suite(named))
    found = diagnose(config)
    if args.json:
        findings = [{"reproducer": each.reproducer.name, **asdict(each.finding)} for each in found]
        print(json.dumps({"config": asdict(config), "findings": findings}, indent=1))
        return 1 if found else 0
    for each in found:
        print(f"{each.reproducer.name} ({each.reproducer.report}): {each.finding.sentence}")
    if not found:
        captured = f"up to {config.capture_sizes[-1]}" if config.capture_sizes else "not known"
        depths = ", ".join(map(str, config.depths))
        print(f"no cliff follows from max_num_seqs={config.max_num_seqs}, K={depths}, capture {captured}")
    return 1 if found else 0
