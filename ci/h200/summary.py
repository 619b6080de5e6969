"""Small tables out of a campaign's raw files: `python -m ci.h200.summary RUN OUT`.

cells.csv: one row a cell (throughput, latencies, what the step journal says of it). ratios.csv: one arm over
another at each load, geometric mean of the pairs of one round each, 95 % interval over rounds.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ci.h200.arms import PLANS
from reports.pooled import interval_of_logs

CONFIDENCE = 0.95
BANDS = {"1-4": (1, 4), "5-16": (5, 16), "32-256": (32, 256)}
Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def cell_rows(run: Path) -> list[Row]:
    """cells.jsonl with latencies from requests.jsonl and step figures from the journals beside them."""
    by_cell: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for request in read_rows(run / "requests.jsonl"):
        by_cell[_key(request)].append(request)
    paths = [*run.glob("*.steps.jsonl")] or [*run.glob("*.steps.slim")]
    journals = {path.name.split(".")[0]: read_rows(path) for path in paths}
    return [
        _cell(row, by_cell[_key(row)], journals.get(row["server"], []))
        for row in read_rows(run / "cells.jsonl")
    ]


def slim_journals(run: Path) -> None:
    """Each NAME.steps.jsonl again as NAME.steps.slim, without what is per request."""
    for path in run.glob("*.steps.jsonl"):
        with (
            path.open(encoding="utf-8") as file,
            path.with_suffix(".slim").open("w", encoding="utf-8") as out,
        ):
            for line in file:
                if line.endswith("\n"):
                    step = {
                        name: value for name, value in json.loads(line).items() if "request_ids" not in name
                    }
                    kept = {name: value for name, value in step.items() if not name.endswith("_by_request")}
                    out.write(json.dumps(kept, separators=(",", ":")) + "\n")


def table(cells: Iterable[Row], plans: Sequence[str]) -> str:
    """For eyes on the spot: median tokens/s by arm and load, then graph shares and executed K."""
    figures: dict[str, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        if cell["plan"] in plans and cell["tokens_per_s"]:
            figures[f"{cell['plan']} {cell['arm']}"][cell["concurrency"]].append(cell)
    return "\n".join(
        f"{arm:34s} " + "  ".join(map(_entry, sorted(loads.items()))) for arm, loads in figures.items()
    )


def _entry(load: tuple[int, list[Row]]) -> str:
    concurrency, cells = load
    last = cells[-1]
    said = f"c{concurrency} {median(cell['tokens_per_s'] for cell in cells):.0f}"
    if last["steps"]:
        said += f" (F{last['share_full']:.2f} K{last['depth_executed_mean']:.1f} {last['step_ms']}ms)"
    return said


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["plan"], row["arm"], row["concurrency"], row["repeat"]


def _cell(row: Row, requests: Sequence[Row], steps: Sequence[Row]) -> Row:
    done = [request for request in requests if request["outcome"] == "done"]
    begin_s, end_s = row["window_start_s"], row["window_end_s"]
    inside = [step for step in steps if begin_s <= step["start_s"] < end_s]
    return {
        **{name: row[name] for name in ("plan", "arm", "server", "mode", "concurrency", "repeat")},
        "tokens_per_s": _round(row["tokens_per_s"], 2),
        "ttft_p50_ms": _percentile((r["first_token_s"] - r["due_s"] for r in done), 50),
        "ttft_p99_ms": _percentile((r["first_token_s"] - r["due_s"] for r in done), 99),
        "tpot_p50_ms": _percentile(
            ((r["done_s"] - r["first_token_s"]) / (r["output_tokens"] - 1) for r in done), 50
        ),
        "acceptance_length": _acceptance_length(row),
        "done": len(done),
        "requests": len(requests),
        "invalid": "; ".join(row["invalid"]),
        **step_figures(inside, row["concurrency"]),
        "load1": _round(row["load1"], 2),
        "unix_s": round(row["unix_s"], 3),
    }


def step_figures(steps: Sequence[Row], concurrency: int) -> Row:
    """Shares over all steps of the cell; medians over decoding steps with the whole load in the batch."""
    full = [step for step in steps if step["prefill_requests"] == 0 and step["batch"] == concurrency]
    modes = [step["graph_mode"] for step in steps if step["batch"]]
    depths = [step["depth_executed"] for step in steps if step["batch"]]
    return {
        "steps": len(steps) or None,
        **{
            f"share_{mode}": _round(modes.count(mode) / len(modes), 3) if modes else None
            for mode in ("full", "piecewise", "none")
        },
        "depth_executed_mean": _round(sum(depths) / len(depths), 3) if depths else None,
        "chosen_not_executed": sum(s["depth_chosen"] != s["depth_executed"] for s in steps)
        if steps
        else None,
        "decode_steps": len(full) or None,
        **{
            f"{name[:-2]}_ms": _median_ms(step[name] for step in full)
            for name in ("step_s", "target_s", "draft_s")
        },
        "faults": max((step.get("faults") or 0 for step in steps), default=None),
    }


def ratio_rows(cells: Iterable[Row]) -> list[Row]:
    """Every pair of arms of a plan at every load and in each band of loads."""
    figures: dict[tuple[str, int], dict[tuple[str, int], float]] = defaultdict(dict)
    for cell in cells:
        if cell["tokens_per_s"] and not cell["invalid"]:
            figures[cell["plan"], cell["concurrency"]][cell["arm"], cell["repeat"]] = cell["tokens_per_s"]
    rows: list[Row] = []
    for plan in dict.fromkeys(plan for plan, _ in figures):
        loads = sorted(load for name, load in figures if name == plan)
        arms = sorted({arm for load in loads for arm, _ in figures[plan, load]}, key=_place(plan))
        for over, arm in combinations(arms, 2):
            by_load = {load: _logs(figures[plan, load], arm, over) for load in loads}
            rows += [
                _ratio(plan, arm, over, str(load), list(logs.values())) for load, logs in by_load.items()
            ]
            rows += [_ratio(plan, arm, over, band, _by_round(by_load, *ends)) for band, ends in BANDS.items()]
    return [row for row in rows if row["rounds"]]


def overhead_rows(cells: Iterable[Row]) -> list[Row]:
    """Throughput with telemetry on over off, of neighbours in the order 0 1 1 0 1 0; last, by server."""
    found: dict[tuple[Any, ...], dict[tuple[int, int], dict[int, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for cell in cells:
        if cell["plan"] == "overhead":
            on, rest = int(cell["arm"][len("telemetry")]), cell["arm"].partition("_k")[2]
            number, position = divmod(cell["repeat"], 6)
            found[rest, cell["concurrency"]][number, position // 2][on] = cell["tokens_per_s"]
    rows: list[Row] = []
    by_server: dict[str, list[float]] = defaultdict(list)
    for (arm, load), pairs in sorted(found.items()):
        logs = [float(np.log(pair[1] / pair[0])) for pair in pairs.values() if len(pair) == 2]
        rows.append(_ratio("overhead", f"telemetry on, K{arm}", "off", str(load), logs))
        by_server[str(arm).partition("@")[2]] += logs
    pooled = (
        _ratio("overhead", f"telemetry on@{name}", "off", "all", logs) for name, logs in by_server.items()
    )
    return [*rows, *pooled]


def _place(plan: str) -> Any:
    known = PLANS[plan].arms if plan in PLANS else ()
    return lambda arm: (known.index(arm) if arm in known else len(known), arm)


def _logs(figures: Mapping[tuple[str, int], float], arm: str, over: str) -> dict[int, float]:
    """Log ratio by round, for rounds that have both."""
    repeats = sorted({repeat for name, repeat in figures if name == arm})
    return {
        repeat: float(np.log(figures[arm, repeat] / figures[over, repeat]))
        for repeat in repeats
        if (over, repeat) in figures
    }


def _by_round(by_load: Mapping[int, Mapping[int, float]], low: int, high: int) -> list[float]:
    """The mean log ratio over the loads of a band, for each round that has them all."""
    inside = [logs for load, logs in by_load.items() if low <= load <= high]
    rounds = set.intersection(*(set(logs) for logs in inside)) if inside else set()
    return [float(np.mean([logs[number] for logs in inside])) for number in sorted(rounds)]


def _ratio(plan: str, arm: str, over: str, load: str, logs: Sequence[float]) -> Row:
    interval = interval_of_logs(logs, CONFIDENCE) if len(logs) > 1 else None
    return {
        "plan": plan,
        "arm": arm,
        "over": over,
        "concurrency": load,
        "rounds": len(logs),
        "ratio": _round(float(np.exp(np.mean(logs))), 4) if logs else None,
        "low": None if interval is None else _round(interval.low, 4),
        "high": None if interval is None else _round(interval.high, 4),
    }


def _acceptance_length(row: Mapping[str, Any]) -> float | None:
    return _round(1 + row["accepted_tokens"] / row["drafts"], 3) if row["drafts"] else None


def _percentile(seconds: Iterable[float], level: float) -> float | None:
    values = list(seconds)
    return _round(float(np.percentile(values, level)) * 1e3, 3) if values else None


def _median_ms(seconds: Iterable[float | None]) -> float | None:
    values = [value for value in seconds if value is not None]
    return _round(median(values) * 1e3, 3) if values else None


def _round(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(run: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    cells = sorted(cell_rows(run), key=lambda row: row["unix_s"])
    write_csv(out / "cells.csv", cells)
    write_csv(out / "ratios.csv", ratio_rows(cells))
    write_csv(out / "overhead.csv", overhead_rows(cells))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
