"""`python -m reproducers.NAME ARGS` is `depthgate reproduce NAME ARGS`."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence


def run_script(name: str, arguments: Sequence[str]) -> None:
    """Hand over to the composition root, by name: this room must not import the room above it."""
    sys.argv = ["depthgate", "reproduce", name, *arguments]
    runpy.run_module("depthgate", run_name="__main__")
