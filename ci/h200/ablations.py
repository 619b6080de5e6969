"""Inside vLLM: the plugin's scheduler with one switch for each suspected cause of the collapse.

Experiments only; a deployment uses governors.vllm_scheduler. Switches come from the JSON file
H200_SWITCHES, re-read when it changes: {"skip_drafter": bool, "lookahead": int or null}.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from governors.vllm_scheduler import GovernedAsyncScheduler

SWITCHES: dict[str, Any] = {"skip_drafter": False, "lookahead": None}
_patched = False


class AblatedAsyncScheduler(GovernedAsyncScheduler):  # type: ignore[misc]
    """GovernedAsyncScheduler with switches that are read at step boundaries."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._switch_file = Path(os.environ.get("H200_SWITCHES", "/nonexistent"))
        self._switch_time = 0
        self._static_lookahead: int = self.num_lookahead_tokens

    def schedule(self, *args: Any, **keywords: Any) -> Any:
        self._read_switches()
        return super().schedule(*args, **keywords)

    def _read_switches(self) -> None:
        try:
            changed = self._switch_file.stat().st_mtime_ns
        except OSError:
            return
        if changed == self._switch_time:
            return
        self._switch_time = changed
        SWITCHES.update(json.loads(self._switch_file.read_text(encoding="utf-8")))
        lookahead = SWITCHES["lookahead"]
        self.num_lookahead_tokens = self._static_lookahead if lookahead is None else lookahead


def register() -> None:
    """Entry point of vllm.general_plugins. The front end only arranges for the engine core to be patched:
    no CUDA before a fork."""
    import multiprocessing

    if multiprocessing.current_process().name != "MainProcess":
        _patch()
        return
    from vllm.v1.engine.core import EngineCore

    start = EngineCore.__init__

    def init(self: Any, *args: Any, **keywords: Any) -> None:
        _patch()
        start(self, *args, **keywords)

    EngineCore.__init__ = init


def _patch() -> None:
    global _patched
    if _patched:
        return
    _patched = True
    _skippable_drafter()
    if os.environ.get("VLLM_USE_V2_MODEL_RUNNER") == "1":
        _drafter_graphs_without_schedule()


def _skippable_drafter() -> None:
    """At K=0 the V1 drafter still runs its first forward, to keep its KV cache in step; the switch skips it.
    With synthetic acceptance a stale drafter cache changes no figure; in service it would cost acceptance."""
    import torch
    from vllm.v1.spec_decode.llm_base_proposer import SpecDecodeBaseProposer

    propose = SpecDecodeBaseProposer.propose

    def proposed(self: Any, num_speculative_tokens: int, *args: Any, **keywords: Any) -> Any:
        if num_speculative_tokens or not SWITCHES["skip_drafter"]:
            return propose(self, num_speculative_tokens, *args, **keywords)
        self.num_speculative_tokens, self._last_draft_probs = 0, None
        tokens = keywords["next_token_ids"]
        return torch.empty(tokens.shape[0], 0, device=tokens.device, dtype=torch.int64)

    SpecDecodeBaseProposer.propose = proposed


def _drafter_graphs_without_schedule() -> None:
    """vLLM 0.26's runner V2 derives the *drafter's* graph shapes from the schedule too: a depth of 0 gives
    a query length of -1, and the server dies at start (vllm#48494). It decodes one token whatever K."""
    from vllm.v1.worker.gpu.cudagraph_utils import CudaGraphManager

    candidates = CudaGraphManager._init_candidates

    def init_candidates(self: Any) -> None:
        speculative = self.vllm_config.speculative_config
        if speculative is None or self.decode_query_len == 1 + speculative.num_speculative_tokens:
            candidates(self)
            return
        schedule = speculative.num_speculative_tokens_per_batch_size
        speculative.num_speculative_tokens_per_batch_size = None
        try:
            candidates(self)
        finally:
            speculative.num_speculative_tokens_per_batch_size = schedule

    CudaGraphManager._init_candidates = init_candidates
