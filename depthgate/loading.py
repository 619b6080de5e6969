"""`depthgate load` from flags to figures: drive, show progress, sum up; Ctrl-C keeps what there is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TypeVar

import orjson

from depthgate.exits import UsageError
from depthgate.loop import run_loop
from depthgate.options import checked_url, json_object
from loadgen.journal import Journal
from loadgen.lag import client_saturated
from loadgen.load_command import LoadSettings, run_load
from loadgen.records import CellRecord, RequestRecord
from loadgen.retokenised import Recount, Recounted, load_tokenizer
from reports.load_summary import LoadSummary
from suites.grammar import counted
from suites.limits import LONGEST_S
from suites.measures import SAMPLES_NEEDED
from suites.secrets import secret_path
from suites.traffic import CLIENT_FIELDS

INVALID = 4
INTERRUPTED = 130
Sendable = TypeVar("Sendable")


@dataclass(frozen=True, slots=True)
class Loaded:
    """`figures`: the flat object of --json. `faults`: why the figures cannot be trusted; empty = they can.

    `warnings`: why they are the client's limit rather than the server's (docs/decisions/0013).
    `interrupted`: they are of what had ended by then.
    """

    figures: dict[str, object]
    text: str
    faults: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """130 interrupted, 4 invalid, 1 when a request failed or was refused, else 0."""
        if self.interrupted:
            return INTERRUPTED
        if self.faults:
            return INVALID
        return 1 if self.figures["failed"] or self.figures["refused"] else 0


def drive(args: argparse.Namespace) -> Loaded:
    """Raises UsageError, TrafficError or EngineError before the first request."""
    settings, recount = _settings(args), _recount(args.tokenizer)
    with ExitStack() as stack:
        journal = stack.enter_context(Journal(args.records)) if args.records else None
        tick = stack.enter_context(_progress(settings.requests))
        summary = LoadSummary()

        def keep(record: RequestRecord) -> None:
            if journal is not None:
                journal.append(record)
            if recount is not None:
                recount.see(record)
            summary.add(record)
            tick()

        on_text = None if recount is None else recount.hear
        try:
            cell = run_loop(lambda: run_load(settings, keep, on_text=on_text))
        except KeyboardInterrupt:
            cell = None
    return summed_up(summary, cell, settings, None if recount is None else recount.result())


def _recount(tokenizer: str | None) -> Recount | None:
    return None if tokenizer is None else Recount(tokenizer, load_tokenizer(tokenizer))


def _body(text: str | None) -> dict[str, object] | None:
    body = None if text is None else json_object("--body", text)
    for name in sorted(CLIENT_FIELDS & (body or {}).keys()):
        raise UsageError(f"--body: {name!r} is set by the client; drop it or use the flag for it")
    body = _sendable("--body", body)
    if (where := secret_path(body, "--body")) is not None:
        raise UsageError(f"{where}: a secret; drop it and give it by the environment (OPENAI_API_KEY)")
    return body


def _sendable(flag: str, value: Sendable) -> Sendable:
    """UsageError for what no body can carry: half a character, a whole number beyond 64 bits."""
    try:
        orjson.dumps(value)
    except TypeError as error:
        raise UsageError(f"{flag}: cannot be sent ({error}); give another value") from None
    return value


def _settings(args: argparse.Namespace) -> LoadSettings:
    _check_pace(args)
    if args.prompts is not None and not args.prompts.is_file():
        what = "is no regular file" if args.prompts.exists() else "no such file"
        raise UsageError(f"--prompts {args.prompts}: {what}; a prompt a line, or JSONL, CSV, parquet")
    return LoadSettings(
        url=checked_url("--url", args.url),
        concurrency=args.concurrency or 1,
        requests=args.requests,
        max_tokens=args.max_tokens,
        model=_sendable("--model", args.model),
        route=args.route,
        ignore_eos=args.ignore_eos,
        prompts=args.prompts,
        seed=args.seed,
        timeout_s=args.timeout,
        usage=not args.no_usage,
        continuous_usage=not args.no_usage and not args.no_continuous_usage,
        rate_per_s=args.rate,
        arrivals=args.arrivals,
        cv=args.cv,
        trace=args.trace,
        max_in_flight=args.max_in_flight,
        think_s=args.think,
        think=args.think_kind,
        stagger_s=args.stagger,
        workers=args.workers,
        body=_body(args.body),
    )


OPEN_FLAGS = ("cv", "max_in_flight")
CLOSED_FLAGS = ("concurrency", "think", "think_kind", "stagger")


def _check_pace(args: argparse.Namespace) -> None:
    """A flag of the other loop would be passed over in silence."""
    is_open = args.rate is not None or args.trace is not None
    for name in CLOSED_FLAGS if is_open else OPEN_FLAGS:
        if getattr(args, name) is not None:
            mend = "drop it or --rate and --trace" if is_open else "add --rate or --trace, or drop it"
            raise UsageError(f"{_flag(name)} {getattr(args, name)}: not of this loop; {mend}")
    if args.rate is not None and args.trace is not None:
        raise UsageError(f"--rate {args.rate:g}: a trace has its own times; drop one of the two")
    if args.rate is not None and args.requests / args.rate > LONGEST_S:
        days = args.requests / args.rate / 86_400
        raise UsageError(
            f"--rate {args.rate:g}: {counted(args.requests, 'request')} would take {days:.3g} days; "
            "raise the rate, or lower --requests"
        )
    if (args.arrivals == "gamma") != (args.cv is not None):
        raise UsageError(f"--arrivals {args.arrivals}: --cv goes with gamma; give both or neither")
    if args.arrivals != "poisson" and args.rate is None:
        raise UsageError(f"--arrivals {args.arrivals}: at what rate? add --rate 4, or drop it")
    if args.think_kind is not None and args.think is None:
        raise UsageError(f"--think-kind {args.think_kind}: of what mean? add --think 1.0")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


class _Ticks:
    """A progress bar on a terminal, nothing elsewhere; `rich` is loaded only where it is shown."""

    def __init__(self, total: int) -> None:
        self._total = total

    def __enter__(self) -> Callable[[], None]:
        if not sys.stderr.isatty():
            return lambda: None
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

        self._bar = Progress(
            "requests", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=Console(stderr=True)
        )
        self._bar.start()
        task = self._bar.add_task("requests", total=self._total)
        return lambda: self._bar.advance(task)

    def __exit__(self, *error: object) -> None:
        if hasattr(self, "_bar"):
            self._bar.stop()


def _progress(total: int) -> _Ticks:
    return _Ticks(total)


def summed_up(
    summary: LoadSummary,
    cell: CellRecord | None,
    settings: LoadSettings,
    recounted: Recounted | None = None,
) -> Loaded:
    """Figures, text and rulings of a load. `cell` None: it was interrupted and has no summary of its own."""
    faults, warnings = _faults(cell, settings) if cell else ((), ())
    figures = summary.figures(cell) | {"invalid": list(faults), "client_limited": list(warnings)}
    if cell is None:
        figures["interrupted"] = True
    lines = [f"{settings.url}: {counted(settings.requests, 'request')} {_pace(settings)}"]
    for name, value in figures.items():
        if not isinstance(value, dict | list):
            lines.append(f"  {name:<26} {_shown(value)}")
    failures = figures["failures"]
    if isinstance(failures, dict):
        lines += [f"  {count} x {' '.join(reason.split())}" for reason, count in failures.items()]
    notes = [*(cell.notes if cell else ()), *_few(summary.completed)]
    notes += [] if recounted is None else [recounted.note()]
    if recounted is not None:
        figures["tokenizer"] = asdict(recounted)
    lines += [f"  note: {note}" for note in notes]
    return Loaded(figures, "\n".join(lines), faults, warnings, interrupted=cell is None)


def _few(done: int) -> list[str]:
    """Of percentiles that this many requests do not resolve."""
    lacking = [f"{name} needs {needed}" for name, needed in SAMPLES_NEEDED.items() if 0 < done < needed]
    return (
        [f"{counted(done, 'request')}: too few to tell a percentile ({', '.join(lacking)})"]
        if lacking
        else []
    )


def _pace(settings: LoadSettings) -> str:
    if settings.trace is not None:
        return f"at most, due as in {settings.trace}"
    if settings.rate_per_s is not None:
        return f"at {settings.rate_per_s:g} a second, {settings.arrivals} arrivals"
    return f"over {counted(settings.concurrency, 'stream')}"


def _faults(cell: CellRecord, settings: LoadSettings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(faults, warnings). A short load may have no steady state; its figures cover all of it and need none.

    Streams that send as fast as they are answered have no schedule to miss: a client that is flat out then
    measures its own limit, and says so. With due times to keep, a saturated client is a fault.
    """
    found = tuple(fault for fault in cell.invalid if "steady" not in fault)
    if settings.scheduled:
        return found, ()
    return tuple(f for f in found if not client_saturated(f)), tuple(f for f in found if client_saturated(f))


def _shown(value: object) -> str:
    if value is None:
        return "not known"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
