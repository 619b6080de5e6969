"""What is taken for a secret, and what is not."""

from __future__ import annotations

import pytest

from suites.secrets import secret_path

KEY = "sk-" + "a1B2_c3-" * 2  # 16 characters after the prefix
WORD = "hunter2"


@pytest.mark.parametrize(
    "name",
    [
        "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "HF_HUB_TOKEN", "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN", "GITHUB_TOKEN", "API_KEYS", "OPENAI_API_KEY", "api-key", "x-api-key",
        "Authorization", "password", "client_secret", "secret_key", "token", "--hf-token", "private_key",
    ],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert secret_path({"env": {"A": "1", name: WORD}}, "options") == f"options.env.{name}"


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens", "min_tokens", "stop_token_ids", "eos_token", "bos_token", "pad_token", "token_ids",
        "num_speculative_tokens", "tokenizer", "prompt_tokens", "return_token_ids", "max-num-batched-tokens",
        "bytes_per_token", "kv_bytes_per_token", "skip_special_tokens", "tokenizer_mode",
        "num_key_value_heads", "draft_budget_tokens", "session_tokens", "top_k", "key", "author",
    ],
)  # fmt: skip
def test_names_of_no_secret(name: str) -> None:
    assert secret_path({name: WORD, "args": [f"--{name}", f"--{name}=4", f"{name}=4"]}, "options") is None


@pytest.mark.parametrize(
    "text",
    [
        "--api-key", "--api-key=x", "API_KEY=x", "--override.api_key=x", '{"api_key": "sk-abc"}',
        '--override={"a": [{"api_key": "sk-abc"}]}', KEY, f"Bearer {KEY}", "hf_" + "a" * 34,
        "ghp_" + "b" * 36, f'["{KEY}"]',
    ],
)  # fmt: skip
def test_texts_that_hold_a_secret(text: str) -> None:
    assert secret_path({"args": ["--override", text]}, "options") == "options.args[1]"


@pytest.mark.parametrize(
    "text",
    [
        KEY[:-1], "ri" + KEY, "sk-abc", "api_key", "what is a password?", '{"max_tokens": 4}', '{"api_key": ',
        "[" * 100_000, "hf_transfer", "org/model-sk-x", "a=b",
    ],
)  # fmt: skip
def test_texts_that_hold_none(text: str) -> None:
    assert secret_path({"args": ["--override", text]}, "options") is None


def test_what_is_neither_text_nor_table_holds_none() -> None:
    assert secret_path({"a": 1, "b": 2.0, "c": True, "d": [None]}, "options") is None
