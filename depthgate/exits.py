"""Exit codes that are not rulings, and the error that leads to them."""

from __future__ import annotations

USAGE = 2


class UsageError(Exception):
    """The command line asks for something that cannot be; the message names the value and the mend."""
