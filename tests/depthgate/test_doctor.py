"""`depthgate doctor`: the field's configurations are named with their mend, before any request."""

from __future__ import annotations

import json

import pytest

from depthgate.__main__ import main
from depthgate.diagnosis import config_of_suite
from suites.model import SuiteError
from suites.parse import parse_suite

VLLM = {
    "name": "v",
    "question": "q",
    "engine": {
        "kind": "vllm",
        "model": "org/model",
        "options": {"k_max": 7, "max_num_seqs": 64, "drafter": "org/drafter"},
    },
    "load": {"mode": "burst", "concurrency": [1], "requests_per_stream": 1},
    "traffic": [{"name": "chat"}],
    "arms": [
        {"name": "off", "governor": "off", "baseline": True},
        {"name": "seven", "governor": "fixed", "options": {"depth": 7}},
    ],
}


def doctor(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["doctor", *words])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_a_suite_s_engine(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = doctor(capsys, "capture-hole")
    assert code == 1
    assert said.startswith("capture-hole (freetoken#173): K=3 without padding: 3 requests (12 tokens)")


def test_the_report_s_own_flags(capsys: pytest.CaptureFixture[str]) -> None:
    config = {"max_num_seqs": 6, "num_speculative_tokens": 6, "max_cudagraph_capture_size": 42}
    code, said = doctor(capsys, "--config", json.dumps(config))
    assert code == 1
    assert "40 captured tokens (42 asked, cut down to 40): at most 5 of max_num_seqs=6" in said


def test_what_vllm_captures_by_default_and_nothing_to_find(capsys: pytest.CaptureFixture[str]) -> None:
    """2 x 16 x 5 = 160 tokens, below vLLM's 512: every batch fits."""
    code, said = doctor(capsys, "--config", '{"max_num_seqs": 16, "num_speculative_tokens": [0, 4]}')
    assert code == 0
    assert said == "no cliff follows from max_num_seqs=16, K=0, 4, capture up to 160\n"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = doctor(capsys, "--config", '{"num_speculative_tokens": 7}', "--json")
    found = json.loads(said)
    assert code == 1
    assert found["config"]["max_num_seqs"] == 256
    assert [each["reproducer"] for each in found["findings"]] == ["capture-ceiling"]


@pytest.mark.parametrize(
    ("args", "limit", "captured"),
    [
        ([], None, 512),
        (["--max-cudagraph-capture-size=42"], 42, 40),
        (["--compilation-config", '{"max_cudagraph_capture_size": 1024}'], 1024, 1024),
        (["--compilation-config", '{"cudagraph_capture_sizes": [8, 4, 16]}'], None, 16),
        (["--cudagraph-capture-sizes", "1", "2", "4", "--dtype", "auto"], None, 4),
    ],
)
def test_a_vllm_suite_without_its_environment(args: list[str], limit: int | None, captured: int) -> None:
    engine = {**VLLM["engine"], "options": {**VLLM["engine"]["options"], "args": args}}  # type: ignore[dict-item, index]
    config = config_of_suite(parse_suite({**VLLM, "engine": engine}, "test"))
    assert (config.max_num_seqs, config.depths) == (64, (0, 7))
    assert config.capture_limit == limit
    assert config.capture_sizes is not None
    assert config.capture_sizes[-1] == captured


def test_eager_has_no_graphs_to_fall_out_of() -> None:
    engine = {**VLLM["engine"], "options": {**VLLM["engine"]["options"], "args": ["--enforce-eager"]}}  # type: ignore[dict-item, index]
    assert config_of_suite(parse_suite({**VLLM, "engine": engine}, "test")).capture_sizes is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give a suite, or --config"),
        (("quickstart", "--config", "{}"), "one of them"),
        (("--config", '{"max_num_seq": 4}'), 'did you mean "max_num_seqs"'),
        (("--config", '{"max_num_seqs": 256}'), "--config: num_speculative_tokens: missing: the K"),
        (("--config", "{}"), "--config: num_speculative_tokens: missing: the K"),
        (("--config", '{"num_speculative_tokens": [-1]}'), "whole numbers from 0 to 1000"),
        (("--config", '{"cudagraph_capture_sizes": []}'), "whole numbers from 1 to 1000000"),
        (("--config", '{"max_num_seqs": 100000000000000}'), "must be at most 100000"),
        (("--config", '{"num_speculative_tokens": 1000000000}'), "must be at most 1000"),
        (("--config", '{"max_cudagraph_capture_size": 100000000000}'), "must be at most 1000000"),
        (("--config", "{"), "not JSON"),
        (("nothing-of-the-kind",), "not known"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = doctor(capsys, *words)
    assert code == 2
    assert said in found
    assert found.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"args": ["--max-cudagraph-capture-size", "abc"]},
            "max_cudagraph_capture_size = 'abc': must be a whole",
        ),
        (
            {"args": ["--max-cudagraph-capture-size"]},
            "max_cudagraph_capture_size = '': must be a whole number",
        ),
        (
            {"args": ["--cudagraph-capture-sizes", "1", "two"]},
            "cudagraph_capture_sizes = [1, 'two']: must be",
        ),
        (
            {"args": ["--compilation-config", '{"cudagraph_capture_sizes": [-3, true]}']},
            "whole numbers from 1",
        ),
        ({"args": 5}, "args = 5: must be a list"),
        ({"max_num_seqs": 0}, "max_num_seqs = 0: must be a whole number of at least 1"),
    ],
)
def test_flags_of_a_suite_that_cannot_be_read_are_named(options: dict[str, object], said: str) -> None:
    engine = {**VLLM["engine"], "options": {**VLLM["engine"]["options"], **options}}  # type: ignore[dict-item, index]
    with pytest.raises(SuiteError) as caught:
        config_of_suite(parse_suite({**VLLM, "engine": engine}, "test"))
    assert said in str(caught.value)


def test_no_batch_at_all_fits_where_one_request_has_more_tokens_than_any_graph(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, said = doctor(capsys, "--config", '{"num_speculative_tokens": 7, "cudagraph_capture_sizes": [1, 4]}')
    assert "at most 0 of max_num_seqs=256 requests run in a graph; raise" in said
    assert "lower max_num_seqs" not in said
