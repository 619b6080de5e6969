"""Drafts verified per token where an engine keeps no step records: its counters say it."""

from __future__ import annotations

import pytest

from reports.amplification import verified_and_emitted
from tests.reports.hand_made import cell


@pytest.mark.parametrize(
    ("drafts", "verified", "accepted", "pair"),
    [
        (420, 2083, 0, (2083, 420)),  # llama.cpp#22931, read so that none passed
        (10, 80, 6, (80, 16)),
        (0, 0, 0, (0, 1)),  # K=0: nothing verified, whatever came out
        (None, 80, 6, None),
        (10, None, 6, None),
    ],
)
def test_by_counters(
    drafts: int | None, verified: int | None, accepted: int, pair: tuple[int, int] | None
) -> None:
    counted = cell(drafts=drafts, draft_tokens=verified, accepted_tokens=accepted)
    assert verified_and_emitted(counted) == pair
