"""[[load.phases]] and [[load.bursts]]: stretches of a load, and requests at once on top of it."""

from __future__ import annotations

from collections.abc import Mapping

from suites.fields import Fields
from suites.limits import (
    MOST_ARRIVALS,
    MOST_REQUESTS_PER_STREAM,
    MOST_STREAMS,
    rate_or_none,
    seconds_or_none,
)
from suites.model import Burst, Phase

MOST_PHASES = 1_000


def read_phases(load: Fields, mode: str) -> tuple[Phase, ...] | None:
    """The phases of a closed or an open load, None when it has none."""
    if load.raw("phases") is None:
        return None
    phases = tuple(_phase(fields, mode) for fields in load.tables("phases"))
    if not 1 <= len(phases) <= MOST_PHASES:
        raise load.fault("phases", f"must be 1 to {MOST_PHASES} tables; remove it for a load without phases")
    if all(phase.concurrency == 0 for phase in phases):
        raise load.fault("phases", "every one has concurrency = 0: nobody would send; raise one of them")
    measured = [index for index, phase in enumerate(phases) if not phase.warmup]
    if not measured:
        raise load.fault("phases", "all of them warm up: nothing is measured; leave warmup out of one")
    for index, phase in enumerate(phases):
        if phase.warmup and index > measured[0]:
            raise load.fault("phases", f"phase {index} warms up after a measured one; warm-up comes first")
    return phases


def _phase(fields: Fields, mode: str) -> Phase:
    other, axis = ("rate_per_s", "concurrency") if mode == "closed" else ("concurrency", "rate_per_s")
    if fields.raw(other) is not None:
        raise fields.fault(other, f'not of mode = "{mode}"; use {axis}')
    phase = Phase(
        concurrency=fields.integer_or_none("concurrency", 0, MOST_STREAMS),
        rate_per_s=rate_or_none(fields, "rate_per_s", zero=True),
        duration_s=seconds_or_none(fields, "duration_s"),
        requests_per_stream=fields.integer_or_none("requests_per_stream", 1, MOST_REQUESTS_PER_STREAM),
        ramp_s=seconds_or_none(fields, "ramp_s"),
        weights=_weights(fields),
        warmup=fields.flag("warmup", default=False),
    )
    fields.close()
    _check_length(fields, phase, mode)
    return phase


def _check_length(fields: Fields, phase: Phase, mode: str) -> None:
    if phase.duration_s is None and (phase.requests_per_stream is None or mode == "open"):
        either = " or requests_per_stream = 4" if mode == "closed" else ""
        raise fields.fault("duration_s", f"missing: say how long; add duration_s = 20{either}")
    if phase.requests_per_stream is not None:
        if phase.duration_s is not None or mode == "open":
            raise fields.fault("requests_per_stream", "a phase has one length; remove it or duration_s")
        if phase.ramp_s is not None:
            raise fields.fault("ramp_s", "a ramp needs a phase with duration_s; remove one of the two")
        if phase.concurrency == 0:
            raise fields.fault("concurrency", "nobody would send requests_per_stream; use duration_s")
    if phase.ramp_s is not None and phase.ramp_s > (phase.duration_s or 0.0):
        raise fields.fault("ramp_s", f"must be at most duration_s = {phase.duration_s:g}")


def _weights(fields: Fields) -> Mapping[str, float] | None:
    if fields.raw("weights") is None:
        return None
    inner = Fields(fields.raw("weights"), fields.source, fields.at("weights"))
    names = list(fields.options("weights"))
    found = {name: inner.number_or_none(name, lambda x: x >= 0, "must be 0 or more") for name in names}
    weights = {name: weight for name, weight in found.items() if weight}
    if not weights:
        raise fields.fault("weights", "no class has any; write weights = { chat = 1 }")
    return weights


def read_bursts(load: Fields) -> tuple[Burst, ...] | None:
    """The bursts on top of the load, None when there are none."""
    if load.raw("bursts") is None:
        return None
    bursts = tuple(_burst(fields) for fields in load.tables("bursts"))
    if not bursts:
        raise load.fault("bursts", "empty; remove it for a load without bursts")
    if sum(burst.requests * burst.times for burst in bursts) > MOST_ARRIVALS:
        raise load.fault("bursts", f"more than {MOST_ARRIVALS} requests; lower requests or times")
    return bursts


def _burst(fields: Fields) -> Burst:
    at_s = seconds_or_none(fields, "at_s", zero=True)
    requests = fields.integer_or_none("requests", 1, MOST_STREAMS)
    if at_s is None:
        raise fields.fault("at_s", "missing: seconds from the load's start; add at_s = 10")
    if requests is None:
        raise fields.fault("requests", "missing: how many at once; add requests = 12")
    burst = Burst(
        at_s=at_s,
        requests=requests,
        times=fields.integer("times", 1, 1, MOST_STREAMS),
        every_s=seconds_or_none(fields, "every_s"),
        traffic=fields.text_or_none("traffic"),
    )
    fields.close()
    if (burst.times > 1) != (burst.every_s is not None):
        mend = "add every_s = 10" if burst.every_s is None else "add times = 3 or remove it"
        raise fields.fault("times" if burst.every_s is None else "every_s", f"needs the other; {mend}")
    return burst
