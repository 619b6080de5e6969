"""Where the development data lies; a test that needs it skips with a reason when it is absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("DEPTHGATE_SHARED", Path(__file__).parents[2] / "shared"))


def shared_file(relative: str) -> Path:
    """Path of a file under shared/; skips the calling test when it is not there."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(f"development data not here: {path} (set DEPTHGATE_SHARED)")
    return path
