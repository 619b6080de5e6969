"""A tiny Qwen3 target and a drafter that often agrees with it, made here: `python ci/tiny_models.py FOLDER`.

Random weights, a tokenizer trained on syllables made here; nothing is downloaded. The drafter is the target's
first layer with the target's embedding and head. The target's later layers speak softly (QUIET), so the two
agree on some two tokens of three: *real* rejection sampling accepts some drafts and rejects others.
Runs in vLLM's environment (torch, transformers, tokenizers).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VOCABULARY = 4096
LAYERS = 6
QUIET = 0.05  # share of a later layer's voice: 0.1 gave an agreement of .45, 0.06 .64, 0.04 .78
LOUD = 4.0  # of all layers over their random start: below that, greedy text soon runs in a circle
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT = (
    "{% for m in messages %}<|im_start|>{{m['role']}}\n{{m['content']}}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def main(folder: Path) -> None:
    """Writes FOLDER/target (23 M parameters) and FOLDER/drafter (7 M)."""
    import torch

    torch.manual_seed(0)
    tokenizer = _tokenizer()
    target = _target()
    drafter = _model(layers=1)
    weights = target.state_dict()
    drafter.load_state_dict({name: weights[name] for name in drafter.state_dict()})
    for name, model in (("target", target), ("drafter", drafter)):
        tokenizer.save_pretrained(folder / name)
        model.save_pretrained(folder / name, safe_serialization=True)
        print(f"{folder / name}: {sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters")


def _target() -> Any:
    import torch

    target = _model(LAYERS)
    with torch.no_grad():
        for index, layer in enumerate(target.model.layers):
            voice = LOUD * (QUIET if index else 1.0)
            layer.self_attn.o_proj.weight *= voice
            layer.mlp.down_proj.weight *= voice
    return target


def _model(layers: int) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=512,
            intermediate_size=1536,
            num_hidden_layers=layers,
            num_attention_heads=8,
            num_key_value_heads=4,
            head_dim=64,
            max_position_embeddings=2048,
            tie_word_embeddings=False,
            rope_theta=10000.0,
            bos_token_id=None,
            eos_token_id=0,
            dtype="float32",
        )
    )


def _tokenizer() -> Any:
    """Byte-level BPE: any text has tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(), trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=SPECIAL[0], pad_token=SPECIAL[0], bos_token=None
    )
    fast.chat_template = CHAT
    return fast


def _corpus(lines: int = 3000, words: int = 40) -> Iterator[str]:
    rng = random.Random(1)
    syllables = [a + b + c for a in "bcdfghklmnprst" for b in "aeiou" for c in ("", "n", "r", "s")]
    for _ in range(lines):
        yield " ".join("".join(rng.choice(syllables) for _ in range(rng.randint(1, 3))) for _ in range(words))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python ci/tiny_models.py FOLDER")
    main(Path(sys.argv[1]))
