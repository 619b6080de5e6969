"""The likely cause out of a server's log."""

from __future__ import annotations

import pytest

from engines.vllm_log import doing, likely_cause, plain

ENGINE = "(EngineCore pid=4711) ERROR 11-30 09:12:13 [core.py:1012] "


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("OSError: [Errno 98] Address already in use", "the port is in use"),
        (f"{ENGINE}RuntimeError: operator torchvision::nms does not exist", "pip uninstall torchvision"),
        ("ModuleNotFoundError: No module named 'governors'", "install depthgate there"),
        (
            f"{ENGINE}ValueError: Free memory on device cuda:0 (2.1/140 GiB) on startup is less",
            "out of memory",
        ),
        (f"{ENGINE}ValueError: No available memory for the cache blocks. Try", "out of memory"),
        ("OSError: x/y is not a local folder and is not a valid model identifier", "the model is not there"),
        ("OSError: /m does not appear to have a file named config.json", "the model is not there"),
        ("api_server.py: error: unrecognized arguments: --foo", "does not know --foo"),
        ("api_server.py: error: argument --dtype: invalid choice: 'x'", "the value of --dtype"),
        ("/env/python: No module named 'vllm.entrypoints.openai'", "no vLLM in that environment"),
        ("importlib.metadata.PackageNotFoundError: No package metadata was found for vllm", "as a module"),
    ],
)
def test_known_causes(log: str, words: str) -> None:
    assert words in likely_cause(f"INFO 11-30 09:00:00 [a.py:1] hello\n{log}\nmore that follows")


def test_a_sentence_of_the_plugin_is_the_cause_wherever_it_stands() -> None:
    log = (
        f"{ENGINE}governors.entry.GovernorError: fixed may run K=0, but no schedule is armed\n"
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    )
    assert likely_cause(log) == "fixed may run K=0, but no schedule is armed"


def test_an_unknown_cause_is_the_exception_that_came_first_in_blame() -> None:
    log = (
        f"{ENGINE}ValueError: heads do not divide\n"
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.\n"
        "INFO 11-30 09:12:13 [launcher.py:9] bye\n"
    )
    assert likely_cause(log) == "ValueError: heads do not divide"


def test_without_an_exception_it_is_the_last_line_or_the_signal() -> None:
    assert likely_cause("one\ntwo\n") == "two"
    assert likely_cause("") == "its log is empty"
    assert "ran out of memory" in likely_cause("INFO loading", exit_code=137)


def test_a_log_is_untrusted_text() -> None:
    cause = likely_cause("ValueError: \x1b[31mred\x1b[0m \x07bell\r" + "x" * 5000)
    assert cause.isprintable()
    assert len(cause) <= 300


def test_progress_shows_the_last_line_without_its_prefix() -> None:
    line = "(EngineCore pid=12) INFO 11-30 09:00:00 [cpu_worker.py:61] Loading weights took 0.2 s"
    assert plain(line) == "Loading weights took 0.2 s"
    assert doing(f"first\n{line}\n\n") == "Loading weights took 0.2 s"
    assert doing("") == "starting"
