"""How many worker processes of this machine drive a cell."""

from __future__ import annotations

import math
import os
from pathlib import Path

from loadgen.arrival_trace import read_arrival_trace
from suites.model import LoadSpec

STREAMS_A_WORKER = 512  # one process reads some 50,000 chunks/s with ease: 512 streams of 100 tokens/s
TOKENS_A_WORKER_PER_S = 100.0 * STREAMS_A_WORKER  # of open loops, whose streams nobody knows beforehand
REQUEST_TOKENS = 20.0  # a request costs the client as much as so many more tokens of it


def workers_of(load: LoadSpec, concurrency: int, mean_tokens: float, cores: int | None = None) -> int:
    """Processes that drive the cell: what the load says, else as many as it needs and cores allow.

    `mean_tokens`: what a request asks for. A core is left to whatever else runs here. Nobody is left without
    a stream, a place of `max_in_flight` or a request, where their number is known beforehand. Raises
    TrafficError for a trace that cannot be read.
    """
    most = min(load.most_in_flight(concurrency) or math.inf, _requests(load, concurrency))
    spare = (cores or usable_cores()) - 1
    wanted = load.workers
    if wanted is None:
        wanted = 1 if spare <= 1 else max(1, min(spare, _needed(load, concurrency, mean_tokens)))
    return int(min(wanted, most))


def _requests(load: LoadSpec, concurrency: int) -> float:
    """Most that an open loop sends; infinite where its draws say how many. Streams bound all other loads."""
    if load.mode != "open":
        return math.inf
    count = math.inf if load.requests_per_stream is None else load.requests_per_stream * concurrency
    if load.trace is not None:
        count = min(count, len(read_arrival_trace(Path(load.trace))))
    return count + sum(burst.requests * burst.times for burst in load.bursts or ())


def _needed(load: LoadSpec, concurrency: int, mean_tokens: float) -> int:
    in_flight = load.most_in_flight(concurrency)
    by_streams = math.inf if in_flight is None else in_flight / STREAMS_A_WORKER
    if load.mode != "open":
        return math.ceil(by_streams)
    at_once = sum(burst.requests for burst in load.bursts or ()) / STREAMS_A_WORKER
    by_rate = _peak_per_s(load, concurrency) * (mean_tokens + REQUEST_TOKENS) / TOKENS_A_WORKER_PER_S
    return math.ceil(min(by_streams, by_rate + at_once))


def _peak_per_s(load: LoadSpec, concurrency: int) -> float:
    """Requests a second in the busiest phase; a trace's over all of it."""
    if load.trace is not None:
        times = read_arrival_trace(Path(load.trace))
        return concurrency * len(times) / max(times[-1] - times[0], 1.0)
    rates = [phase.rate_per_s for phase in load.phases or ()]
    return concurrency * max(rate or 0.0 for rate in (*rates, load.rate_per_s))


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
