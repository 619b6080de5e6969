"""Rest: when to stop drafting because nothing that was drafted has been worth verifying; ours."""

from __future__ import annotations

from typing import Final

WAKE_SHARE: Final = 0.75


class Rest:
    """Depth 0 after `after` steps running whose drafts were all trimmed away; `after` 0 = never rest.

    It ends when a draft is admitted again, at WAKE_SHARE of the batch it began with, or in a step that only
    prefills. While it lasts, one step in `probe_every` drafts, since nothing is seen of drafts never made.
    """

    def __init__(self, after: int, probe_every: int) -> None:
        self._after = after
        self._probe_every = probe_every
        self._idle = 0
        self._batch: int | None = None  # at which the rest began
        self._unprobed = 0
        self.probing = False

    def drafts_next(self, batch: int, drafted: int, admitted: int) -> bool:
        """Whether to draft at the end of this step, given drafts in hand and admitted over the batch."""
        self.probing = False
        if admitted or not batch or (self._batch is not None and batch <= WAKE_SHARE * self._batch):
            self._idle, self._batch = 0, None
        elif drafted:
            self._idle += 1
        if not self._after or self._idle < self._after:
            return True
        if self._batch is None:
            self._batch, self._unprobed = batch, 0
        self._unprobed += 1
        if self._probe_every and self._unprobed >= self._probe_every:
            self._unprobed, self.probing = 0, True
        return self.probing
