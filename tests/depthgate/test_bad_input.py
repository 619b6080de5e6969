"""Bad input gets one line naming field, value and mend, exit code 2, and no run folder."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.depthgate.cli import depthgate, refusal

SUITE = """
name = "tiny"
question = "Does it run?"
repeats = 2

[engine]
kind = "embedded"
profile = "h200-qwen3-4b-eagle"

[load]
mode = "burst"
concurrency = [1, 2]
requests_per_stream = 1

[[traffic]]
name = "gsm8k"
max_tokens = 8

[[arms]]
name = "off"
governor = "off"
baseline = true

[[arms]]
name = "fixed"
governor = "fixed"
options = { depth = 2 }
"""


def suite(tmp_path: Path, text: str = SUITE, old: str = "", new: str = "") -> Path:
    assert old in text
    path = tmp_path / "tiny.toml"
    path.write_text(text.replace(old, new) if old else text)
    return path


def run(path: Path, tmp_path: Path) -> str:
    said = refusal("run", path, "--clock", "virtual", "--out", tmp_path / "out")
    assert not list((tmp_path / "out").glob("tiny*"))
    return said


def test_unknown_suite_names_the_nearest() -> None:
    assert "threshold-collapse" in refusal("run", "treshold-colapse")


def test_unknown_reproducer_names_the_nearest() -> None:
    assert "did you mean 'threshold-collapse'" in refusal("reproduce", "threshold-colapse")


def test_unknown_profile_names_the_nearest() -> None:
    said = refusal("reproduce", "threshold-collapse", "--profile", "gb10-qwen3.5-122b-mpt")
    assert "gb10-qwen3.5-122b-mtp" in said


@pytest.mark.parametrize(
    "other", [["--engine", "http://127.0.0.1:1"], ["--arm", "off=http://127.0.0.1:1"], ["--engine", "vllm"]]
)
def test_a_profile_beside_another_engine_is_refused(other: list[str], tmp_path: Path) -> None:
    """It would not be run on, and the suite's drafter class would no longer be held against the server's."""
    said = refusal(
        "reproduce",
        "threshold-collapse",
        "--profile",
        "gb10-qwen3.5-122b-mtp",
        *other,
        "--out",
        str(tmp_path),
    )
    assert "is of the embedded engine, and --engine or --arm names another" in said


def test_unknown_governor_names_the_nearest(tmp_path: Path) -> None:
    said = run(suite(tmp_path, old='governor = "fixed"', new='governor = "fixd"'), tmp_path)
    assert "fixd" in said
    assert "did you mean 'fixed'" in said


def test_unknown_engine_kind_names_the_nearest(tmp_path: Path) -> None:
    said = run(suite(tmp_path, old='kind = "embedded"', new='kind = "embeded"'), tmp_path)
    assert "embeded" in said
    assert "embedded" in said


def test_a_profile_of_another_drafter_class_is_refused(tmp_path: Path) -> None:
    said = run(suite(tmp_path, old="repeats = 2", new='repeats = 2\ndrafter_class = "mtp"'), tmp_path)
    assert "drafter_class = 'mtp'" in said
    assert "'h200-qwen3-4b-eagle' is of class 'eagle'" in said


def test_unknown_engine_flag() -> None:
    assert "--engine vlm" in refusal("reproduce", "threshold-collapse", "--engine", "vlm")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'governor = "fixed"',
            'governor = "nope"',
            "arms[1].governor = 'nope': unknown governor 'nope'; known: off,",
        ),
        ("depth = 2", "depth = 99", "arms[1].governor = 'fixed': fixed.depth=99"),
        ('eagle"', 'eagle"\noptions = { k_max = "2" }', "engine: option k_max = '2': not a whole number"),
        ('eagle"', 'eagle"\noptions = { k_max = -1 }', "engine: k_max = -1: negative"),
        (
            'eagle"',
            'eagle"\noptions = { host = { level_sd = 40 } }',
            "engine: host.level_sd = 40: must be at most 3",
        ),
        (
            "max_tokens = 8",
            "max_tokens = 8\nprompt_tokens = 100000",
            "traffic[0].prompt_tokens = 100000: requests of at least 100000 tokens, the engine holds 4096",
        ),
        (
            "max_tokens = 8",
            "max_tokens = 5000",
            "traffic[0].max_tokens = 5000: requests of at least 5001 tokens",
        ),
        (
            "max_tokens = 8",
            "prompt_words = 9000",
            "traffic[0].prompt_words = 9000: requests of at least 4680 tok",
        ),
    ],
)
def test_what_no_arm_can_run_is_said_with_file_and_field(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    path = suite(tmp_path, old=old, new=new)
    assert f"depthgate: error: {path}: {said}" in run(path, tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "fits",
    [
        "prompt_tokens = 3924",
        "max_tokens = 9999\nignore_eos = false",
        'prompt_tokens = { distribution = "lognormal", mean = 3000, sd = 2000 }',
    ],
)
def test_what_may_fit_is_not_refused(fits: str, tmp_path: Path) -> None:
    from depthgate.launch import check_arms
    from suites.parse import load_suite

    check_arms(load_suite(suite(tmp_path, old="max_tokens = 8", new=fits.replace("\\n", "\n"))), "virtual")


def test_depth_above_k_max(tmp_path: Path) -> None:
    said = run(suite(tmp_path, old="depth = 2", new="depth = 99"), tmp_path)
    assert "99" in said
    assert "k_max" in said


LOAD = ["load", "--url", "http://127.0.0.1:9", "--requests", "1"]


@pytest.mark.parametrize(
    ("schedule", "mend"),
    [
        ("[]", "empty"),
        ("[[1, 4]]", "3"),
        ("[[2, 4, 2]]", "1"),
        ("[[4, 1, 2]]", "4"),
        ("[[1, 4, -1]]", "-1"),
        ("[[1, 4, 2], [4, 8, 0]]", "overlap"),
        ("[[0, 4, 2]]", "0"),
        ('"1-4:2"', "1-4:2"),
    ],
)
def test_schedule_faults(tmp_path: Path, schedule: str, mend: str) -> None:
    text = SUITE.replace('governor = "fixed"', 'governor = "schedule"')
    said = run(suite(tmp_path, text, "depth = 2", f"schedule = {schedule}"), tmp_path)
    assert "schedule" in said
    assert mend in said


def test_missing_baseline_arm(tmp_path: Path) -> None:
    assert "baseline" in run(suite(tmp_path, old="baseline = true", new=""), tmp_path)


def test_a_suite_altered_after_sealing_is_refused_and_runs_as_exploratory(tmp_path: Path) -> None:
    path = suite(tmp_path)
    assert depthgate("seal", path).code == 0
    path.write_text(SUITE.replace("repeats = 2", "repeats = 3"))
    assert "altered" in run(path, tmp_path)
    done = depthgate("run", path, "--clock", "virtual", "--exploratory", "--out", tmp_path / "out")
    assert done.code in (1, 3)  # broken, or kept without a seal: never 0
    assert "exploratory" in done.out


def test_concurrency_above_max_num_seqs_queues_and_says_so(tmp_path: Path) -> None:
    text = SUITE.replace("profile =", "options = { max_num_seqs = 1 }\nprofile =")
    done = depthgate("run", suite(tmp_path, text), "--clock", "virtual", "--out", tmp_path / "out")
    assert done.code in (0, 1, 3)
    assert "queue" in done.out


def test_an_engine_url_that_refuses(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    said = refusal("run", "quickstart", "--engine", url, "--out", tmp_path)
    assert str(port) in said
    said = refusal("load", "--url", url, "--requests", "1")
    assert str(port) in said


def test_a_port_in_use() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        said = refusal("serve", "--port", str(held.getsockname()[1]))
    assert "in use" in said


def test_a_dataset_file_without_the_column(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"frage": "Wie viel?"}\n')
    old, new = 'name = "gsm8k"', f'name = "gsm8k"\nsource = "file:{data}"\ncolumn = "question"'
    said = refusal("run", suite(tmp_path, old=old, new=new), "--clock", "virtual", "--out", tmp_path / "out")
    assert "question" in said
    assert "frage" in said


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["serve", "--options", "{"], "--options"),
        (["serve", "--governor", "fixed", "--options", '{"dpth": 2}'], "depth"),
        (["serve", "--engine-options", '{"k_maxx": 2}'], "k_max"),
        (["load", "--url", "http://127.0.0.1:9", "--requests", "0"], "--requests"),
        (["load", "--url", "127.0.0.1:9", "--requests", "1"], "--url"),
        ([*LOAD, "--rate", "0"], "depthgate load: error: --rate: '0' must be a number above 0 and at most"),
        (
            [*LOAD, "--rate", "2", "--concurrency", "2"],
            "--concurrency 2: not of this loop; drop it or --rate",
        ),
        ([*LOAD, "--seed", "-1"], "--seed: '-1' must be a whole number from 0 to 9223372036854775807"),
        ([*LOAD, "--timeout", "inf"], "--timeout: 'inf' must be a number above 0 and at most 1000000"),
        ([*LOAD, "--timeout", "nan"], "--timeout: 'nan' must be a number above 0 and at most 1000000"),
        ([*LOAD, "--workers", "999"], "--workers: '999' must be a whole number from 1 to 256"),
        (
            [*LOAD, "--requests", "99999999999"],
            "--requests: '99999999999' must be a whole number from 1 to 1",
        ),
        ([*LOAD, "--max-tokens", "9" * 5000], "must be a whole number from 1 to 10000000"),
        ([*LOAD, "--cv", "2"], "--cv 2.0: not of this loop; add --rate"),
        ([*LOAD, "--rate", "2", "--think", "1"], "--think 1.0: not of this loop; drop it"),
        ([*LOAD, "--rate", "2", "--trace", "x"], "a trace has its own times"),
        ([*LOAD, "--rate", "2", "--arrivals", "gamma"], "--cv goes with gamma"),
        ([*LOAD, "--rate", "1e-9"], "days; raise the rate"),
        ([*LOAD, "--arrivals", "constant"], "--arrivals constant: at what rate?"),
        ([*LOAD, "--trace", "due.txt", "--arrivals", "constant"], "--arrivals constant: at what rate?"),
        ([*LOAD, "--think-kind", "fixed"], "add --think 1.0"),
        ([*LOAD, "--rate", "2", "--workers", "300"], "--workers: '300' must be a whole number from 1 to 256"),
        ([*LOAD, "--trace", "absent.txt", "--model", "m"], "trace absent.txt: cannot be read"),
        (["load", "--url", "http://127.0.0.1:9", "--requests", "1", "--prompts", "absent.txt"], "absent.txt"),
        ([*LOAD, "--prompts", "/dev/null"], "--prompts /dev/null: is no regular file; a prompt a line"),
        (
            ["reproduce", "threshold-collapse", "--repeats", "0"],
            "--repeats: '0' must be a whole number from 1",
        ),
        (
            ["reproduce", "threshold-collapse", "--repeats", "99999999"],
            "must be a whole number from 1 to 1000",
        ),
        (["replay", "absent.jsonl", "--governor", "fixed", "--seed", "-1"], "--seed: '-1' must be a whole"),
        (["serve", "--port", "70000"], "--port: '70000' must be a whole number from 0 to 65535"),
        (["reproduce", "threshold-collapse", "--arm", "of=http://127.0.0.1:9"], "off"),
        (["reproduce", "threshold-collapse", "--arm", "off"], "--arm"),
        (["replay", "absent.jsonl", "--governor", "fixed"], "absent.jsonl"),
        (["judge", "absent"], "absent"),
        (["report", "absent"], "absent"),
        (["seal", "absent.toml"], "absent.toml"),
    ],
)
def test_flags(arguments: list[str], field: str) -> None:
    assert field in refusal(*arguments)


def test_out_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "--out" in refusal("run", "quickstart", "--out", tmp_path / "file")


def test_a_profile_beside_is_looked_at_before_the_run(tmp_path: Path) -> None:
    said = refusal(
        "reproduce", "threshold-collapse", "--clock", "virtual", "--beside", "gb10", "--out", tmp_path
    )
    assert "gb10-qwen3.5-122b-mtp" in said
    assert not list(tmp_path.iterdir())


def test_a_json_file_that_cannot_be_written_is_said_before_the_load(tmp_path: Path) -> None:
    said = refusal("load", "--url", "http://127.0.0.1:9", "--requests", "1", "--json", tmp_path / "no" / "x")
    assert f"{tmp_path / 'no' / 'x'}: no such folder; make it first" in said


def test_a_virtual_clock_asks_no_server() -> None:
    said = refusal("run", "quickstart", "--engine", "http://127.0.0.1:9", "--clock", "virtual")
    assert "--clock virtual" in said


def test_a_page_that_cannot_be_written_is_said_and_nothing_is_replaced(tmp_path: Path) -> None:
    path = suite(tmp_path)
    assert depthgate("run", path, "--clock", "virtual", "--out", tmp_path / "out").code == 3
    (run_dir,) = (tmp_path / "out").iterdir()
    (tmp_path / "folder").mkdir()
    assert "folder: is a folder; name a file" in refusal("report", run_dir, "--html", tmp_path / "folder")
    assert "no/x.html: no such folder" in refusal("report", run_dir, "--html", tmp_path / "no" / "x.html")
    device = tmp_path / "device"
    device.symlink_to("/dev/null")
    assert depthgate("report", run_dir, "--html", device).code == 0
    assert device.is_symlink()
    assert not list(tmp_path.glob("*.tmp"))
