"""Draws milestone 2's questions; each config file is written from a shape whose size is known.

The oracle never parses a config: it decides what the cache holds first, and then spells that out
in the keys of some model family. So no parser has to be trusted for the truth to be right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from solutions.draft import Draft, Source

Config = dict[str, Any]
Case = tuple[Config, int, int, int, int]
"""A config, its context_len, batch_size and kv_bits, and the bytes of the whole cache."""

KNOWN = (
    ((80, 8, 128, 16), 327_680),  # Llama-3-70B
    ((32, 8, 128, 16), 131_072),  # Llama-3-8B
    ((32, 32, 128, 16), 524_288),  # Llama-2-7B
)
CONTEXTS = (1_024, 4_096, 8_192, 32_768, 100_000, 131_072)
N_OTHER_SHAPES = 12
N_VARIANTS = 3  # configs of each spelling


def draw(source: Source) -> Draft:
    """Draw the questions of one split and their answers."""
    rng = source.rng
    names = ("n_layers", "n_kv_heads", "head_dim", "kv_bits")
    questions: dict[str, list[dict[str, Any]]] = {
        "known_shapes": [dict(zip(names, shape, strict=True)) for shape, _ in KNOWN]
    }
    answers: dict[str, Any] = {f"known_shapes/{i}": right for i, (_, right) in enumerate(KNOWN)}

    questions["other_shapes"] = [
        {
            "n_layers": int(rng.integers(2, 127)),
            "n_kv_heads": int(rng.choice([1, 2, 3, 4, 5, 8, 10, 16, 40, 71])),
            "head_dim": int(rng.choice([64, 80, 96, 128, 192, 256])),
            "kv_bits": (16, 8)[i % 2],
        }
        for i in range(N_OTHER_SHAPES)
    ]
    for i, shape in enumerate(questions["other_shapes"]):
        answers[f"other_shapes/{i}"] = _bytes(_values(**shape), shape["kv_bits"])

    for topic, makers in DIALECTS.items():
        cases = [maker(rng) for maker in makers for _ in range(N_VARIANTS)]
        questions[topic] = [
            {"config": c, "context_len": t, "batch_size": b, "kv_bits": bits}
            for c, t, b, bits, _ in cases
        ]
        answers |= {f"{topic}/{i}": case[-1] for i, case in enumerate(cases)}

    refusals = _refused(rng)
    questions["refused"] = [
        {"config": config, "context_len": 4_096, "batch_size": 1, "kv_bits": 16}
        for config, _ in refusals
    ]
    answers |= {f"refused/{i}": list(keys) for i, (_, keys) in enumerate(refusals)}

    runs = source.runs
    per_run = (
        runs["n_layers"] * runs["n_kv_heads"] * runs["head_dim"] * 2 * runs["kv_bits"] // 8
    ).to_numpy(dtype=np.int64)
    return Draft(
        {"questions.json": questions},
        {"answers.json": answers, "runs.npz": {"kv_bytes": per_run}},
    )


# ---------------------------------------------------------------- sizes


def _values(n_layers: int, n_kv_heads: int, head_dim: int, **_: int) -> int:
    return 2 * n_layers * n_kv_heads * head_dim  # keys and values


def _bytes(values: int, kv_bits: int) -> int:
    return values * kv_bits // 8


# ---------------------------------------------------------------- draws


def _shape(rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Return (n_layers, n_heads, n_kv_heads, head_dim) with grouped heads and a plain width."""
    n_kv_heads = int(rng.choice([2, 4, 8, 16]))
    return (
        int(rng.integers(12, 90)),
        n_kv_heads * int(rng.choice([2, 4, 8])),
        n_kv_heads,
        int(rng.choice([64, 96, 128])),
    )


def _asked(rng: np.random.Generator) -> tuple[int, int, int]:
    """Return (context_len, batch_size, kv_bits)."""
    return int(rng.choice(CONTEXTS)), int(rng.integers(1, 33)), int(rng.choice([16, 8]))


def _case(rng: np.random.Generator, config: Config, values_per_token: int) -> Case:
    context_len, batch_size, kv_bits = _asked(rng)
    size = _bytes(values_per_token * context_len * batch_size, kv_bits)
    return config, context_len, batch_size, kv_bits, size


# ---------------------------------------------------------------- dialects


def _llama(n_layers: int, n_heads: int, n_kv_heads: int, width: int) -> Config:
    return {
        "model_type": "llama",
        "hidden_size": width,
        "num_hidden_layers": n_layers,
        "num_attention_heads": n_heads,
        "num_key_value_heads": n_kv_heads,
        "intermediate_size": 4 * width,
        "torch_dtype": "bfloat16",
    }


def _grouped(rng: np.random.Generator) -> Case:
    n_layers, n_heads, n_kv_heads, head_dim = _shape(rng)
    config = _llama(n_layers, n_heads, n_kv_heads, n_heads * head_dim)
    return _case(rng, config, _values(n_layers, n_kv_heads, head_dim))


def _multi_head(rng: np.random.Generator) -> Case:
    n_layers, n_heads, _, head_dim = _shape(rng)
    config = _llama(n_layers, n_heads, n_heads, n_heads * head_dim)
    del config["num_key_value_heads"]  # as in configs older than grouped queries
    return _case(rng, config, _values(n_layers, n_heads, head_dim))


def _explicit_head_dim(rng: np.random.Generator) -> Case:
    n_layers, n_heads, n_kv_heads, _ = _shape(rng)
    config = _llama(n_layers, n_heads, n_kv_heads, n_heads * 64)
    config |= {"model_type": "qwen3", "head_dim": 128}  # Qwen3-0.6B: 1024 / 16 is not 128
    return _case(rng, config, _values(n_layers, n_kv_heads, 128))


def _window_switched_off(rng: np.random.Generator) -> Case:
    n_layers, n_heads, n_kv_heads, head_dim = _shape(rng)
    config = _llama(n_layers, n_heads, n_kv_heads, n_heads * head_dim)
    config |= {"model_type": "qwen2", "sliding_window": 512, "use_sliding_window": False}
    return _case(rng, config, _values(n_layers, n_kv_heads, head_dim))


def _gpt2(rng: np.random.Generator) -> Case:
    n_layers, n_heads, _, head_dim = _shape(rng)
    config = {
        "model_type": "gpt2",
        "n_embd": n_heads * head_dim,
        "n_layer": n_layers,
        "n_head": n_heads,
        "n_positions": 1_024,
    }
    return _case(rng, config, _values(n_layers, n_heads, head_dim))


def _bigcode(rng: np.random.Generator) -> Case:
    n_layers, n_heads, _, head_dim = _shape(rng)
    config = {
        "model_type": "gpt_bigcode",
        "multi_query": True,
        "n_embd": n_heads * head_dim,
        "n_layer": n_layers,
        "n_head": n_heads,
    }
    return _case(rng, config, _values(n_layers, 1, head_dim))


def _falcon(n_layers: int, n_heads: int, head_dim: int, new: bool) -> Config:
    return {
        "model_type": "falcon",
        "multi_query": True,
        "new_decoder_architecture": new,
        "hidden_size": n_heads * head_dim,
        "num_hidden_layers": n_layers,
        "num_attention_heads": n_heads,
    }


def _falcon_7b(rng: np.random.Generator) -> Case:
    n_layers, n_heads, _, head_dim = _shape(rng)
    config = _falcon(n_layers, n_heads, head_dim, new=False)
    return _case(rng, config, _values(n_layers, 1, head_dim))


def _falcon_40b(rng: np.random.Generator) -> Case:
    # It says multi_query and has 8 KV heads: the new architecture overrides the flag.
    n_layers, n_heads, n_kv_heads, head_dim = _shape(rng)
    config = _falcon(n_layers, n_heads, head_dim, new=True) | {"num_kv_heads": n_kv_heads}
    return _case(rng, config, _values(n_layers, n_kv_heads, head_dim))


def _chatglm(rng: np.random.Generator) -> Case:
    n_layers, n_heads, n_kv_heads, head_dim = _shape(rng)
    config = {
        "model_type": "chatglm",
        "hidden_size": n_heads * head_dim,
        "num_layers": n_layers,
        "num_attention_heads": n_heads,
        "multi_query_attention": True,
        "multi_query_group_num": n_kv_heads,
        "kv_channels": head_dim,
    }
    return _case(rng, config, _values(n_layers, n_kv_heads, head_dim))


def _nested(rng: np.random.Generator) -> Case:
    config, context_len, batch_size, kv_bits, size = _grouped(rng)
    vision = {"model_type": "clip_vision_model", "num_hidden_layers": 24, "hidden_size": 1_024}
    vision["num_attention_heads"] = 16
    outer = {"model_type": "llava", "text_config": config, "vision_config": vision}
    return outer, context_len, batch_size, kv_bits, size


def _by_layer(rng: np.random.Generator, config: Config, tokens_of: dict[str, int | None]) -> Case:
    """Size a config layer by layer; None in `tokens_of` means the whole context."""
    context_len, batch_size, kv_bits = _asked(rng)
    width = _values(1, config["num_key_value_heads"], config["head_dim"])
    held = 0
    for kind in config["layer_types"]:
        limit = tokens_of[kind]
        held += context_len if limit is None else min(context_len, limit)
    return config, context_len, batch_size, kv_bits, _bytes(held * width * batch_size, kv_bits)


def _sliding_everywhere(rng: np.random.Generator) -> Case:
    n_layers, n_heads, n_kv_heads, head_dim = _shape(rng)
    config = _llama(n_layers, n_heads, n_kv_heads, n_heads * head_dim)
    config |= {"model_type": "mistral", "sliding_window": 4_096}
    context_len, batch_size, kv_bits = _asked(rng)
    held = min(context_len, 4_096) * _values(n_layers, n_kv_heads, head_dim)
    return config, context_len, batch_size, kv_bits, _bytes(held * batch_size, kv_bits)


def _sliding_by_layer(rng: np.random.Generator) -> Case:
    n_layers, n_heads, n_kv_heads, head_dim = _shape(rng)
    every = int(rng.choice([2, 4, 6]))
    kinds = [
        "full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(n_layers)
    ]
    window = int(rng.choice([512, 1_024, 4_096]))
    config = _llama(n_layers, n_heads, n_kv_heads, n_heads * head_dim)
    config |= {"head_dim": head_dim, "layer_types": kinds, "sliding_window": window}
    tokens_of = {"full_attention": None, "sliding_attention": window}
    return _by_layer(rng, config, tokens_of)


def _recurrent_by_layer(rng: np.random.Generator) -> Case:
    n_layers, n_heads, n_kv_heads, head_dim = _shape(rng)
    kinds = ["full_attention" if (i + 1) % 4 == 0 else "linear_attention" for i in range(n_layers)]
    config = _llama(n_layers, n_heads, n_kv_heads, n_heads * head_dim)
    config |= {"head_dim": head_dim, "layer_types": kinds}
    return _by_layer(rng, config, {"full_attention": None, "linear_attention": 0})


def _deepseek(rng: np.random.Generator) -> Case:
    n_layers = int(rng.integers(20, 62))
    latent, rope = int(rng.choice([256, 512])), int(rng.choice([32, 64]))
    config = _llama(n_layers, 128, 128, 5_120)
    config |= {
        "model_type": "deepseek_v2",
        "kv_lora_rank": latent,
        "qk_rope_head_dim": rope,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
    }
    return _case(rng, config, n_layers * (latent + rope))


DIALECTS = {
    "plain": (_grouped, _multi_head, _explicit_head_dim, _window_switched_off),
    "spelled": (_gpt2, _bigcode, _falcon_7b, _falcon_40b, _chatglm, _nested),
    "windowed": (_sliding_everywhere, _sliding_by_layer, _recurrent_by_layer),
    "latent": (_deepseek,),
}


def _refused(rng: np.random.Generator) -> list[tuple[Config, tuple[str, ...]]]:
    """Return configs no honest reader can size, each with the keys a message may name."""
    n_layers, n_heads, n_kv_heads, head_dim = _shape(rng)

    def fresh() -> Config:
        return _llama(n_layers, n_heads, n_kv_heads, n_heads * head_dim)

    no_layers = fresh()
    del no_layers["num_hidden_layers"]
    no_heads = fresh()
    del no_heads["num_attention_heads"], no_heads["num_key_value_heads"]
    odd_width = fresh() | {"hidden_size": n_heads * head_dim + 1}
    unknown_kind = fresh() | {"layer_types": ["full_attention"] * (n_layers - 1) + ["telepathy"]}
    too_few = fresh() | {"layer_types": ["full_attention"] * (n_layers - 1)}
    no_window = fresh() | {"layer_types": ["sliding_attention"] * n_layers}
    no_rope_key = fresh() | {"kv_lora_rank": 512}
    return [
        (no_layers, ("num_hidden_layers",)),
        (no_heads, ("num_attention_heads", "num_key_value_heads")),
        (odd_width, ("hidden_size", "head_dim", "num_attention_heads")),
        (unknown_kind, ("layer_types",)),
        (too_few, ("layer_types", "num_hidden_layers")),
        (no_window, ("sliding_window",)),
        (no_rope_key, ("qk_rope_head_dim",)),
    ]
