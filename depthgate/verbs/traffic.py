"""`depthgate traffic preview SUITE`: classes, lengths and samples of what a suite would send."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from depthgate.options import whole
from suites.grammar import counted

if TYPE_CHECKING:
    from loadgen.preview import ClassPreview, Preview, Spread

SUMMARY = "look at a suite's traffic before it is sent: classes, lengths, samples, sources"
EXAMPLE = """  depthgate traffic preview quickstart
  depthgate traffic preview my-suite.toml --requests 5000 --json"""
MOST = 1_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of the verb."""
    parser.add_argument("action", choices=("preview",), help="sends nothing")
    parser.add_argument("suite", help="a bundled name or a TOML file")
    parser.add_argument(
        "--requests", type=whole(1, MOST), default=1000, metavar="N", help="looked at; default: 1000"
    )
    parser.add_argument(
        "--samples", type=whole(1, MOST), default=3, metavar="N", help="shown of a class; default: 3"
    )
    parser.add_argument("--json", action="store_true", help="one object in place of the table")


def main(args: argparse.Namespace) -> int:
    """Draws the first requests, as a run would."""
    from loadgen.preview import preview
    from suites.parse import load_suite

    found = preview(load_suite(args.suite), args.requests, args.samples)
    if args.json:
        print(json.dumps(dataclasses.asdict(found), indent=1, ensure_ascii=False))
    else:
        print("\n".join(lines(found)))
    return 0


def lines(found: Preview) -> Iterator[str]:
    """As text. Tokens are least / p5 / p50 / p95 / most."""
    yield (
        f"{found.suite}: the first {counted(found.requests, 'request')} at c={found.concurrency}, repeat 0, "
        f"seed {found.seed}"
    )
    yield f"SHA-256 of all that is sent of them, equal on any machine: {found.digest}"
    for item in found.classes:
        yield ""
        yield from _of_class(item)
    for number, shares in enumerate(found.shares_by_phase, start=1):
        mix = ", ".join(f"{name} {_percent(share)}" for name, share in shares.items() if share)
        yield f"\nphase {number}: {mix}" if number == 1 else f"phase {number}: {mix}"
    yield "\nprompt tokens: 4 bytes each, as the embedded engine counts; a server's own tokenizer differs"


def _of_class(item: ClassPreview) -> Iterator[str]:
    yield f"{item.name}: {_percent(item.share)} by weight, {item.requests} of these requests"
    yield f"  source         {item.source} (licence: {item.licence})"
    yield f"  prompt tokens  {_spread(item.prompt_tokens)}"
    yield f"  max_tokens     {_spread(item.max_tokens)}"
    if item.turns > 1:
        yield f"  turns          up to {item.turns} a conversation; each carries the answers before it"
    for sample in item.samples:
        yield f"  > {sample}"


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return "none was drawn; look at more with --requests"
    values = (spread.least, spread.p5, spread.p50, spread.p95, spread.most)
    if spread.least == spread.most:
        return f"{spread.least}"
    return " / ".join(map(str, values)) + "  (least / p5 / p50 / p95 / most)"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
