"""Which vLLM servers a campaign starts, and the command line and environment of each."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ACCEPTANCE = (0.8, 0.6, 0.45, 0.34)  # unconditional, by position; synthetic
EVERY_DEPTH = ((1, 1, 4), (2, 2, 3), (3, 3, 2), (4, 4, 1), (5, 512, 0))  # arms vLLM for K = 0..4
GIB = 2**30
SCHEDULER = "ci.h200.ablations.AblatedAsyncScheduler"  # the plugin's, with switches


@dataclass(frozen=True, slots=True)
class Server:
    """One server. `depth` None: no drafter and no plugin, the baseline.

    schedule   num_speculative_tokens_per_batch_size; None = not armed
    unarmed_depth  the plugin changes K though no schedule is armed, so that no graph mode is overridden
    graphs     cudagraph_mode, None = vLLM's default (FULL_AND_PIECEWISE)
    eager      no graphs and no compilation
    runner     1 or 2: vLLM's model runner
    """

    name: str
    model: str = "q4b"
    depth: int | None = None
    schedule: tuple[tuple[int, int, int], ...] | None = None
    unarmed_depth: bool = False
    graphs: str | None = None
    eager: bool = False
    runner: int = 1
    kv_gib: float = 10.0

    @property
    def governed(self) -> bool:
        return self.depth is not None

    @property
    def depths(self) -> tuple[int, ...]:
        """Every K that a governor can run here."""
        if self.depth is None:
            return ()
        return tuple(range(self.depth + 1)) if self.schedule or self.unarmed_depth else (self.depth,)


def _shape(model: str, kv_gib: float, prefix: str) -> tuple[Server, ...]:
    """The servers of one model shape."""
    common = {"model": model, "kv_gib": kv_gib}
    return (
        Server(f"{prefix}off", **common),  # type: ignore[arg-type]
        Server(f"{prefix}k2", depth=2, **common),  # type: ignore[arg-type]
        Server(f"{prefix}armed", depth=4, schedule=EVERY_DEPTH, **common),  # type: ignore[arg-type]
        Server(f"{prefix}full", depth=4, unarmed_depth=True, graphs="FULL", **common),  # type: ignore[arg-type]
        Server(f"{prefix}off_pw", graphs="PIECEWISE", model=model, kv_gib=min(4.0, kv_gib)),
    )


SERVERS: dict[str, Server] = {
    server.name: server
    for server in (
        *_shape("q4b", 10.0, ""),
        *_shape("q8b", 10.0, "b_"),
        Server("v2", depth=4, schedule=EVERY_DEPTH, runner=2),
        Server("default", depth=4),
        Server("off_eager", eager=True, kv_gib=4.0),
        Server("eager", depth=4, schedule=EVERY_DEPTH, eager=True, kv_gib=4.0),
        Server("k2full", depth=2, graphs="FULL", kv_gib=4.0),
    )
}
GROUPS: dict[str, tuple[str, ...]] = {
    "main": ("off", "armed", "full", "k2", "v2", "off_pw"),
    "eight": ("b_off", "b_armed", "b_full", "b_k2"),
    "modes": ("off", "armed", "full", "k2", "off_eager", "eager", "k2full"),
    "mixed": ("off", "armed", "full", "k2"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where things lie: `work` holds what the servers read and write, `repo` is the checkout."""

    repo: Path
    work: Path
    site: Path

    def of(self, server: str, suffix: str) -> Path:
        return self.work / "run" / f"{server}.{suffix}"


def port(name: str) -> int:
    return 8100 + list(SERVERS).index(name)


def command(server: Server, place: Place) -> list[str]:
    """`python -m vllm.entrypoints.openai.api_server ...`."""
    words = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    words += ["--model", str(place.work / "models" / server.model), "--served-model-name", server.model]
    words += ["--host", "127.0.0.1", "--port", str(port(server.name))]
    words += ["--load-format", "dummy", "--seed", "0"]
    words += ["--max-model-len", "4096", "--max-num-seqs", "256", "--max-num-batched-tokens", "8192"]
    words += ["--gpu-memory-utilization", "0.05", "--kv-cache-memory-bytes", str(int(server.kv_gib * GIB))]
    words += ["--no-enable-prefix-caching", "--stream-interval", "8", "--disable-uvicorn-access-log"]
    words += ["--kernel-config", '{"enable_flashinfer_autotune":false,"enable_cutedsl_warmup":false}']
    if server.eager:
        words += ["--enforce-eager"]
    if server.graphs:
        words += ["--compilation-config", json.dumps({"cudagraph_mode": server.graphs})]
    if server.depth is not None:
        words += ["--speculative-config", json.dumps(_speculative(server, server.depth, place))]
        words += ["--scheduler-cls", SCHEDULER]
    return words


def _speculative(server: Server, depth: int, place: Place) -> dict[str, object]:
    settings: dict[str, object] = {
        "method": "eagle",
        "model": str(place.work / "models" / f"{server.model}_eagle"),
        "num_speculative_tokens": depth,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_rates": list(ACCEPTANCE[:depth]),
    }
    if server.schedule:
        settings["num_speculative_tokens_per_batch_size"] = [list(row) for row in server.schedule]
    return settings


def environment(server: Server, place: Place, inherited: Mapping[str, str]) -> dict[str, str]:
    """`inherited` plus what the settings of shared/h200 need, and the plugin's variables."""
    own = {
        "PYTHONPATH": f"{place.repo}:{place.site}",
        "VLLM_USE_V2_MODEL_RUNNER": "1" if server.runner == 2 else "0",
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "VLLM_USE_DEEP_GEMM": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_PLUGINS": "depthgate,depthgate_ablations" if server.governed else "none",
        "VLLM_CACHE_ROOT": str(place.of(server.name, "cache")),
        "TORCHINDUCTOR_CACHE_DIR": str(place.of(server.name, "inductor")),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
        "OMP_NUM_THREADS": "4",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUNBUFFERED": "1",
    }
    if server.governed:
        own |= {
            "DEPTHGATE_GOVERNOR": "fixed",
            "DEPTHGATE_OPTIONS": json.dumps({"depth": server.depth}),
            "DEPTHGATE_STEPS": str(place.of(server.name, "steps.jsonl")),
            "DEPTHGATE_CONTROL": str(place.of(server.name, "control")),
            "H200_SWITCHES": str(place.of(server.name, "ablations")),
            "DEPTHGATE_UNARMED_DEPTH": "1" if server.unarmed_depth else "0",
        }
    return {**inherited, **own}
