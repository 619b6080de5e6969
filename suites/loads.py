"""The [load] table of a suite, read strictly: its mode, its length, its arrivals, phases and bursts."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

from suites.fields import Fields, nearest
from suites.limits import (
    LONGEST_S,
    MOST_ARRIVALS,
    MOST_PER_S,
    MOST_REQUESTS_PER_STREAM,
    MOST_STREAMS,
    MOST_WORKERS,
    rate_or_none,
    seconds_or_none,
)
from suites.model import Burst, LoadSpec, Phase, SuiteError
from suites.phases import read_bursts, read_phases
from suites.traffic import read_body

ARRIVALS = ("poisson", "gamma", "constant", "trace")
_CLOSED = ("warmup_s", "duration_s", "think_s", "think", "stagger_s", "phases", "bursts")
_OPEN = ("warmup_s", "duration_s", "phases", "bursts", "arrivals", "rate_per_s", "cv", "trace")
_ONLY_IN = {
    "burst": ("warmup_requests",),
    "closed": (*_CLOSED, "warmup_requests"),
    "open": (*_OPEN, "max_in_flight"),
}


def read_load(fields: Fields) -> LoadSpec:
    """The load of a suite. Raises SuiteError: one line with file, field, value and mend."""
    mode = fields.choice("mode", ("burst", "closed", "open"), "closed")
    _check_mode(fields, mode)
    phases = read_phases(fields, mode)
    rate, multiples = _rates(fields)
    spec = LoadSpec(
        concurrency=_concurrency(fields, mode, phases, multiples),
        mode=mode,
        requests_per_stream=fields.integer_or_none("requests_per_stream", 1, MOST_REQUESTS_PER_STREAM),
        duration_s=seconds_or_none(fields, "duration_s"),
        warmup_s=seconds_or_none(fields, "warmup_s", zero=True) or 0.0,
        warmup_requests=fields.integer("warmup_requests", 0, 0, MOST_REQUESTS_PER_STREAM),
        timeout_s=seconds_or_none(fields, "timeout_s") or 300.0,
        route=fields.choice("route", ("chat", "completions"), "chat"),
        think_s=seconds_or_none(fields, "think_s"),
        think=_choice_or_none(fields, "think", ("fixed", "exponential")),
        stagger_s=seconds_or_none(fields, "stagger_s"),
        arrivals=_choice_or_none(fields, "arrivals", ARRIVALS) or ("poisson" if mode == "open" else None),
        rate_per_s=rate,
        cv=fields.number_or_none("cv", lambda x: 0.001 <= x <= 100, "must be 0.001 to 100"),
        trace=fields.text_or_none("trace"),
        max_in_flight=fields.integer_or_none("max_in_flight", 1, MOST_STREAMS),
        phases=phases,
        bursts=read_bursts(fields),
        body=read_body(fields),
        workers=fields.integer_or_none("workers", 1, MOST_WORKERS),
    )
    fields.close()
    _check_arrivals(fields, spec)
    _check_length(fields, spec)
    if spec.think is not None and spec.think_s is None:
        raise fields.fault("think", "of what mean? add think_s = 1.0")
    return spec


def check_classes(load: LoadSpec, classes: Sequence[str], source: str) -> None:
    """Phases and bursts name classes that the suite has."""
    for index, phase in enumerate(load.phases or ()):
        for name in phase.weights or ():
            _check_class(name, classes, f"{source}: load.phases[{index}].weights.{name}")
    for index, burst in enumerate(load.bursts or ()):
        if burst.traffic is not None:
            _check_class(
                burst.traffic, classes, f"{source}: load.bursts[{index}].traffic = {burst.traffic!r}"
            )


def _check_class(name: str, classes: Sequence[str], where: str) -> None:
    if name not in classes:
        raise SuiteError(f"{where}: no such traffic class; {nearest(name, classes)}")


def _check_mode(fields: Fields, mode: str) -> None:
    """A field that the mode does not know would be passed over in silence. 0 is what an absent one is."""
    for name in sorted({name for names in _ONLY_IN.values() for name in names}):
        if fields.raw(name) not in (None, 0) and name not in _ONLY_IN[mode]:
            modes = " or ".join(f'mode = "{other}"' for other, names in _ONLY_IN.items() if name in names)
            reason = {
                "duration_s": "a burst ends with its requests; ",
                "warmup_s": "a burst is measured whole; ",
            }.get(name, "")
            raise fields.fault(name, f'{reason}not of mode = "{mode}"; remove it or use {modes}')


def _choice_or_none(fields: Fields, name: str, choices: Sequence[str]) -> str | None:
    return None if fields.raw(name) is None else fields.choice(name, choices, choices[0])


def _rates(fields: Fields) -> tuple[float | None, tuple[int, ...] | None]:
    """`rate_per_s = 0.5`; or a list: the rate of which all are whole multiples, and the multiples."""
    if not isinstance(fields.raw("rate_per_s"), list | tuple):
        return rate_or_none(fields, "rate_per_s"), None
    items = fields.items("rate_per_s") or []
    numbers = [item for item in items if isinstance(item, int | float) and not isinstance(item, bool)]
    whole = len(numbers) == len(items) and all(1e-6 <= number <= MOST_PER_S for number in numbers)
    if not items or not whole:
        said = f"every rate must be a number above 0, from 1e-06 to {MOST_PER_S:.0f}; write [0.5, 1, 2]"
        raise fields.fault("rate_per_s", said)
    if numbers != sorted(set(numbers)):
        raise fields.fault("rate_per_s", f"must ascend, each rate once; write {sorted(set(numbers))}")
    if fields.raw("concurrency") is not None:
        raise fields.fault("rate_per_s", "a list takes the place of concurrency; remove one of the two")
    exact = [Fraction(str(number)) for number in numbers]
    parts = lcm(*(rate.denominator for rate in exact))
    return 1.0 / parts, tuple(int(rate * parts) for rate in exact)


def _concurrency(
    fields: Fields, mode: str, phases: tuple[Phase, ...] | None, multiples: tuple[int, ...] | None
) -> tuple[int, ...]:
    """The swept axis: streams, or multiples of the rate. Phases that say how many streams leave one point."""
    named = [phase.concurrency for phase in phases or () if phase.concurrency is not None]
    given = fields.items("concurrency")
    if named and given is not None and given != [max(named)]:
        raise fields.fault(
            "concurrency", f"phases say how many streams; remove it or write [{max(named)}], their most"
        )
    if given is None:
        if multiples or named or mode == "open":
            return _checked(fields, multiples or ((max(named),) if named else (1,)))
        raise fields.fault("concurrency", "at least one point is needed; write concurrency = [1, 4, 16]")
    if not given:
        raise fields.fault("concurrency", "at least one point is needed; write concurrency = [1, 4, 16]")
    points = [item for item in given if isinstance(item, int) and not isinstance(item, bool) and item >= 1]
    if len(points) != len(given):
        raise fields.fault("concurrency", "every point must be a whole number of at least 1")
    return _checked(fields, tuple(points))


def _checked(fields: Fields, points: tuple[int, ...]) -> tuple[int, ...]:
    if list(points) != sorted(set(points)):
        raise fields.fault("concurrency", f"must ascend, each point once; write {sorted(set(points))}")
    if points[-1] > MOST_STREAMS:
        name = "rate_per_s" if fields.raw("concurrency") is None else "concurrency"
        said = f"must be at most {MOST_STREAMS} streams"
        raise fields.fault(name, f"{said}; rates must share a coarser step" if name == "rate_per_s" else said)
    return points


def _check_length(fields: Fields, spec: LoadSpec) -> None:
    if spec.phases is not None:
        for name in ("requests_per_stream", "duration_s", "warmup_s", "warmup_requests", "stagger_s"):
            if fields.raw(name) not in (None, 0):
                raise fields.fault(name, "phases say how long and what warms up; remove it or put it there")
        return
    if spec.mode == "burst" and spec.requests_per_stream is None:
        raise fields.fault(
            "requests_per_stream", "missing: the number of bursts; add requests_per_stream = 1"
        )
    if spec.requests_per_stream is None and spec.duration_s is None and spec.trace is None:
        raise fields.fault(
            "duration_s", "missing: say how long; add duration_s = 60 or requests_per_stream = 20"
        )
    if spec.duration_s is not None and spec.warmup_s >= spec.duration_s:
        raise fields.fault("warmup_s", f"leaves no window: must be below duration_s = {spec.duration_s:g}")
    _check_bursts(fields, spec.bursts or (), spec.duration_s)


def _check_bursts(fields: Fields, bursts: Sequence[Burst], duration_s: float | None) -> None:
    for index, burst in enumerate(bursts):
        last_s = burst.at_s + (burst.times - 1) * (burst.every_s or 0.0)
        if duration_s is not None and last_s >= duration_s:
            at = f"{fields.source}: load.bursts[{index}].at_s = {burst.at_s:g}"
            raise SuiteError(
                f"{at}: its last burst, at {last_s:g} s, is not before duration_s = {duration_s:g}"
            )


def _check_arrivals(fields: Fields, spec: LoadSpec) -> None:
    if spec.mode != "open":
        return
    if spec.arrivals == "gamma" and spec.cv is None:
        raise fields.fault(
            "cv", "missing: gamma arrivals need cv = 2.0 (sd / mean of the gaps; 1 is poisson)"
        )
    if spec.cv is not None and spec.arrivals != "gamma":
        raise fields.fault("cv", f'{spec.arrivals} arrivals have none; remove it or use arrivals = "gamma"')
    if spec.arrivals == "trace":
        if spec.trace is None:
            raise fields.fault("trace", 'missing: trace arrivals need trace = "due-seconds.txt"')
        for name in ("rate_per_s", "phases"):
            if fields.raw(name) is not None:
                raise fields.fault(name, "a trace has its own times; remove it")
        return
    if spec.trace is not None:
        raise fields.fault("trace", 'remove it or use arrivals = "trace"')
    _check_rate(fields, spec)


def _check_rate(fields: Fields, spec: LoadSpec) -> None:
    if spec.rate_per_s is None and any(phase.rate_per_s is None for phase in spec.phases or (Phase(),)):
        raise fields.fault("rate_per_s", "missing: requests a second; add rate_per_s = 2.0")
    if _expected_arrivals(spec) * spec.concurrency[-1] > MOST_ARRIVALS:
        raise fields.fault(
            "rate_per_s", f"more than {MOST_ARRIVALS} arrivals in a cell; lower it or its length"
        )
    if spec.duration_s is None and (spec.requests_per_stream or 0) > LONGEST_S * (spec.rate_per_s or 1.0):
        raise fields.fault("rate_per_s", f"its requests take more than {LONGEST_S:.0f} s; raise it")


def _expected_arrivals(spec: LoadSpec) -> float:
    """Of a cell at C = 1; a ramp goes evenly from the rate of the phase before it."""
    if spec.phases is None:
        return spec.requests_per_stream or (spec.duration_s or 0.0) * (spec.rate_per_s or 0.0)
    expected = before = 0.0
    for phase in spec.phases:
        after = (spec.rate_per_s if phase.rate_per_s is None else phase.rate_per_s) or 0.0
        ramp_s = phase.ramp_s or 0.0
        expected += after * ((phase.duration_s or 0.0) - ramp_s) + 0.5 * (before + after) * ramp_s
        before = after
    return expected
