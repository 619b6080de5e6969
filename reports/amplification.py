"""Drafts verified per token by an engine's counters alone, for engines that keep no step records."""

from __future__ import annotations

from loadgen.records import CellRecord


def verified_and_emitted(cell: CellRecord) -> tuple[int, int] | None:
    """(draft tokens verified, tokens that their verifications emitted), of a whole cell. None: not counted.

    Tokens of steps without drafts are not counted, so that a policy that mixes both comes out higher than by
    its step records. (0, 1) when nothing was drafted: none was verified, whatever came out.
    """
    if cell.draft_tokens is None or cell.accepted_tokens is None or cell.drafts is None:
        return None
    return cell.draft_tokens, max(1, cell.accepted_tokens + cell.drafts)
