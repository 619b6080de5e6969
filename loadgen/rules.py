"""Which rules drive a load: plain loops have drivers of their own, all others obey LoadRules."""

from __future__ import annotations

from loadgen.bursts_on_top import BurstsOnTop
from loadgen.open_loop import OpenLoop
from loadgen.phased import PhasedLoop
from loadgen.sends import LoadRules
from loadgen.share import ALL, Share
from suites.model import LoadSpec

PACED = "paced"


def driver_of(load: LoadSpec) -> str:
    """A load's mode, or "paced": an open loop, or a closed one with phases or bursts on top."""
    if load.mode == "open" or load.phases is not None or load.bursts is not None:
        return PACED
    return load.mode


def rules_of(load: LoadSpec, concurrency: int, name: str, share: Share = ALL) -> LoadRules:
    """The rules of one paced cell; `name`: what its times are drawn from; `share`: who sends.

    Raises TrafficError for a trace.
    """
    loop = OpenLoop if load.mode == "open" else PhasedLoop
    rules: LoadRules = loop(load, concurrency, name, share)
    if load.bursts is None:
        return rules
    return BurstsOnTop(rules, load.bursts, concurrency, share)
