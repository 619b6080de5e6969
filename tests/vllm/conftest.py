"""One vLLM for all tests here: tiny models on the CPU, a server without a drafter beside the governed one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engines.contract import EngineError
from engines.registry import ENGINES, EngineEntry
from engines.vllm_options import read_options
from suites.parse import load_suite
from tests.vllm.live import LentEngine, LiveVllm

DOUBLE = Path(__file__).with_name("double")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.vllm)


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveVllm]:
    """Servers start when an arm first needs them (minutes each) and end with the session."""
    spec = load_suite("vllm-cpu-smoke").engine
    rates_file = tmp_path_factory.mktemp("double") / "rates.json"
    env = {"PYTHONPATH": str(DOUBLE), "VLLM_DOUBLE_RATES": str(rates_file)}
    given = spec.options.get("env")
    assert isinstance(given, dict)
    spec = replace(spec, options={**spec.options, "env": given | env})
    try:
        read_options(spec)
    except EngineError as error:
        pytest.skip(f"no vLLM to test with: {error}")
    live = LiveVllm(spec, rates_file)
    yield live
    live.close()


@pytest.fixture
def lent(live: LiveVllm, monkeypatch: pytest.MonkeyPatch) -> LiveVllm:
    """Everything that asks the registry for engine "vllm" gets the session's servers."""
    monkeypatch.setitem(ENGINES, "vllm", EngineEntry("lent", lambda spec, arm, alone: LentEngine(live)))
    return live


@pytest.fixture
def lossy(live: LiveVllm) -> Iterator[None]:
    """The verifier accepts three drafts of four, whatever the target would say."""
    live.rates_file.write_text("[0.75]")
    yield
    live.rates_file.unlink()
