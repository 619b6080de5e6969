"""Do two runs of one suite through different loads agree? `python -m ci.agreement RUN RUN` exits with 0 or 1.

The bars, declared before the runs that docs/locust.md reports: the output tokens of every request are equal;
of each point, over repeats in pairs, the geometric mean of the throughputs' ratio is within 2 % of 1, and the
95 % interval (Student) of the TTFT p50's ratio holds 1. Cells that either run calls invalid are left out.

A first bar, TTFT p50 of each single cell within 3 % and 2 ms, was wrong in kind: a request that just misses
a step of the engine waits for the next (60 ms here), so two runs of the *same* load miss it as well.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from depthgate.usage import OneLineParser
from reports.metrics import ttft_s
from reports.pooled import interval_of_logs
from reports.run_folder import CellData, RunFolderError, read_run
from reports.samples import percentiles
from reports.throughput import token_spans

THROUGHPUT_SHARE = 0.02


def tokens_of(cell: CellData) -> dict[str, int | None]:
    return {record.request: record.output_tokens for record in cell.requests}


def figures(cell: CellData, mode: str) -> tuple[float, float]:
    """(tokens/s, TTFT p50 in seconds); NaN where there is none."""
    spans, first = token_spans(cell.requests, cell.record, mode), ttft_s(cell.requests)
    rate = spans.tokens_per_s if spans is not None else None
    return rate or np.nan, np.nan if first is None else float(percentiles(first, [50.0])[0])


def compare(point: str, pairs: list[tuple[CellData, CellData]], mode: str) -> bool:
    """Prints a point's row; whether it agrees."""
    valid = [(one, other) for one, other in pairs if not one.record.invalid and not other.record.invalid]
    equal = all(tokens_of(one) == tokens_of(other) for one, other in pairs)
    logs = [np.log(np.divide(figures(other, mode), figures(one, mode))) for one, other in valid]
    rate, first = (interval_of_logs([pair[at] for pair in logs], 0.95) for at in (0, 1))
    if rate is None or first is None:
        print(f"{point},{len(valid)},{'equal' if equal else 'UNEQUAL'},,,,,,,too few valid pairs")
        return False
    agrees = equal and abs(rate.point - 1) <= THROUGHPUT_SHARE and first.low <= 1 <= first.high
    said = ",".join(f"{edge:.4f}" for at in (rate, first) for edge in (at.low, at.point, at.high))
    word = "agrees" if agrees else "differs"
    print(f"{point},{len(valid)},{'equal' if equal else 'UNEQUAL'},{said},{word}")
    return agrees


def main(words: Sequence[str] | None = None) -> int:
    """SystemExit for --help and what cannot be compared."""
    parser = OneLineParser(prog="python -m ci.agreement", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("runs", metavar="RUN", nargs=2, type=Path, help="a run's folder, as out/NAME")
    try:
        one, other = map(read_run, parser.parse_args(words).runs)
    except RunFolderError as error:
        parser.error(str(error))
    suite = one.suite
    if suite is None or one.manifest.get("suite_sha256") != other.manifest.get("suite_sha256"):
        parser.error("these are not two runs of one suite")
    print("arm,c,valid_pairs,tokens,rate_low,rate_ratio,rate_high,ttft_low,ttft_ratio,ttft_high,says")
    points: dict[str, list[tuple[CellData, CellData]]] = defaultdict(list)
    for key in one.cells.keys() & other.cells.keys():
        points[f"{key.arm},{key.concurrency}"].append((one.cells[key], other.cells[key]))
    found = [compare(point, points[point], suite.load.mode) for point in sorted(points)]
    return 0 if found and all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
