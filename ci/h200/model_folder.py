"""What a dummy model lacks for HTTP: a tokenizer in which an id is a word, prompts of known length."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

VOCABULARY = 151_936  # of the Qwen3 shapes
FIRST_WORD = 3  # ids below: <unk>, <s>, </s>


def add_tokenizer(folder: Path) -> None:
    """tokenizer.json and tokenizer_config.json beside config.json. Needs the package `tokenizers`."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"<unk>": 0, "<s>": 1, "</s>": 2} | {_word(number): number for number in _words()}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 131_072, **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def prompts(tokens: int, count: int, seed: int) -> list[str]:
    """`count` prompts of `tokens` random words each."""
    rng = Random(seed)
    span = VOCABULARY - FIRST_WORD
    return [
        " ".join(_word(FIRST_WORD + int(rng.random() * span)) for _ in range(tokens)) for _ in range(count)
    ]


def _words() -> range:
    return range(FIRST_WORD, VOCABULARY)


def _word(number: int) -> str:
    return f"w{number}"
