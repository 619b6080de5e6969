"""Names of the files of a run folder: a cell's requests, the steps of one life of an engine."""

from __future__ import annotations

from loadgen.records import CellKey


def cell_stem(key: CellKey) -> str:
    """`ARM.cN.rR`, of the file of requests."""
    return f"{key.arm}.c{key.concurrency}.r{key.repeat}"


def life_stem(arm: str, repeat: int, since: int | None = None) -> str:
    """`ARM.rR`, of what an engine writes while it serves an arm in a repeat.

    `since`: of a run that was resumed within the repeat, the concurrency that a further engine began with:
    `ARM.rR.cN`.
    """
    return f"{arm}.r{repeat}" if since is None else f"{arm}.r{repeat}.c{since}"
