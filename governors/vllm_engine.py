"""What a running vLLM can do, read from its scheduler; and what cannot be hosted in it, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from governors.contract import DepthLimits
from governors.entry import GovernorContext, GovernorError, Options
from governors.profile import Profile
from governors.registry import changes_depth, depths, governor_entry

# Runner V1: drafters whose propose() obeys a K below num_speculative_tokens (vLLM 0.33 config/vllm.py,
# _maybe_disable_dynamic_sd_for_v1). Runner V2 cuts the drafts of any drafter, from 0.32 on.
DEPTH_METHODS_V1: Final = frozenset(("ngram", "eagle", "eagle3", "mtp", "draft_model", "dflash"))


@dataclass(frozen=True, slots=True)
class VllmFacts:
    """`stock`: vLLM's K by scheduled requests when a schedule is armed, else None.

    `method`: vLLM's name of the drafter, None = no drafter. `trims`: windows can be applied.
    `workers_here`: the worker runs in the scheduler's process.
    """

    limits: DepthLimits
    method: str | None
    stock: tuple[int, ...] | None
    asynchronous: bool
    runner_v2: bool
    trims: bool
    workers_here: bool
    data_parallel: int
    diffusion: bool = False

    @property
    def armed(self) -> frozenset[int] | None:
        """Every K of the armed schedule; None = none armed."""
        return None if self.stock is None else frozenset(self.stock[1:])


def vllm_facts(scheduler: Any) -> VllmFacts:
    """Facts of a scheduler (any version tried) after its own __init__."""
    config = scheduler.vllm_config
    parallel, speculative = config.parallel_config, config.speculative_config
    lookup = scheduler.dynamic_sd_lookup
    return VllmFacts(
        limits=DepthLimits(
            k_max=int(scheduler.num_spec_tokens),
            max_num_seqs=int(config.scheduler_config.max_num_seqs),
            captured_tokens=captured_tokens(config.compilation_config),
        ),
        method=None if speculative is None else str(speculative.method),
        stock=None if lookup is None else tuple(lookup),
        asynchronous=bool(config.scheduler_config.async_scheduling),
        runner_v2=bool(getattr(config, "use_v2_model_runner", False)),
        trims=scheduler.connector is None,
        workers_here=parallel.distributed_executor_backend == "uni",
        data_parallel=int(parallel.data_parallel_size),
        diffusion=scheduler.num_sampled_tokens_per_step == 0 and scheduler.num_spec_tokens > 0,
    )


def captured_tokens(compilation: Any) -> tuple[int, ...]:
    """Ascending graph sizes in tokens; empty when graphs are off."""
    mode = getattr(compilation, "cudagraph_mode", None)
    if mode is None or getattr(mode, "name", "NONE") == "NONE":
        return ()
    return tuple(sorted(int(size) for size in compilation.cudagraph_capture_sizes or ()))


def governor_context(facts: VllmFacts, profile: Profile | None, seed: int = 0) -> GovernorContext:
    return GovernorContext(facts.limits, seed, profile, facts.method)


def refuse_engine(facts: VllmFacts) -> None:
    """GovernorError for a server in which nothing can be hosted."""
    if facts.data_parallel > 1:
        raise GovernorError(
            f"data_parallel_size={facts.data_parallel}: vLLM drops its schedule under data parallelism, "
            "because ranks that choose different depths deadlock; start one server a rank, each with "
            "data_parallel_size=1"
        )
    if facts.diffusion:
        raise GovernorError("a diffusion model has no draft depth; host no governor in this server")


def refuse_governor(name: str, options: Options, facts: VllmFacts, unarmed_depth: bool = False) -> None:
    """GovernorError for a policy that this server would not, or only silently not, obey."""
    entry = governor_entry(name)
    if not entry.speculative and facts.limits.k_max:
        raise GovernorError(
            f"{name} means a server without a drafter, and this one loaded {facts.method!r}: its forward "
            "runs at K=0 too; start a server without --speculative-config, or take fixed with depth=0 to see "
            "that tax"
        )
    if entry.layer == "C" and not facts.trims:
        raise GovernorError(
            f"{name} trims verify windows, which a KV connector does not learn of; start without "
            "--kv-transfer-config"
        )
    wanted = depths(name, options, facts.limits) - {facts.limits.k_max}
    if facts.limits.k_max and (wanted or changes_depth(name, options)):
        _refuse_depths(name, wanted, facts, unarmed_depth)


def _refuse_depths(name: str, wanted: frozenset[int], facts: VllmFacts, unarmed_depth: bool) -> None:
    if not facts.runner_v2 and facts.method not in DEPTH_METHODS_V1:
        raise GovernorError(
            f"{name} may run K={_listed(wanted)}, but drafter {facts.method!r} always drafts "
            f"{facts.limits.k_max} on runner V1; take a policy that keeps K, or one of these drafters: "
            f"{', '.join(sorted(DEPTH_METHODS_V1))}"
        )
    if unarmed_depth:
        return
    if facts.armed is None:
        arming = _arming(wanted | {facts.limits.k_max}, facts)
        raise GovernorError(
            f"{name} may run K={_listed(wanted)}, but no schedule is armed, so K stays {facts.limits.k_max}; "
            f'add "num_speculative_tokens_per_batch_size": {arming} to --speculative-config'
        )
    missing = wanted - facts.armed
    if missing:
        arming = _arming(wanted | facts.armed, facts)
        raise GovernorError(
            f"{name} may run K={_listed(missing)}, which the armed schedule lacks, so that no graph was "
            f"captured for it; arm num_speculative_tokens_per_batch_size={arming}"
        )


def _arming(wanted: frozenset[int], facts: VllmFacts) -> list[list[int]]:
    """A schedule that holds every K wanted: the largest nearly everywhere, the others at the far end."""
    ordered = sorted(wanted, reverse=True)
    last = max(facts.limits.max_num_seqs, len(ordered))
    first_end = last - len(ordered) + 1
    return [[1, first_end, ordered[0]]] + [
        [first_end + place, first_end + place, depth] for place, depth in enumerate(ordered[1:], start=1)
    ]


def _listed(numbers: frozenset[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


def stock_depth(stock: Sequence[int] | None, k_max: int, scheduled: int) -> int:
    """What vLLM itself would draft."""
    return k_max if stock is None else stock[scheduled]
