"""`depthgate load --body`: secrets are refused and not repeated."""

from __future__ import annotations

import pytest

from tests.depthgate.cli import refusal


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ('{"token": "hunter2"}', "--body.token"),
        ('{"a": ["x=hunter2", "API_KEY=hunter2"]}', "--body.a[1]"),
        ('{"a": {"b": "sk-hunter2-hunter2-hunter2"}}', "--body.a.b"),
    ],
)
def test_a_secret_in_the_body_is_refused(body: str, where: str) -> None:
    said = refusal("load", "--url", "http://x", "--requests", "1", "--body", body)
    assert f"{where}: a secret; drop it" in said
    assert "hunter2" not in said
