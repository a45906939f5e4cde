"""Writes the demo's model: a Qwen2 of a few megabytes with random weights and a tokenizer of one token a byte.

Run by the engine's interpreter (``python model.py FOLDER``); imports nothing of ours. The weights are scaled so that
attention decides the answer: SGLang's own dummy weights are so small that answers don't depend on the KV cache, and a
damaged cache would go unnoticed. The same folder comes out every time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

VOCABULARY = 512
HIDDEN = 256
INTERMEDIATE = 1536
LAYERS = 4
HEADS = 8
KV_HEADS = 2
HEAD_SIZE = HIDDEN // HEADS
CONTEXT = 16384
SEED = 20
ATTENTION_GAIN = 2.0
"""Standard deviations of an attention projection's output for a normalised input: above 1 it is felt in the answer."""
ANSWER_GAIN = 3.0
"""Spreads the logits, so that the most likely token wins clearly."""
SPECIAL = {"<unk>": 0, "<s>": 1, "</s>": 2}


def config() -> dict[str, Any]:
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_SIZE,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "bos_token_id": SPECIAL["<s>"],
        "eos_token_id": SPECIAL["</s>"],
        "torch_dtype": "float32",
    }


def weights() -> dict[str, Any]:
    import torch

    generator = torch.Generator().manual_seed(SEED)

    def random(rows: int, columns: int, gain: float = 1.0) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) * (gain / columns**0.5)

    tensors = {
        "model.embed_tokens.weight": torch.randn(VOCABULARY, HIDDEN, generator=generator),
        "model.norm.weight": torch.ones(HIDDEN),
        "lm_head.weight": random(VOCABULARY, HIDDEN, ANSWER_GAIN),
    }
    for index in range(LAYERS):
        layer = f"model.layers.{index}"
        for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            projection = f"{layer}.self_attn.{name}_proj"
            tensors[f"{projection}.weight"] = random(heads * HEAD_SIZE, HIDDEN, ATTENTION_GAIN)
            tensors[f"{projection}.bias"] = torch.zeros(heads * HEAD_SIZE)
        tensors[f"{layer}.self_attn.o_proj.weight"] = random(HIDDEN, HEADS * HEAD_SIZE, ATTENTION_GAIN)
        tensors[f"{layer}.mlp.gate_proj.weight"] = random(INTERMEDIATE, HIDDEN)
        tensors[f"{layer}.mlp.up_proj.weight"] = random(INTERMEDIATE, HIDDEN)
        tensors[f"{layer}.mlp.down_proj.weight"] = random(HIDDEN, INTERMEDIATE)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{layer}.{name}.weight"] = torch.ones(HIDDEN)
    return tensors


def write_tokenizer(folder: Path) -> None:
    """A byte-level BPE without merges. (Transformers makes any qwen2 tokenizer one of those.)"""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocabulary = dict(SPECIAL)
    for character in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocabulary[character] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")


def tokenizer_config() -> dict[str, Any]:
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": CONTEXT,
        "chat_template": "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}",
    }


def write(folder: Path) -> None:
    from safetensors.torch import save_file

    texts = {
        "config.json": config(),
        "generation_config.json": {"do_sample": False, "eos_token_id": SPECIAL["</s>"]},
        "tokenizer_config.json": tokenizer_config(),
    }
    for name, content in texts.items():
        (folder / name).write_text(json.dumps(content, indent=1))
    write_tokenizer(folder)
    save_file(weights(), str(folder / "model.safetensors"), metadata={"format": "pt"})


if __name__ == "__main__":
    write(Path(sys.argv[1]))
