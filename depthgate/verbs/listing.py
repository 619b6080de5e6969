"""`depthgate list`: what there is to run, by name."""

from __future__ import annotations

import argparse
import json

SUMMARY = "list governors, suites, profiles, reproducers and engines"
EXAMPLE = "  depthgate list governors\n  depthgate list --json"
KINDS = ("governors", "suites", "profiles", "reproducers", "engines")


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the verb."""
    parser.add_argument("kind", nargs="?", choices=KINDS, help="only these (default: all)")
    parser.add_argument("--json", action="store_true", help="one object: kind -> [{name, summary, ...}]")


def main(args: argparse.Namespace) -> int:
    """Print the registries."""
    kinds = (args.kind,) if args.kind else KINDS
    found = {kind: _READERS[kind]() for kind in kinds}
    if args.json:
        print(json.dumps(found, indent=1))
        return 0
    for kind, rows in found.items():
        print(f"{kind}:")
        width = max((len(row["name"]) for row in rows), default=0)
        for row in rows:
            print(f"  {row['name']:<{width}}  {row['summary']}")
    return 0


def _governors() -> list[dict[str, str]]:
    from governors.registry import governor_entry, governor_names

    return [
        {"name": entry.name, "summary": entry.summary, "layer": entry.layer, "source": entry.source}
        for entry in map(governor_entry, governor_names())
    ]


def _suites() -> list[dict[str, str]]:
    from suites.locate import suite_names
    from suites.parse import load_suite

    return [{"name": name, "summary": load_suite(name).question} for name in suite_names()]


def _profiles() -> list[dict[str, str]]:
    from engines.embedded.profile import load_profile, profile_names

    return [{"name": name, "summary": load_profile(name).summary} for name in profile_names()]


def _reproducers() -> list[dict[str, str]]:
    from reproducers.registry import REPRODUCERS

    return [
        {"name": name, "summary": entry.symptom, "report": entry.report, "published": entry.published}
        for name, entry in sorted(REPRODUCERS.items())
    ]


def _engines() -> list[dict[str, str]]:
    from engines.registry import ENGINES

    return [{"name": name, "summary": entry.summary} for name, entry in sorted(ENGINES.items())]


_READERS = {
    "governors": _governors,
    "suites": _suites,
    "profiles": _profiles,
    "reproducers": _reproducers,
    "engines": _engines,
}
