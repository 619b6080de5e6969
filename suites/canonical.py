"""The canonical form of a suite: one text for one experiment, however its file is laid out; and its hash.

Comments, order of fields and `1` against `1.0` do not count; a default that is written out does not either.
Fields without a value are left out, so a later optional field leaves old hashes as they are. The content
of a `file:` or `hub:` data set is not part of the suite.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping

from suites.model import Suite


def content(suite: Suite) -> dict[str, object]:
    """The suite as plain JSON values in the shape of its TOML file; `parse_suite` reads it back."""
    plain = _plain(dataclasses.asdict(suite))
    assert isinstance(plain, dict)
    return plain


def canonical_text(suite: Suite) -> str:
    """Sorted JSON without spaces; floats in Python's shortest round-trip form."""
    return json.dumps(content(suite), sort_keys=True, separators=(",", ":"), allow_nan=False)


def suite_sha256(suite: Suite) -> str:
    """Hex SHA-256 of the canonical text."""
    return hashlib.sha256(canonical_text(suite).encode()).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
