"""What a cliff can be foreseen from: the few numbers of an engine's configuration that decide on graphs."""

from __future__ import annotations

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
