"""Draws milestone 2's questions; each config file is written from a shape whose size is known.

The oracle never parses a config: it decides what the cache holds first, and then spells that out
in the keys of some model family. So no parser has to be trusted for the truth to be right. The
rungs that earn a bonus are in `rungs`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from milestones.m2_kv_bytes import keys
from solutions.draft import Draft, Source
from solutions.m2_kv_bytes.cases import (
    Ask,
    Case,
    Config,
    Maker,
    a_shape,
    bytes_of,
    in_full,
    inside,
    llama,
    numbers_of_token,
)
from solutions.m2_kv_bytes.rungs import RUNGS

KNOWN = (
    ((80, 8, 128, 16), 327_680),  # Llama-3-70B
    ((32, 8, 128, 16), 131_072),  # Llama-3-8B
    ((32, 32, 128, 16), 524_288),  # Llama-2-7B
)
CONTEXTS = (1_024, 4_096, 8_192, 32_768, 100_000, 131_072)
KV_HEADS = (1, 2, 3, 4, 5, 8, 10, 16, 40, 71)
HEAD_DIMS = (64, 80, 96, 128, 192, 256)
N_OTHER_SHAPES = 12
N_VARIANTS = 3  # configs of each spelling


def draw(source: Source) -> Draft:
    """Draw the questions of one split and their answers."""
    rng = source.rng
    names = ("n_layers", "n_kv_heads", "head_dim", "kv_bits")
    questions: dict[str, list[dict[str, Any]]] = {
        "known_shapes": [dict(zip(names, shape, strict=True)) for shape, _ in KNOWN],
        "other_shapes": _other_shapes(rng),
    }
    answers: dict[str, Any] = {f"known_shapes/{i}": right for i, (_, right) in enumerate(KNOWN)}
    for i, shape in enumerate(questions["other_shapes"]):
        answers[f"other_shapes/{i}"] = bytes_of(numbers_of_token(**shape), shape["kv_bits"])

    for topic, makers in DIALECTS.items():
        cases = [maker(rng, ask) for maker in makers for ask in _asks(rng)]
        questions[topic] = [_question(case.config, case.ask) for case in cases]
        answers |= {f"{topic}/{i}": case.size for i, case in enumerate(cases)}

    refusals = _refused(rng)
    asks = [ask for _ in refusals for ask in _asks(rng)]
    questions["refused"] = [
        _question(config, ask) for (config, _), ask in zip(refusals, asks, strict=False)
    ]
    answers |= {f"refused/{i}": list(named) for i, (_, named) in enumerate(refusals)}

    runs = source.runs
    per_run = (
        runs["n_layers"] * runs["n_kv_heads"] * runs["head_dim"] * 2 * runs["kv_bits"] // 8
    ).to_numpy(dtype=np.int64)
    return Draft(
        {"questions.json": questions},
        {"answers.json": answers, "runs.npz": {"kv_bytes": per_run}},
    )


def _question(config: Config, ask: Ask) -> dict[str, Any]:
    return {
        "config": config,
        "context_len": ask.context_len,
        "batch_size": ask.batch_size,
        "kv_bits": ask.kv_bits,
    }


def _asks(rng: np.random.Generator) -> list[Ask]:
    """Return one question a variant: contexts and batches all differ, and both widths are asked."""
    contexts = rng.choice(CONTEXTS, N_VARIANTS, replace=False)
    batches = rng.choice(np.arange(2, 33), N_VARIANTS, replace=False)
    first = int(rng.integers(2))
    return [
        Ask(i, int(contexts[i]), int(batches[i]), (16, 8)[(first + i) % 2])
        for i in range(N_VARIANTS)
    ]


def _other_shapes(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return shapes that hold every head size and both widths, with layers and heads spread."""
    heads = [*rng.permutation(KV_HEADS), *rng.choice(KV_HEADS, 2)]
    head_dims = [*rng.permutation(HEAD_DIMS), *rng.permutation(HEAD_DIMS)]
    layers = rng.choice(np.arange(2, 127), N_OTHER_SHAPES, replace=False)
    return [
        {
            "n_layers": int(layers[i]),
            "n_kv_heads": int(heads[i]),
            "head_dim": int(head_dims[i]),
            "kv_bits": (16, 8)[i % 2],
        }
        for i in range(N_OTHER_SHAPES)
    ]


# ---------------------------------------------------------------- plain


def _grouped(rng: np.random.Generator, ask: Ask) -> Case:
    n_layers, n_heads, n_kv_heads, head_dim = a_shape(rng)
    config = llama(n_layers, n_heads, n_kv_heads, n_heads * head_dim)
    return in_full(config, ask, numbers_of_token(n_layers, n_kv_heads, head_dim))


def _multi_head(rng: np.random.Generator, ask: Ask) -> Case:
    n_layers, n_heads, _, head_dim = a_shape(rng)
    config = llama(n_layers, n_heads, n_heads, n_heads * head_dim)
    del config["num_key_value_heads"]  # as in configs older than grouped queries
    return in_full(config, ask, numbers_of_token(n_layers, n_heads, head_dim))


def _nulls(rng: np.random.Generator, ask: Ask) -> Case:
    # Files saved by a library spell out what a model does not use.
    n_layers, n_heads, _, head_dim = a_shape(rng)
    config = llama(n_layers, n_heads, n_heads, n_heads * head_dim)
    unused = ("num_key_value_heads", "head_dim", "kv_lora_rank", "sliding_window", "layer_types")
    config |= dict.fromkeys(unused)
    config |= {"sliding_window_pattern": None, "num_kv_shared_layers": 0, "block_configs": []}
    return in_full(config, ask, numbers_of_token(n_layers, n_heads, head_dim))


def _explicit_head_dim(rng: np.random.Generator, ask: Ask) -> Case:
    n_layers, n_heads, n_kv_heads, _ = a_shape(rng)
    config = llama(n_layers, n_heads, n_kv_heads, n_heads * 64)
    config |= {"model_type": "qwen3", "head_dim": 128}  # Qwen3-0.6B: 1024 / 16 is not 128
    return in_full(config, ask, numbers_of_token(n_layers, n_kv_heads, 128))


def _window_switched_off(rng: np.random.Generator, ask: Ask) -> Case:
    n_layers, n_heads, n_kv_heads, head_dim = a_shape(rng)
    config = llama(n_layers, n_heads, n_kv_heads, n_heads * head_dim)
    config |= {"model_type": "qwen2", "sliding_window": 512, "use_sliding_window": False}
    config |= {"max_window_layers": n_layers // 2}  # counts only while the window is in force
    return in_full(config, ask, numbers_of_token(n_layers, n_kv_heads, head_dim))


# ---------------------------------------------------------------- spelled


def _gpt2_keys(n_layers: int, n_heads: int, width: int) -> Config:
    return {"model_type": "gpt2", "n_embd": width, "n_layer": n_layers, "n_head": n_heads}


def _gpt2(rng: np.random.Generator, ask: Ask) -> Case:
    n_layers, n_heads, _, head_dim = a_shape(rng)
    config = _gpt2_keys(n_layers, n_heads, n_heads * head_dim) | {"n_positions": 1_024}
    return in_full(config, ask, numbers_of_token(n_layers, n_heads, head_dim))


def _mpt(rng: np.random.Generator, ask: Ask) -> Case:
    n_layers, n_heads, n_kv_heads, head_dim = a_shape(rng)
    config: Config = {
        "model_type": "mpt",
        "d_model": n_heads * head_dim,
        "n_layers": n_layers,
        "n_heads": n_heads,
    }
    if ask.variant == 0:
        return in_full(config, ask, numbers_of_token(n_layers, n_heads, head_dim))
    config["attn_config"] = {"clip_qkv": 8, "kv_n_heads": n_kv_heads}
    return in_full(config, ask, numbers_of_token(n_layers, n_kv_heads, head_dim))


def _kv_heads_named_otherwise(rng: np.random.Generator, ask: Ask) -> Case:
    n_layers, n_heads, n_kv_heads, head_dim = a_shape(rng)
    config = llama(n_layers, n_heads, n_kv_heads, n_heads * head_dim)
    del config["num_key_value_heads"]
    config[("num_kv_heads", "n_head_kv", "num_kv_heads")[ask.variant]] = n_kv_heads
    return in_full(config, ask, numbers_of_token(n_layers, n_kv_heads, head_dim))


def _bigcode(rng: np.random.Generator, ask: Ask) -> Case:
    n_layers, n_heads, _, head_dim = a_shape(rng)
    one = ask.variant != 0  # the same family has a file with the flag off: multi-head
    config = _gpt2_keys(n_layers, n_heads, n_heads * head_dim)
    config |= {"model_type": "gpt_bigcode", "multi_query": one}
    return in_full(config, ask, numbers_of_token(n_layers, 1 if one else n_heads, head_dim))


def _falcon(n_layers: int, n_heads: int, head_dim: int, new: bool) -> Config:
    return {
        "model_type": "falcon",
        "multi_query": True,
        "new_decoder_architecture": new,
        "hidden_size": n_heads * head_dim,
        "num_hidden_layers": n_layers,
        "num_attention_heads": n_heads,
    }


def _falcon_7b(rng: np.random.Generator, ask: Ask) -> Case:
    # It names as many KV heads as query heads and has one: the flag decides.
    n_layers, n_heads, _, head_dim = a_shape(rng)
    config = _falcon(n_layers, n_heads, head_dim, new=False) | {"num_kv_heads": n_heads}
    return in_full(config, ask, numbers_of_token(n_layers, 1, head_dim))


def _falcon_40b(rng: np.random.Generator, ask: Ask) -> Case:
    # It says multi_query and has 8 KV heads: the new architecture overrides the flag.
    n_layers, n_heads, n_kv_heads, head_dim = a_shape(rng)
    config = _falcon(n_layers, n_heads, head_dim, new=True) | {"num_kv_heads": n_kv_heads}
    return in_full(config, ask, numbers_of_token(n_layers, n_kv_heads, head_dim))


def _chatglm(rng: np.random.Generator, ask: Ask) -> Case:
    n_layers, n_heads, n_kv_heads, head_dim = a_shape(rng)
    grouped = ask.variant != 0
    config = {
        "model_type": "chatglm",
        "hidden_size": n_heads * head_dim,
        "num_layers": n_layers,
        "num_attention_heads": n_heads,
        "multi_query_attention": grouped,
        "multi_query_group_num": n_kv_heads,
    }
    return in_full(
        config, ask, numbers_of_token(n_layers, n_kv_heads if grouped else n_heads, head_dim)
    )


def _kv_channels(rng: np.random.Generator, ask: Ask) -> Case:
    # The width says 64 numbers a head, the file says 128.
    n_layers, n_heads, n_kv_heads, _ = a_shape(rng)
    config = llama(n_layers, n_heads, n_kv_heads, n_heads * 64) | {"kv_channels": 128}
    return in_full(config, ask, numbers_of_token(n_layers, n_kv_heads, 128))


def _nested(rng: np.random.Generator, ask: Ask) -> Case:
    case = _grouped(rng, ask)
    config = inside(case.config)
    if ask.variant == 0:  # the file around it has a width of its own: of another part
        config |= {"hidden_size": 2 * case.config["hidden_size"]}
    return Case(config, ask, case.values_held)


# ---------------------------------------------------------------- windowed


def _sliding_everywhere(rng: np.random.Generator, ask: Ask) -> Case:
    n_layers, n_heads, n_kv_heads, head_dim = a_shape(rng)
    window = int(rng.choice([512, 1_024, 2_048, 4_096]))
    config = llama(n_layers, n_heads, n_kv_heads, n_heads * head_dim)
    config |= {"model_type": "mistral", "sliding_window": window}
    if ask.variant == 1:
        config["use_sliding_window"] = True
    ask = ask.near(window, rng)
    held = min(ask.context_len, window)
    return Case(config, ask, held * numbers_of_token(n_layers, n_kv_heads, head_dim))


def _sliding_by_layer(rng: np.random.Generator, ask: Ask) -> Case:
    n_layers, n_heads, n_kv_heads, head_dim = a_shape(rng)
    every = int(rng.choice([2, 4, 6]))
    full = n_layers // every
    kinds = [
        "full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(n_layers)
    ]
    window = int(rng.choice([512, 1_024, 4_096]))
    config = llama(n_layers, n_heads, n_kv_heads, n_heads * head_dim)
    config |= {"layer_types": kinds, "sliding_window": window}
    if ask.variant == 1:  # the plan says the same, and the type needs no code when it is spelled
        config |= {"model_type": "gemma3_text", "sliding_window_pattern": every}
        config |= {"head_dim": head_dim}  # without it this type's heads are 256 wide
    ask = ask.near(window, rng)
    held = full * ask.context_len + (n_layers - full) * min(ask.context_len, window)
    return Case(config, ask, held * numbers_of_token(1, n_kv_heads, head_dim))


def _recurrent_by_layer(rng: np.random.Generator, ask: Ask) -> Case:
    n_layers, n_heads, n_kv_heads, head_dim = a_shape(rng)
    idle = ("linear_attention", "mamba", "conv")[ask.variant]
    full = ("full_attention", "attention", "full_attention")[ask.variant]
    kinds = [full if (i + 1) % 4 == 0 else idle for i in range(n_layers)]
    config = llama(n_layers, n_heads, n_kv_heads, n_heads * head_dim) | {"layer_types": kinds}
    return in_full(config, ask, numbers_of_token(n_layers // 4, n_kv_heads, head_dim))


# ---------------------------------------------------------------- latent


def _latent_keys(latent: int, rope: int) -> Config:
    return {
        "model_type": "deepseek_v2",
        "kv_lora_rank": latent,
        "qk_rope_head_dim": rope,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
    }


def _deepseek(rng: np.random.Generator, ask: Ask) -> Case:
    n_layers, n_heads = int(rng.integers(20, 62)), int(rng.choice([16, 64, 128]))
    latent, rope = int(rng.choice([256, 512])), int(rng.choice([32, 64]))
    config = llama(n_layers, n_heads, n_heads, 5_120) | _latent_keys(latent, rope)
    if ask.variant == 2:
        config = inside(config)
    return in_full(config, ask, n_layers * (latent + rope))


DIALECTS: dict[str, tuple[Maker, ...]] = {
    "plain": (_grouped, _multi_head, _nulls, _explicit_head_dim, _window_switched_off),
    "spelled": (
        _gpt2,
        _mpt,
        _kv_heads_named_otherwise,
        _bigcode,
        _falcon_7b,
        _falcon_40b,
        _chatglm,
        _kv_channels,
        _nested,
    ),
    "windowed": (_sliding_everywhere, _sliding_by_layer, _recurrent_by_layer),
    "latent": (_deepseek,),
    **RUNGS,
}


# ---------------------------------------------------------------- refused

Refusal = tuple[Config, tuple[str, ...]]
"""A config that no honest reader can size, with the keys that a message may name."""

N_UNTAUGHT = 3  # of the layer plans, and of the other keys that change a cache


def _refused(rng: np.random.Generator) -> list[Refusal]:
    n_layers, n_heads, n_kv_heads, head_dim = a_shape(rng)

    def written(*without: str, **changed: Any) -> Config:
        config = llama(n_layers, n_heads, n_kv_heads, n_heads * head_dim) | changed
        return {key: value for key, value in config.items() if key not in without}

    def kinds(count: int, *more: str) -> list[str]:
        return ["full_attention"] * count + list(more)

    cases: list[Refusal] = [
        (written("num_hidden_layers"), keys.LAYERS),
        (
            written("num_attention_heads", "num_key_value_heads"),
            (*keys.QUERY_HEADS, *keys.KV_HEADS),
        ),
        (written("hidden_size"), (*keys.WIDTH, *keys.HEAD_SIZE)),
        (
            written(hidden_size=n_heads * head_dim + 1),
            (*keys.WIDTH, *keys.HEAD_SIZE, *keys.QUERY_HEADS),
        ),
        (written("num_key_value_heads", multi_query_attention=True), ("multi_query_group_num",)),
        (written(kv_lora_rank=512), ("qk_rope_head_dim",)),
        (written(layer_types=kinds(n_layers - 1, "telepathy")), ("layer_types",)),
        (written(layer_types=kinds(n_layers - 1)), ("layer_types", *keys.LAYERS)),
        (written(layer_types=kinds(n_layers + 1)), ("layer_types", *keys.LAYERS)),
        (written(layer_types=kinds(n_layers - 1, "sliding_attention")), ("sliding_window",)),
        (
            written(sliding_window=4_096, use_sliding_window=True, max_window_layers=n_layers // 2),
            ("max_window_layers",),
        ),
    ]
    plans = [str(key) for key in rng.choice(keys.LAYER_PLANS, N_UNTAUGHT, replace=False)]
    others = [str(key) for key in rng.choice(keys.OTHER_CACHES, N_UNTAUGHT, replace=False)]
    cases += [(written(**{key: _value(key, n_layers)}), (key,)) for key in plans + others]
    nested, beside = plans[0], others[0]
    cases += [
        (inside(written(**{nested: _value(nested, n_layers)})), (nested,)),
        # `layer_types` stands in for a plan, not for a cache of another make.
        (written(layer_types=kinds(n_layers), **{beside: _value(beside, n_layers)}), (beside,)),
    ]
    in_code = [str(kind) for kind in rng.choice(keys.PLAN_IN_CODE, 2, replace=False)]
    cases += [
        (written(model_type=kind, sliding_window=4_096), ("layer_types", "model_type"))
        for kind in in_code
    ]
    return cases


def _value(key: str, n_layers: int) -> Any:
    """Return a value in the form that released files give a key that is not taught."""
    values: dict[str, Any] = {
        "layers_block_type": ["mamba", "mamba", "hybrid"] * (n_layers // 3),
        "_block_types": ["recurrent", "recurrent", "attention"],
        "hybrid_layer_pattern": [1, 1, 1, 0] * (n_layers // 4),
        "attn_layer_indices": list(range(3, n_layers, 8)),
        "attention_types": [[["global", "local"], n_layers // 2]],
        "linear_attn_config": {"full_attn_layers": list(range(4, n_layers, 4))},
        "cross_attention_layers": list(range(3, n_layers, 5)),
        "compress_ratios": [0, 0, 4, 128],
        "index_topk": 2_048,
        "sparse_attention_config": {"index_head_dim": 128},
    }
    return values.get(key, 8)  # a count of layers, heads or numbers of a head
