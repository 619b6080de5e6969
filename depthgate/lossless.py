"""The correctness gate: every arm of a suite answers the same prompts, greedily and one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from engines.contract import Endpoint, Engine, EngineError, EngineRequest
from engines.registry import open_engines
from governors.contract import DepthLimits
from governors.registry import depths, governor_entry
from loadgen.counters import CounterReset, EngineCounters, counters_between, read_metrics
from loadgen.records import CellKey
from loadgen.traffic import Prompt, TrafficMix
from reports.lossless import Answer, ArmAnswers, acceptance_faults, output_faults
from suites.model import Arm, Suite

PATIENCE_S = 300.0
UNBOUND_K = 64  # no suite's k_max: only whether K can change is asked


@dataclass(frozen=True, slots=True)
class Lossless:
    """`faults` empty: no arm changed what the model says. `arms`: what was compared, the baseline first."""

    baseline: str
    arms: tuple[ArmAnswers, ...]
    faults: tuple[str, ...]


def prompts_of(suite: Suite, count: int) -> tuple[Prompt, ...]:
    """The first prompts of the suite's traffic at one stream; of a conversation its first turn."""
    stream = TrafficMix(suite.traffic, suite.seed).cell(CellKey(suite.baseline.name, 1, 0)).stream(0)
    return tuple(islice((prompt for prompt in stream if prompt.turn == 0), count))


async def check_lossless(suite: Suite, count: int) -> Lossless:
    """Raises EngineError when an arm cannot be served or does not answer."""
    prompts = prompts_of(suite, count)
    baseline = suite.baseline
    arms = (baseline, *(arm for arm in suite.arms if arm.name != baseline.name))
    async with open_engines(suite.engine, arms) as engines:
        asked = [await answers_of(arm, engines[arm.name], suite, prompts) for arm in arms]
    return compare(asked)


def compare(asked: Sequence[ArmAnswers]) -> Lossless:
    """The first is the reference."""
    reference, *others = asked
    faults = [fault for arm in others for fault in output_faults(reference, arm)]
    return Lossless(reference.arm, tuple(asked), (*faults, *acceptance_faults(others)))


async def answers_of(arm: Arm, engine: Engine, suite: Suite, prompts: Sequence[Prompt]) -> ArmAnswers:
    """One arm, its answers in the order of the prompts."""
    request = EngineRequest(
        arm.name, arm.governor, arm.options, engine_options=suite.engine.options, seed=suite.seed
    )
    async with engine.serve(request) as endpoint:
        before = await _counters(endpoint)
        answers = [await _answer(endpoint, prompt) for prompt in prompts]
        after = await _counters(endpoint)
    return ArmAnswers(arm.name, constant_depth(arm), tuple(answers), _between(before, after))


def constant_depth(arm: Arm) -> int | None:
    """The K that the arm's governor never leaves at one stream; None when it may, or trims windows."""
    entry = governor_entry(arm.governor)
    if not entry.speculative or entry.layer == "C":
        return None
    picked = depths(arm.governor, arm.options, DepthLimits(UNBOUND_K, max_num_seqs=1))
    return min(picked) if len(picked) == 1 else None


async def _answer(endpoint: Endpoint, prompt: Prompt) -> Answer:
    import aiohttp

    body = {
        "model": endpoint.model,
        "prompt": prompt.text,
        "max_tokens": prompt.max_tokens,
        "temperature": 0,
        "ignore_eos": prompt.ignore_eos,
        "seed": prompt.seed,
        "return_token_ids": True,
    }
    url = f"{endpoint.base_url}/v1/completions"
    try:
        timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.post(url, json=body) as answer:
            if answer.status != 200:
                raise EngineError(f"{url}: status {answer.status}; it must take greedy completions")
            return _read(await answer.json())
    except (aiohttp.ClientError, TimeoutError) as error:
        raise EngineError(f"{url}: {type(error).__name__}; did the server die?") from error


def _read(body: object) -> Answer:
    choices = body.get("choices") if isinstance(body, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, Mapping):
        raise EngineError("the server's answer has no choices; is that an OpenAI-compatible server?")
    ids = first.get("token_ids")
    return Answer(str(first.get("text")), tuple(map(int, ids)) if isinstance(ids, list) else None)


async def _counters(endpoint: Endpoint) -> EngineCounters:
    import aiohttp

    url = f"{endpoint.base_url}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return read_metrics(await answer.text() if answer.status == 200 else None).counters


def _between(before: EngineCounters, after: EngineCounters) -> EngineCounters | None:
    """None when the server publishes no drafts, or has started anew."""
    try:
        counted = counters_between(before, after)
    except CounterReset:
        return None
    return counted if counted.draft_tokens is not None else None
