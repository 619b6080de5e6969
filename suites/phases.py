"""[[load.phases]] and [[load.bursts]]: stretches of a load, and requests at once on top of it."""

from __future__ import annotations

from collections.abc import Mapping

from suites.fields import Fields
from suites.model import Burst, Phase

MOST_PHASES = 1_000


def read_phases(load: Fields, mode: str, most_streams: int, most_requests: int) -> tuple[Phase, ...] | None:
    """The phases of a closed or an open load, None when it has none."""
    if load.raw("phases") is None:
        return None
    phases = tuple(_phase(fields, mode, most_streams, most_requests) for fields in load.tables("phases"))
    if not 1 <= len(phases) <= MOST_PHASES:
        raise load.fault("phases", f"must be 1 to {MOST_PHASES} tables; remove it for a load without phases")
    measured = [index for index, phase in enumerate(phases) if not phase.warmup]
    if not measured:
        raise load.fault("phases", "all of them warm up: nothing is measured; leave warmup out of one")
    for index, phase in enumerate(phases):
        if phase.warmup and index > measured[0]:
            raise load.fault("phases", f"phase {index} warms up after a measured one; warm-up comes first")
    return phases


def _phase(fields: Fields, mode: str, most_streams: int, most_requests: int) -> Phase:
    other, axis = ("rate_per_s", "concurrency") if mode == "closed" else ("concurrency", "rate_per_s")
    if fields.raw(other) is not None:
        raise fields.fault(other, f'not of mode = "{mode}"; use {axis}')
    phase = Phase(
        concurrency=fields.integer_or_none("concurrency", 0, most_streams),
        rate_per_s=fields.number_or_none("rate_per_s", lambda x: x >= 0, "must be 0 requests/s or more"),
        duration_s=fields.number_or_none("duration_s", lambda x: x > 0, "must be above 0 seconds"),
        requests_per_stream=fields.integer_or_none("requests_per_stream", 1, most_requests),
        ramp_s=fields.number_or_none("ramp_s", lambda x: x > 0, "must be above 0 seconds; or leave it out"),
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


def read_bursts(load: Fields, most_streams: int) -> tuple[Burst, ...] | None:
    """The bursts on top of the load, None when there are none."""
    if load.raw("bursts") is None:
        return None
    bursts = tuple(_burst(fields, most_streams) for fields in load.tables("bursts"))
    if not bursts:
        raise load.fault("bursts", "empty; remove it for a load without bursts")
    return bursts


def _burst(fields: Fields, most_streams: int) -> Burst:
    at_s = fields.number_or_none("at_s", lambda x: x >= 0, "must be 0 seconds or more")
    requests = fields.integer_or_none("requests", 1, most_streams)
    if at_s is None:
        raise fields.fault("at_s", "missing: seconds from the load's start; add at_s = 10")
    if requests is None:
        raise fields.fault("requests", "missing: how many at once; add requests = 12")
    burst = Burst(
        at_s=at_s,
        requests=requests,
        times=fields.integer("times", 1, 1, most_streams),
        every_s=fields.number_or_none("every_s", lambda x: x > 0, "must be above 0 seconds"),
        traffic=fields.text_or_none("traffic"),
    )
    fields.close()
    if (burst.times > 1) != (burst.every_s is not None):
        mend = "add every_s = 10" if burst.every_s is None else "add times = 3 or remove it"
        raise fields.fault("times" if burst.every_s is None else "every_s", f"needs the other; {mend}")
    return burst
