"""What a cliff can be foreseen from: the few numbers of an engine's configuration that decide on graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """`depths`: every K that can be run, ascending.

    `capture_sizes`: graph sizes in tokens, ascending; None: not known, or every size runs in a graph.
    `capture_limit`: the largest size asked for, which vLLM cuts down to one of its sizes; None: not said.
    `padding`: a batch between two sizes is padded up to the next.
    """

    max_num_seqs: int
    depths: tuple[int, ...]
    capture_sizes: tuple[int, ...] | None
    capture_limit: int | None = None
    padding: bool = True


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """`says`: where the cliff is, in one line; `mend`: what to set instead."""

    says: str
    mend: str

    @property
    def sentence(self) -> str:
        return f"{self.says}; {self.mend}"


def default_sizes(limit: int) -> tuple[int, ...]:
    """The sizes that vLLM captures up to `limit` tokens: 1, 2, 4, every 8 below 256, every 16 from there.

    Source: vllm/config/vllm.py, `_set_cudagraph_sizes`, as seen in 0.26.0 (docs/measured).
    """
    every = (1, 2, 4, *range(8, 256, 8), *range(256, limit + 1, 16))
    return tuple(size for size in every if size <= limit)


def capturable(tokens: int) -> int:
    """The smallest of vLLM's sizes that holds `tokens`."""
    step = 16 if tokens > 248 else 8
    return next((size for size in (1, 2, 4, 8) if size >= tokens), -(-tokens // step) * step)


def largest_captured(config: EngineConfig) -> int | None:
    """None when it is not known, or nothing is captured."""
    return config.capture_sizes[-1] if config.capture_sizes else None


def in_no_graph(config: EngineConfig, depth: int) -> list[int]:
    """Requests 1..max_num_seqs whose decoding step of 1 + `depth` tokens each runs in no graph."""
    sizes = config.capture_sizes
    if sizes is None:
        return []
    return [
        width
        for width in range(1, config.max_num_seqs + 1)
        if (width * (depth + 1) > max(sizes, default=0))
        or (not config.padding and width * (depth + 1) not in sizes)
    ]


def graph_edges(sizes: Iterable[int], depth: int, most: int) -> tuple[int, ...]:
    """Concurrencies that show holes and ceilings: g / (1 + K) and one to either side, for each size g.

    Between powers of two everything may be slow: a grid needs points between captured widths.
    """
    widths = {size // (depth + 1) + shift for size in sizes for shift in (-1, 0, 1)}
    return tuple(sorted(width for width in widths if 1 <= width <= most))


def counted(widths: Sequence[int]) -> str:
    """`3, 5-7 requests`: ascending numbers with their runs drawn together, at most four parts."""
    runs: list[list[int]] = []
    for width in widths:
        if runs and width == runs[-1][1] + 1:
            runs[-1][1] = width
        else:
            runs.append([width, width])
    parts = [str(low) if low == high else f"{low}-{high}" for low, high in runs]
    shown = ", ".join(parts[:4]) + (" ..." if len(parts) > 4 else "")
    return f"{shown} request{'s' if widths != [1] else ''}"
