"""Writes the demo's model: a Qwen2 of some megabytes that recalls what it has read, and a tokenizer of a token a byte.

Run by the engine's interpreter (``python model.py FOLDER``); imports nothing of ours. The same folder comes out every
time, and nothing is trained. Most weights are random, scaled so that attention decides the answer: SGLang's own dummy
weights are so small that answers don't depend on the KV cache, and a damaged cache would go unnoticed. Beside them, in
a part of the hidden state that the random weights read but don't write, two layers are set by hand, as an induction
circuit (what trained models have for repeating what stands in their context):

* Layer 0: head h looks h tokens back, by position alone, and fetches that token's short code. So every position knows
  its own token and the seven before it.
* Layer 1: head 0 looks for positions with the same seven tokens before them that the prompt ends with, and fetches the
  code of the token that stands there. It is the answer. Where nothing of that kind has been read, a mixture of many
  tokens is fetched, and the random weights decide.

So "The code of the red door is" goes on as it did earlier in the prompt, and it takes the rows of the KV cache that
hold that place. (SGLang 0.5.9 does not find ``rope_theta`` in the configuration of the newer transformers that the demo
runs it with: there it is a model of random weights only.)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

VOCABULARY = 512
HIDDEN = 512
INTERMEDIATE = 512
LAYERS = 4
HEADS = 8
KV_HEADS = 2
HEAD_SIZE = HIDDEN // HEADS
CONTEXT = 16384
ROPE_BASE = 1e20
"""So large that three quarters of a head's dimensions hardly turn within the context: those hold contents."""
SEED = 39
"""One whose short codes of the digits lie well apart."""
ATTENTION_GAIN = 2.0
"""Standard deviations of an attention projection's output for a normalised input: above 1 it is felt in the answer."""
ANSWER_GAIN = 3.0
"""Spreads the logits, so that the most likely token wins clearly."""
SPECIAL = {"<unk>": 0, "<s>": 1, "</s>": 2}

CODE = 32
"""Dimensions of what stands for a token when it is recalled: each +1 or -1."""
SHORT = 7
"""The same when it is compared."""
COMPARED = HEADS - 1
"""Tokens that must be the same for a match."""
OWN = slice(0, CODE)
"""From here on, places in the hidden state: code of the position's own token; its short code; those of the tokens that
head after head has fetched; the code recalled; the rest, which is all that the random weights write."""
OWN_SHORT = slice(OWN.stop, OWN.stop + SHORT)
FETCHED = slice(OWN_SHORT.stop, OWN_SHORT.stop + HEADS * SHORT)
RECALLED = slice(FETCHED.stop, FETCHED.stop + CODE)
RANDOM = slice(RECALLED.stop, HIDDEN)
TURNING = 5
"""Pairs of a head's dimensions that RoPE turns fast enough to tell one distance from the next."""
STILL = 7
"""First of those that it turns so slowly that they can be compared across the context."""
DISTANCE_GAIN = 10.0
"""One token nearer or farther than wanted gets a hundredth of the attention."""
SHORT_GAIN = 6.0
"""So large that all positions have nearly the same norm: a larger one would be a better match for anything."""
MATCH_GAIN = 0.6
"""One match of all outweighs thousands that are no match, and those share the attention without it."""
RECALL_GAIN = 8.0
RECALLED_GAIN = 1.25
"""A token that was fetched as good as alone outweighs the random weights in the logits, and a mixture does not."""


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
        "rope_theta": ROPE_BASE,
        "tie_word_embeddings": False,
        "bos_token_id": SPECIAL["<s>"],
        "eos_token_id": SPECIAL["</s>"],
        "torch_dtype": "float32",
    }


def weights() -> dict[str, Any]:
    import torch

    generator = torch.Generator().manual_seed(SEED)
    tensors = _random_weights(generator)
    codes = torch.randn(VOCABULARY, CODE, generator=generator).sign()
    short = torch.nn.functional.normalize(torch.randn(VOCABULARY, SHORT, generator=generator))
    embeddings, head = tensors["model.embed_tokens.weight"], tensors["lm_head.weight"]
    for rows in (embeddings, head):
        rows[:, : RANDOM.start] = 0
    embeddings[:, RANDOM] = torch.nn.functional.normalize(embeddings[:, RANDOM]) * (HIDDEN - RANDOM.start) ** 0.5
    embeddings[:, OWN] = codes
    embeddings[:, OWN_SHORT] = SHORT_GAIN * short
    head[:, RECALLED] = RECALLED_GAIN * codes
    _look_back(tensors, "model.layers.0.self_attn")
    _look_for_the_same(tensors, "model.layers.1.self_attn")
    return tensors


def _random_weights(generator: Any) -> dict[str, Any]:
    """What is written to the hidden state goes to ``RANDOM`` alone."""
    import torch

    def random(rows: int, columns: int, gain: float = 1.0) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) * (gain / columns**0.5)

    def written(columns: int, gain: float = 1.0) -> torch.Tensor:
        rows = random(HIDDEN, columns, gain)
        rows[: RANDOM.start] = 0
        return rows

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
        tensors[f"{layer}.self_attn.o_proj.weight"] = written(HEADS * HEAD_SIZE, ATTENTION_GAIN)
        tensors[f"{layer}.mlp.gate_proj.weight"] = random(INTERMEDIATE, HIDDEN)
        tensors[f"{layer}.mlp.up_proj.weight"] = random(INTERMEDIATE, HIDDEN)
        tensors[f"{layer}.mlp.down_proj.weight"] = written(INTERMEDIATE)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{layer}.{name}.weight"] = torch.ones(HIDDEN)
    return tensors


def _look_back(tensors: dict[str, Any], attention: str) -> None:
    """Queries and keys are the same at every position but for RoPE, which turns them with it: a query that is turned
    back by h tokens beforehand points where the key points that is h tokens away.
    """
    import torch

    query, key, value = (_heads(tensors, f"{attention}.{name}_proj.weight") for name in "qkv")
    query_bias, key_bias = (_heads(tensors, f"{attention}.{name}_proj.bias") for name in "qk")
    output = tensors[f"{attention}.o_proj.weight"]
    for rows in (query, key, value, output):
        rows.zero_()
    turn, half = ROPE_BASE ** (-2.0 * torch.arange(TURNING) / HEAD_SIZE), HEAD_SIZE // 2
    key_bias[:, :TURNING] = DISTANCE_GAIN
    value[:, :SHORT, OWN_SHORT] = torch.eye(SHORT)
    for head in range(HEADS):
        query_bias[head, :TURNING] = DISTANCE_GAIN * torch.cos(head * turn)
        query_bias[head, half : half + TURNING] = -DISTANCE_GAIN * torch.sin(head * turn)
        to, came = FETCHED.start + head * SHORT, head * HEAD_SIZE
        output[to : to + SHORT, came : came + SHORT] = torch.eye(SHORT)


def _look_for_the_same(tensors: dict[str, Any], attention: str) -> None:
    import torch

    query, key, value = (_heads(tensors, f"{attention}.{name}_proj.weight")[0] for name in "qkv")
    output = tensors[f"{attention}.o_proj.weight"][:, :HEAD_SIZE]
    for rows in (query, key, value, output):
        rows.zero_()
    half, size = HEAD_SIZE // 2, COMPARED * SHORT
    still = [*range(STILL, half), *range(half + STILL, HEAD_SIZE)][:size]
    query[still, FETCHED.start : FETCHED.start + size] = MATCH_GAIN * torch.eye(size)
    key[still, FETCHED.stop - size : FETCHED.stop] = torch.eye(size)
    value[:CODE, OWN] = torch.eye(CODE)
    output[RECALLED, :CODE] = RECALL_GAIN * torch.eye(CODE)


def _heads(tensors: dict[str, Any], name: str) -> Any:
    """A view with one row of heads in front."""
    return tensors[name].unflatten(0, (-1, HEAD_SIZE))


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
