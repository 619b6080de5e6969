"""What a reproducer needs of an engine that is not its own: said before any load, from what is known of it.

Every need is (suite as it will run, facts) -> None, or one line with the reason and the mend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from governors.contract import DepthLimits
from governors.registry import depths
from reproducers.configuration import EngineConfig, largest_captured
from suites.model import Arm, Suite

STEP_TOKENS = 2048  # vLLM's least default of max_num_batched_tokens (vllm/engine/arg_utils.py)
ANY_ENGINE = DepthLimits(k_max=1_000, max_num_seqs=1_024)  # beyond what any arm asks for


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """Of a server started here, or of a URL; None: not known.

    config         widths and graphs; its `capture_sizes` None: the engine runs without graphs
    drafter_class  as the engine says it
    step_records   it keeps them where a judge can read them
    share_armed    arms of a constant K run on the server with a schedule armed too
    step_tokens    most tokens of a step
    k_max          most drafts of a step, of a server that takes arms in turn
    one_arm        a lone server that cannot switch governors serves the subject's arm alone
    """

    config: EngineConfig | None = None
    drafter_class: str | None = None
    step_records: bool = False
    share_armed: bool = False
    step_tokens: int | None = None
    k_max: int | None = None
    one_arm: bool = False


Need = Callable[[Suite, EngineFacts], str | None]


def room(suite: Suite, facts: EngineFacts) -> str | None:
    """Of every reproducer: a queue before the engine is no larger batch."""
    widths = [suite.load.most_in_flight(each) or 0 for each in suite.load.concurrency]
    most = max(widths, default=0)
    if facts.config is None or facts.config.max_num_seqs >= most:
        return None
    return f"{most} requests run at once, the engine takes {facts.config.max_num_seqs}; raise max_num_seqs"


def deep_enough(suite: Suite, facts: EngineFacts) -> str | None:
    """Of every reproducer: a K that the engine cannot draft is refused there, or cut, which is no answer."""
    deepest = max((arm for arm in suite.arms if arm.url is None), key=_asks_for, default=None)
    if deepest is None or facts.k_max is None or _asks_for(deepest) <= facts.k_max:
        return None
    depth = _asks_for(deepest)
    options = f'{{"k_max": {depth}, "acceptance": {{"by_class": {{"default": [{depth} rates]}}}}}}'
    return (
        f"arm {deepest.name!r} drafts {depth} a step, the engine at most k_max = {facts.k_max}; "
        f"take a --profile as deep, or raise it: depthgate serve --engine-options '{options}'"
    )


def _asks_for(arm: Arm) -> int:
    """The deepest K that an arm names; 0 where it takes whatever the engine has."""
    deepest = max(depths(arm.governor, arm.options, ANY_ENGINE))
    return 0 if deepest == ANY_ENGINE.k_max else deepest


def comparison(suite: Suite, facts: EngineFacts) -> str | None:
    """Of every reproducer of more than one arm."""
    if not facts.one_arm:
        return None
    return (
        "a lone server that cannot switch governors is one arm, and nothing compares with it; "
        "give a server for each arm: --arm NAME=URL"
    )


def step_records(suite: Suite, facts: EngineFacts) -> str | None:
    """Switches of K are counted in step records."""
    if facts.step_records:
        return None
    return "it counts switches of K in step records, which a URL does not give; take --engine vllm:SUITE"


def graphs(suite: Suite, facts: EngineFacts) -> str | None:
    """The cause is a graph that is missing."""
    if facts.config is None or facts.config.capture_sizes is not None:
        return None
    return "its cause lies in captured graphs, and this engine runs without any (a CPU, or --enforce-eager)"


def beyond_graphs(suite: Suite, facts: EngineFacts) -> str | None:
    """Some batch of the load has more tokens than the largest graph; else its configuration has no cliff."""
    config = facts.config
    largest = None if config is None else largest_captured(config)
    if config is None or largest is None:
        return None
    widths = [suite.load.most_in_flight(each) or config.max_num_seqs for each in suite.load.concurrency]
    tokens = max(widths, default=0) * (max(config.depths, default=0) + 1)
    if tokens > largest:
        return None
    return (
        f"by its configuration no batch of this load leaves the captured graphs (at most {tokens} tokens, "
        f'{largest} captured); for the cliff: args = ["--max-cudagraph-capture-size", "{max(1, tokens - 1)}"]'
    )


def unpadded(suite: Suite, facts: EngineFacts) -> str | None:
    """A batch between two captured sizes is not padded to the next."""
    if facts.config is None or not facts.config.padding:
        return None
    return (
        "by its configuration there is no hole: a batch is padded to the next captured size (see runner-hole)"
    )


def unarmed_server(suite: Suite, facts: EngineFacts) -> str | None:
    """What arming costs shows beside a server that is not armed."""
    if not facts.share_armed:
        return None
    return "share_armed = true puts both arms on one armed server, so that they are the same; set it to false"


def scarce_steps(suite: Suite, facts: EngineFacts) -> str | None:
    """A step holds fewer tokens than all streams have in hand."""
    config = facts.config
    if config is None or facts.step_tokens is None:
        return None
    streams = max(suite.load.most_in_flight(each) or 0 for each in suite.load.concurrency)
    tokens = streams * (max(config.depths, default=0) + 1)
    if facts.step_tokens < tokens:
        return None
    return (
        f"by its configuration no stream waits: {streams} streams have {tokens} tokens and a step takes "
        f'{facts.step_tokens}; args = ["--max-num-batched-tokens", "{max(config.max_num_seqs, 2 * streams)}"]'
    )


def drafter_of(name: str) -> Need:
    """The report is of one drafter class, and nothing of it carries over to another."""

    def need(suite: Suite, facts: EngineFacts) -> str | None:
        if facts.drafter_class in (None, name):
            return None
        return (
            f"it is about drafters of class {name!r}, and this engine's is {facts.drafter_class!r}; "
            "crossover-strix asks the same of any drafter"
        )

    return need


def unmet(needs: tuple[Need, ...], suite: Suite, facts: EngineFacts) -> str | None:
    """The first reason why the run could mean nothing; None: it can."""
    said = (need(suite, facts) for need in (comparison, *needs, room, deep_enough))
    return next((reason for reason in said if reason is not None), None)
