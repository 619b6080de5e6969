"""Every reproducer by name: one line each."""

from __future__ import annotations

from reproducers import threshold_collapse
from reproducers.contract import Reproducer

REPRODUCERS: dict[str, Reproducer] = {
    "threshold-collapse": threshold_collapse.REPRODUCER,
}
