"""`depthgate validate`: tables predicted by the engine's cost functions, as JSON, text and a page."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from depthgate.exits import UsageError
from depthgate.output_file import check_file, write_file
from engines.embedded.schema import nearest
from engines.embedded.validation.table import load_table, table_names
from engines.embedded.validation.validate import Prediction, Validated, validate_table
from reports.validation import Errors, errors_of, groups_of

MISSED = 1


def validate(args: argparse.Namespace) -> int:
    """0 when the bars are met over all held-out cells, 1 when not. UsageError: no such table or folder."""
    unknown = [name for name in args.tables if name not in table_names()]
    if unknown:
        raise UsageError(f"table {unknown[0]!r}: no such table; {nearest(unknown[0], table_names())}")
    if args.page is not None:
        check_file("--page", args.page)
    found = [_one(name) for name in dict.fromkeys(args.tables) or table_names()]
    total = errors_of(cell for each in found for cell in each.predictions)
    if args.json:
        print(json.dumps(summary(found, total, cells=args.cells), indent=1))
    else:
        print("\n".join(lines(found, total, cells=args.cells)))
    if args.page is not None:
        from reports.validation_page import TablePart, validation_page

        parts = [
            TablePart(each.table.name, each.table.header.title, _plain(each), each.predictions)
            for each in found
        ]
        write_file("--page", args.page, validation_page(parts))
        print(f"page: {args.page}", file=sys.stderr)
    return 0 if total.holds else MISSED


def _one(name: str) -> Validated:
    print(f"validate: {name}", file=sys.stderr, flush=True)
    return validate_table(load_table(name))


def summary(found: Sequence[Validated], total: Errors, *, cells: bool) -> dict[str, object]:
    """The object of --json: errors and shares are fractions, figures seconds, tokens/s or ratios."""
    median, p90, sign = total.met
    return {
        "model": "embedded engine: predictions of a model, fitted to part of each table",
        "cells": total.cells,
        "median_abs_error": total.median,
        "p90_abs_error": total.p90,
        "sign_right": total.sign_right,
        "met": {"median_abs_error": median, "p90_abs_error": p90, "sign_right": sign},
        "total": asdict(total),
        "groups": {name: asdict(errors) for name, errors in _groups(found).items()},
        "by_table": {each.table.name: _table(each, cells=cells) for each in found},
    }


def _groups(found: Sequence[Validated]) -> dict[str, Errors]:
    return groups_of([cell for each in found for cell in each.predictions])


def _table(each: Validated, *, cells: bool) -> dict[str, object]:
    of_table = {**asdict(errors_of(each.predictions)), **_plain(each)}
    if cells:
        of_table["predictions"] = [{**asdict(cell), "error": cell.error} for cell in each.predictions]
    return of_table


def _plain(each: Validated) -> dict[str, object]:
    header = each.table.header
    return {
        "source": header.source,
        "split": header.split,
        "base_profile": header.base,
        "constants": dict(each.fit.values),
        "at_bound": list(each.fit.at_bound),
        "notes": list(header.notes),
    }


def lines(found: Sequence[Validated], total: Errors, *, cells: bool) -> list[str]:
    """The table on the terminal: a row a table, then the totals against their bars."""
    width = max(29, *(len(each.table.name) for each in found))
    rows = [f"{'table':<{width}}  cells  median    p90   sign right   p90 of noise alone"]
    for each in found:
        errors = errors_of(each.predictions)
        rows.append(f"{each.table.name:<{width}}  {errors.cells:>5}  {_figures(errors)}")
        rows += [_cell_line(cell) for cell in each.predictions] if cells else []
    for name, errors in _groups(found).items():
        rows.append(f"{name:<{width}}  {errors.cells:>5}  {_figures(errors)}")
    rows.append(f"{'all held-out cells':<{width}}  {total.cells:>5}  {_figures(total)}")
    names = ("median <= 6 %", "90th percentile <= 15 %", "sign right >= 95 %")
    words = {True: "met", False: "MISSED", None: "not measured"}
    rows += [f"{words[met]}: {name}" for name, met in zip(names, total.met, strict=True)]
    return rows


def _cell_line(cell: Prediction) -> str:
    place = ("" if cell.depth is None else f"K{cell.depth}") + (
        "" if cell.context_tokens is None else f" ctx{cell.context_tokens}"
    )
    figures = f"{cell.measured:>12.5g} {cell.predicted:>12.5g} {cell.error:>+8.1%}"
    return f"  {cell.arm:<30} {cell.quantity:<14} c{cell.batch:<4}{place:<9}{figures}  {cell.role}"


def _figures(errors: Errors) -> str:
    sign = "" if errors.sign_right is None else f"{errors.sign_right:.1%} of {errors.sign_cells}"
    noise = "" if errors.noise_p90 is None else f"{errors.noise_p90:.1%}"
    return f"{errors.median or 0:>6.1%} {errors.p90 or 0:>6.1%}  {sign:<14} {noise}".rstrip()
