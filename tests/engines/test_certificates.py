"""SSL_CERT_FILE: one that cannot be read is said before anything is sent, whichever way a URL is used."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from engines.certificates import check_certificates
from engines.contract import EngineError
from engines.openai_http import OpenAIEngine
from loadgen.wire import Wire
from tests.depthgate.cli import refusal

URL = "https://127.0.0.1:9"


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file or directory"), ("no PEM", "no certificate in it")]
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, reason: str
) -> None:
    path = tmp_path / "certificates.pem"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    said = f"SSL_CERT_FILE {path}: cannot be read; give a file of PEM certificates, or unset it ({reason})"
    with pytest.raises(EngineError) as raised:
        check_certificates(URL)
    assert str(raised.value) == said
    with pytest.raises(EngineError, match="SSL_CERT_FILE"):
        Wire(URL, {}, time.perf_counter)
    with pytest.raises(EngineError, match="SSL_CERT_FILE"):
        asyncio.run(OpenAIEngine(URL, "m").probe())
    assert refusal("load", "--url", URL, "--requests", "1", "--model", "m") == f"depthgate: error: {said}"
    assert said in refusal("run", "quickstart", "--engine", URL, "--out", tmp_path / "out")


def test_plain_http_and_an_unset_variable_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexist")
    check_certificates("http://127.0.0.1:9")
    for unset in ("", None):
        if unset is None:
            monkeypatch.delenv("SSL_CERT_FILE")
        else:
            monkeypatch.setenv("SSL_CERT_FILE", unset)
        check_certificates(URL)
