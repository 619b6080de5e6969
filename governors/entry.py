"""What a registry line holds: a policy's name, its documented options, and how to build it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from governors.contract import DepthLimits, Governor
from governors.profile import Profile


class GovernorError(ValueError):
    """A governor was asked for in a way that cannot work (a usage error); one line that names the mend."""


@dataclass(frozen=True, slots=True)
class GovernorContext:
    """What an engine gives a policy at construction.

    limits         what the engine can do at all
    seed           of every random draw the policy makes
    profile        fitted costs and acceptance; None = no model, and no policy may guess one
    drafter_class  of the engine's drafter, None = not known; a profile of another class is refused
    """

    limits: DepthLimits
    seed: int = 0
    profile: Profile | None = None
    drafter_class: str | None = None


Options = Mapping[str, object]
Build = Callable[[Options, GovernorContext], Governor]
Warn = Callable[[Options, GovernorContext], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class GovernorEntry:
    """One policy as the registry knows it.

    name           what suites and the command line call it: [a-z][a-z0-9_]*
    summary        the rule in one line
    layer          "D": one depth for the whole batch; "C": a verify window per request
    source         paper and section, or project#number, or "ours"
    build          (options, context) -> a fresh Governor; raises GovernorError on a bad value
    options        option -> what it means, its values and its default; any other option is refused
    changes_depth  with its default options the policy may change K at run time, so that an engine must arm
                   its schedule for it (vLLM then overrides FULL graphs); for an arm's own options ask
                   `governors.registry.changes_depth(name, options)`
    speculative    False: no drafter is loaded at all
    needs_profile  without a Profile the policy refuses to trim (reason no-model)
    warn           sentences about what these options do silently
    changes_depth_if  options -> whether the policy may change K; None = `changes_depth` whatever the options
    depths         (options, limits) -> every K it may pick, which an engine must be able to run; None = all
                   of 0..k_max where it changes depth, else k_max alone
    """

    name: str
    summary: str
    layer: str
    source: str
    build: Build
    options: Mapping[str, str] = field(default_factory=dict)
    changes_depth: bool = False
    speculative: bool = True
    needs_profile: bool = False
    warn: Warn | None = None
    changes_depth_if: Callable[[Options], bool] | None = None
    depths: Callable[[Options, DepthLimits], frozenset[int]] | None = None
