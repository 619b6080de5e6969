"""What is known of an engine before any load, for reproducers that need something of it."""

from __future__ import annotations

from dataclasses import replace

from depthgate.diagnosis import config_of_suite
from depthgate.loop import run_loop
from reproducers.contract import Reproducer
from reproducers.needs import STEP_TOKENS, EngineFacts, unmet
from suites.model import Suite
from suites.parse import load_suite

BATCHED_TOKENS = "--max-num-batched-tokens"


def unmet_need(reproducer: Reproducer, suite: Suite) -> str | None:
    """Why this run could mean nothing on the engine of `suite` (as it will run); None: it can.

    EngineError: the engine is not there, or cannot run. The suite's own engine has what it needs.
    """
    if suite.engine.kind == "embedded":
        return None
    whole = load_suite(reproducer.suite).arms
    facts = replace(facts_of(suite), one_arm=len(suite.arms) < len(whole))
    return unmet(reproducer.needs, suite, facts)


def foretold(reproducer: Reproducer, suite: Suite) -> tuple[str, ...]:
    """What the configuration of a server that is started here says already; empty where nothing is known."""
    if suite.engine.kind != "vllm" or reproducer.config_check is None:
        return ()
    config = facts_of(suite).config
    return () if config is None else tuple(found.says for found in reproducer.config_check(config))


def facts_of(suite: Suite) -> EngineFacts:
    """Of a vLLM that would be started, or of servers that run."""
    return _of_vllm(suite) if suite.engine.kind == "vllm" else _of_servers(suite)


def _of_vllm(suite: Suite) -> EngineFacts:
    """From its options, and whether its build is for a CPU; nothing starts."""
    from engines.vllm import VllmEngine

    engine = VllmEngine(suite.engine)
    options = engine.options
    config = config_of_suite(suite)
    if run_loop(engine.environment).cpu:
        config = replace(config, capture_sizes=None)
    return EngineFacts(
        config=config,
        drafter_class=None if options.drafter is None and not options.speculative else options.method,
        step_records=True,
        share_armed=options.share_armed,
        step_tokens=_step_tokens(options.args),
    )


def _step_tokens(words: tuple[str, ...]) -> int:
    """As its flags say, else vLLM's least default."""
    for at, word in enumerate(words):
        flag, _, value = word.replace("_", "-").partition("=")
        if flag == BATCHED_TOKENS:
            text = value or next(iter(words[at + 1 :]), "")
            return int(text) if text.isdecimal() else STEP_TOKENS
    return STEP_TOKENS


def _of_servers(suite: Suite) -> EngineFacts:
    """Servers that already run say their drafter's class, one that switches its k_max; or nothing."""
    from engines.openai_http import OpenAIEngine
    from engines.registry import build_engine

    classes = set()
    for arm in suite.arms:
        engine = build_engine(suite.engine, arm)
        if isinstance(engine, OpenAIEngine):
            classes.add(run_loop(engine.probe).drafter_class)
    known = classes - {None}
    shared = suite.engine.url if any(arm.url is None for arm in suite.arms) else None
    return EngineFacts(
        drafter_class=known.pop() if len(known) == 1 else None,
        k_max=run_loop(OpenAIEngine(shared).k_max) if shared else None,
    )
