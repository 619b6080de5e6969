"""Exit codes that are not rulings, and the error that leads to them."""

from __future__ import annotations

USAGE = 2
SOFTWARE = 70  # EX_SOFTWARE of sysexits.h: a fault of depthgate itself, never to be taken for a ruling


class UsageError(Exception):
    """The command line asks for something that cannot be; the message names the value and the mend."""
