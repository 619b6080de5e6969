"""What the configuration alone says: a suite's engine, or one typed as JSON, before any request is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from depthgate.exits import UsageError
from engines.embedded.profile import apply_options, load_profile
from governors.contract import DepthLimits
from governors.registry import depths, governor_entry
from reproducers.configuration import ConfigFinding, EngineConfig, default_sizes
from reproducers.contract import Reproducer
from reproducers.registry import REPRODUCERS
from suites.fields import Fields
from suites.model import Arm, Suite

CAPTURED_AT_MOST = 512  # tokens, vLLM's default ceiling
MOST_SEQS = 100_000
MOST_DEPTH = 1_000
MOST_CAPTURED = 1_000_000  # tokens


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A finding and the reproducer that shows under load what it foretells."""

    reproducer: Reproducer
    finding: ConfigFinding


def diagnose(config: EngineConfig) -> tuple[Diagnosis, ...]:
    """Every finding of every reproducer that can foretell its cliff."""
    return tuple(
        Diagnosis(reproducer, finding)
        for _, reproducer in sorted(REPRODUCERS.items())
        if reproducer.config_check is not None
        for finding in reproducer.config_check(config)
    )


def config_of_suite(suite: Suite) -> EngineConfig:
    """UsageError for an engine that runs elsewhere: nothing is known of its configuration."""
    if suite.engine.kind == "embedded":
        return _embedded(suite)
    if suite.engine.kind == "vllm":
        return _vllm(suite)
    raise UsageError(
        f"suite {suite.name!r} runs on {suite.engine.kind!r}: its configuration is not in the suite; "
        'give it with --config \'{"max_num_seqs": 256, "num_speculative_tokens": 7}\''
    )


def config_of_json(given: Mapping[str, object]) -> EngineConfig:
    """vLLM's names: max_num_seqs, num_speculative_tokens (a K or a list of them), cudagraph_capture_sizes or

    max_cudagraph_capture_size, padding. Sizes that are not given are vLLM's defaults. SuiteError otherwise.
    """
    fields = Fields(given, "--config")
    most = fields.integer("max_num_seqs", minimum=1, default=256, maximum=MOST_SEQS)
    if isinstance(fields.raw("num_speculative_tokens"), list):
        chosen = _integers(fields, "num_speculative_tokens", 0, MOST_DEPTH) or ()
    else:
        chosen = (fields.integer("num_speculative_tokens", minimum=0, default=0, maximum=MOST_DEPTH),)
    sizes = _integers(fields, "cudagraph_capture_sizes")
    limit = fields.integer_or_none("max_cudagraph_capture_size", 1, MOST_CAPTURED)
    padding = fields.flag("padding", default=True)
    fields.close()
    if fields.raw("num_speculative_tokens") is None:
        raise fields.fault("num_speculative_tokens", "missing: the K in question; write 7 or [0, 4, 7]")
    return EngineConfig(
        most, tuple(sorted(set(chosen))), _captured(sizes, limit, most, max(chosen)), limit, padding
    )


def _embedded(suite: Suite) -> EngineConfig:
    profile = apply_options(load_profile(suite.engine.profile or ""), suite.engine.options)
    penalties, most = profile.penalties, profile.scheduler.max_num_seqs
    return EngineConfig(
        max_num_seqs=most,
        depths=_depths(suite.arms, DepthLimits(profile.k_max, most)),
        capture_sizes=penalties.capture_sizes,
        padding=penalties.capture_padding,
    )


def _vllm(suite: Suite) -> EngineConfig:
    """From the suite alone: neither the environment nor the model has to be here."""
    options = Fields(suite.engine.options, f"suite {suite.name!r}", "engine.options")
    k_max = options.integer("k_max", minimum=1, default=4, maximum=MOST_DEPTH)
    most = options.integer("max_num_seqs", minimum=1, default=256, maximum=MOST_SEQS)
    words = _words(options.items("args"))
    said = _compilation(words)
    if "--cudagraph-capture-sizes" in words:
        said["cudagraph_capture_sizes"] = _numbers_after(words, "--cudagraph-capture-sizes")
    if "--max-cudagraph-capture-size" in words:
        said["max_cudagraph_capture_size"] = next(iter(_numbers_after(words, "--max-cudagraph-capture-size")))
    graphs = Fields(said, f"suite {suite.name!r}", "engine.options.args")
    sizes = _integers(graphs, "cudagraph_capture_sizes")
    limit = graphs.integer_or_none("max_cudagraph_capture_size", 1, MOST_CAPTURED)
    eager = "--enforce-eager" in words or said.get("cudagraph_mode") == "NONE"
    return EngineConfig(
        max_num_seqs=most,
        depths=_depths(suite.arms, DepthLimits(k_max, most)),
        capture_sizes=None if eager else _captured(sizes, limit, most, k_max),
        capture_limit=limit,
    )


def _depths(arms: Sequence[Arm], limits: DepthLimits) -> tuple[int, ...]:
    found = {
        depth
        for arm in arms
        for depth in (
            depths(arm.governor, arm.options, limits) if governor_entry(arm.governor).speculative else (0,)
        )
    }
    return tuple(sorted(found))


def _captured(
    sizes: tuple[int, ...] | None, limit: int | None, max_num_seqs: int, k_max: int
) -> tuple[int, ...]:
    """A list, a limit or its default, as vLLM settles it (vllm/config/vllm.py, _set_cudagraph_sizes)."""
    if sizes:
        return tuple(sorted(set(sizes)))
    return default_sizes(
        limit if limit is not None else min(2 * max_num_seqs * (k_max + 1), CAPTURED_AT_MOST)
    )


def _integers(fields: Fields, name: str, least: int = 1, most: int = MOST_CAPTURED) -> tuple[int, ...] | None:
    items = fields.items(name)
    if items is None:
        return None
    found = tuple(item for item in items if isinstance(item, int) and not isinstance(item, bool))
    if not items or len(found) < len(items) or not least <= min(found) <= max(found) <= most:
        raise fields.fault(name, f"must be a list of whole numbers from {least} to {most}: [1, 2, 4, 8]")
    return found


def _words(args: object) -> tuple[str, ...]:
    """`--flag=value` is taken apart as well."""
    given = [str(word) for word in args] if isinstance(args, list | tuple) else []
    return tuple(part for word in given for part in (word.split("=", 1) if word.startswith("--") else [word]))


def _after(words: Sequence[str], flag: str) -> str | None:
    at = words.index(flag) + 1 if flag in words else len(words)
    return words[at] if at < len(words) else None


def _numbers_after(words: Sequence[str], flag: str) -> list[object]:
    """The words up to the next flag, whole numbers as such: whoever reads them says what is wrong."""
    values = takewhile(lambda word: not word.startswith("--"), words[words.index(flag) + 1 :])
    return [int(word) if word.isascii() and word.isdigit() else word for word in values] or [""]


def _compilation(words: Sequence[str]) -> dict[str, object]:
    text = _after(words, "--compilation-config") or _after(words, "-O")
    try:
        found = json.loads(text or "{}")
    except ValueError:
        raise UsageError(f"args: --compilation-config {text}: not JSON; mend it in the suite") from None
    return found if isinstance(found, dict) else {}
