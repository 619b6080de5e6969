"""What a suite may say of a vLLM server, and how a fault in it reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engines import vllm_options
from engines.contract import EngineError
from engines.vllm_options import read_options
from suites.model import EngineSpec, SuiteError
from tests.engines.fake_environment import FakeEnvironment


def test_options_are_typed_and_paths_found(tmp_path: Path) -> None:
    fake = FakeEnvironment(tmp_path)
    options = read_options(fake.spec(args=["--seed", "1"], k_max=3))
    assert options.model == str(tmp_path / "target")
    assert options.drafter == str(tmp_path / "drafter")
    assert (options.k_max, options.args, options.servers) == (3, ("--seed", "1"), 1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"k_max": 0}, r"options.k_max = 0: must be a whole number of at least 1"),
        ({"depth": 3}, r"options.depth = 3: no such field"),
        ({"args": [1]}, r"must be a list of words in quotes"),
        ({"env": {"A": 1}}, r"every value must be in quotes"),
        ({"start_s": 0}, r"must be above 0 seconds"),
        ({"port": 70_000}, r"options.port = 70000: must be at most 65535"),
        ({"k_max": 10**9, "max_num_seqs": 10**10}, r"must be at most 1000"),
        ({"args": ["--port", "9"]}, r"--port is set by depthgate; remove it and use port = 8000"),
        ({"args": ["--max_num_seqs=2"]}, r"--max-num-seqs is set by depthgate"),
        ({"args": ["--served-model-name", "x"]}, r"the model goes by its own name"),
        ({"speculative": {"num_speculative_tokens": 9}}, r"is what the arms say; remove it and use k_max"),
    ],
)
def test_faults_name_field_value_and_mend(tmp_path: Path, given: dict[str, Any], words: str) -> None:
    with pytest.raises(SuiteError, match=words):
        read_options(FakeEnvironment(tmp_path).spec(**given))


def test_missing_paths_are_said_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeEnvironment(tmp_path)
    with pytest.raises(EngineError, match="has no model; add model"):
        read_options(EngineSpec(kind="vllm"))
    with pytest.raises(EngineError, match=r"python '/no/python': no such interpreter"):
        read_options(fake.spec(python="/no/python"))
    with pytest.raises(EngineError, match=r"options.drafter '/no/model': no such folder"):
        read_options(fake.spec(drafter="/no/model"))
    (tmp_path / "hollow").mkdir()
    with pytest.raises(EngineError, match=r"no config\.json in that folder"):
        read_options(fake.spec(drafter=str(tmp_path / "hollow")))
    with pytest.raises(EngineError, match="no such file; make one with depthgate profile"):
        read_options(fake.spec(governor_profile="/no/profile.json"))
    monkeypatch.setattr(vllm_options, "DEFAULT_PYTHON", "no-env/bin/python")
    monkeypatch.delenv(vllm_options.PYTHON_VARIABLE, raising=False)
    with pytest.raises(EngineError, match="no vLLM environment at no-env/bin/python: make one"):
        read_options(EngineSpec(kind="vllm", model="no-env/models/target"))


def test_a_hub_name_is_left_to_vllm(tmp_path: Path) -> None:
    assert (
        read_options(FakeEnvironment(tmp_path).spec(drafter="Qwen/Qwen3-0.6B")).drafter == "Qwen/Qwen3-0.6B"
    )
