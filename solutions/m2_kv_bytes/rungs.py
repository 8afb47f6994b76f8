"""The ladder's last rungs: config files of newer families, drawn around what was released.

As in the oracle, what each layer holds is decided first and spelled out afterwards. `families.toml`
holds the released figures and where each was read; one variant of each maker has just these.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from solutions.m2_kv_bytes.cases import (
    Ask,
    Case,
    Config,
    Maker,
    a_shape,
    in_full,
    inside,
    llama,
    numbers_of_token,
)

FAMILIES: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("families.toml").read_text(encoding="utf-8")
)
RELEASED = 1  # the variant that is asked at the released figures; its context is above any window
WINDOWS = (512, 1_024, 4_096)


def _drawn(family: str, rng: np.random.Generator, ask: Ask) -> dict[str, Any]:
    """Return a family's figures: the released ones, or others with the same keys."""
    released = FAMILIES[family]
    if ask.variant == RELEASED:
        return released
    layers, heads, kv_heads, _ = a_shape(rng)
    head_dim = int(rng.choice([64, 128, 256]))
    # Where head_dim is in the file, its width is not heads times it.
    return {
        "layers": layers,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "hidden_size": heads * head_dim // 2,
    }


def _written(family: str, figures: dict[str, Any], layers: int, **keys: Any) -> Config:
    config = llama(layers, figures["heads"], figures["kv_heads"], figures["hidden_size"])
    return config | {"model_type": family, "head_dim": figures["head_dim"], **keys}


def _per_layer(figures: dict[str, Any]) -> int:
    return numbers_of_token(1, figures["kv_heads"], figures["head_dim"])


def _periodic(rng: np.random.Generator, figures: dict[str, Any]) -> tuple[int, int, int]:
    """Return (layers, period, how many attend in full), a period begun at the end."""
    if "every" in figures:
        return figures["layers"], figures["every"], figures["layers"] // figures["every"]
    every, full = int(rng.choice([3, 4, 5, 6, 8])), int(rng.integers(3, 11))
    return every * full + int(rng.integers(1, every)), every, full


# ---------------------------------------------------------------- plans in other languages


def _qwen3_next(rng: np.random.Generator, ask: Ask) -> Case:
    figures = _drawn("qwen3_next", rng, ask)
    layers, every, full = _periodic(rng, figures)
    config = _written("qwen3_next", figures, layers, full_attention_interval=every)
    return in_full(config, ask, full * _per_layer(figures))


def _gemma3(rng: np.random.Generator, ask: Ask) -> Case:
    figures = _drawn("gemma3_text", rng, ask)
    layers, every, full = _periodic(rng, figures)
    window = figures.get("window") or int(rng.choice(WINDOWS))
    config = _written(
        "gemma3_text", figures, layers, sliding_window=window, sliding_window_pattern=every
    )
    ask = ask.near(window, rng)
    held = full * ask.context_len + (layers - full) * min(ask.context_len, window)
    return Case(config, ask, held * _per_layer(figures))


def _jamba(rng: np.random.Generator, ask: Ask) -> Case:
    figures = _drawn("jamba", rng, ask)
    if ask.variant == RELEASED:
        layers, period, offset = figures["layers"], figures["period"], figures["offset"]
        full = layers // period
    else:  # without the offset one layer more would attend, and in one of two also counted from 1
        period, full = int(rng.choice([4, 5, 6, 8])), int(rng.integers(2, 10))
        offset = int(rng.integers(2, period))
        begun = offset if ask.variant == 0 else int(rng.integers(1, offset))
        layers = full * period + begun
    config = _written("jamba", figures, layers, attn_layer_period=period, attn_layer_offset=offset)
    del config["head_dim"]
    config["hidden_size"] = figures["heads"] * figures["head_dim"]
    return in_full(config, ask, full * _per_layer(figures))


def _nemotron_h(rng: np.random.Generator, ask: Ask) -> Case:
    figures = _drawn("nemotron_h", rng, ask)
    if ask.variant == RELEASED:
        signs = list(figures["pattern"])
        full = 6
    else:
        full = int(rng.integers(2, 9))
        idle = rng.integers(4, 16, size=3)
        signs = [str(s) for s in rng.permutation(list("*" * full + "M" * idle[0] + "E" * idle[1]))]
        signs += ["-"] * int(idle[2])
        signs = [str(sign) for sign in rng.permutation(signs)]
    config = _written("nemotron_h", figures, len(signs), hybrid_override_pattern="".join(signs))
    return in_full(config, ask, full * _per_layer(figures))


# ---------------------------------------------------------------- chunks


def _llama4(rng: np.random.Generator, ask: Ask) -> Case:
    case, _ = _chunked(rng, ask)
    return Case(inside(case.config), case.ask, case.values_held)


def _llama4_spelled_out(rng: np.random.Generator, ask: Ask) -> Case:
    # Saved by a newer library, the file says the same in `layer_types` as well.
    case, chunked = _chunked(rng, ask)
    kinds = ["chunked_attention" if one else "full_attention" for one in chunked]
    return Case(case.config | {"layer_types": kinds}, case.ask, case.values_held)


def _chunked(rng: np.random.Generator, ask: Ask) -> tuple[Case, list[bool]]:
    """Return a case and which of its layers are chunked: fewer than half attend in full."""
    figures = _drawn("llama4_text", rng, ask)
    if ask.variant == RELEASED:
        chunk, every = figures["chunk"], figures["every"]
        chunked = [(i + 1) % every != 0 for i in range(figures["layers"])]
        full = figures["layers"] // every
    else:
        chunk, full = int(rng.choice([1_024, 2_048, 8_192])), int(rng.integers(2, 12))
        others = full + int(rng.integers(2, 40))
        chunked = [bool(one) for one in rng.permutation([False] * full + [True] * others)]
    layers = len(chunked)
    config = _written(
        "llama4_text",
        figures,
        layers,
        attention_chunk_size=chunk,
        no_rope_layers=[int(one) for one in chunked],  # 1: with rope, and so in chunks
    )
    ask = ask.near(chunk, rng)
    held = full * ask.context_len + (layers - full) * min(ask.context_len, chunk)
    return Case(config, ask, held * _per_layer(figures)), chunked


# ---------------------------------------------------------------- shared caches


def _gemma3n(rng: np.random.Generator, ask: Ask) -> Case:
    figures = _drawn("gemma3n_text", rng, ask)
    if ask.variant == RELEASED:
        layers, every, shared = figures["layers"], figures["every"], figures["shared"]
        window = figures["window"]
    else:  # no whole period is shared: the first layers are of other kinds than the last
        every, periods = int(rng.choice([3, 4, 5, 6])), int(rng.integers(4, 9))
        layers, window = every * periods, int(rng.choice(WINDOWS))
        shared = every * int(rng.integers(1, periods - 1)) + int(rng.integers(1, every))
    full = (layers - shared) // every
    kinds = (["sliding_attention"] * (every - 1) + ["full_attention"]) * (layers // every)
    config = _written(
        "gemma3n_text",
        figures,
        layers,
        layer_types=kinds,
        sliding_window=window,
        num_kv_shared_layers=shared,
    )
    ask = ask.near(window, rng)
    sliding = layers - shared - full
    held = full * ask.context_len + sliding * min(ask.context_len, window)
    return Case(inside(config), ask, held * _per_layer(figures))


# ---------------------------------------------------------------- heads by layer


def _nemotron_nas(rng: np.random.Generator, ask: Ask) -> Case:
    released = FAMILIES["nemotron-nas"]
    if ask.variant == RELEASED:
        heads, head_dim = released["heads"], released["head_dim"]
        groups = [released["group"]] * released["attending"]
        idle = [_block(None, no_op=True)] * (released["layers"] - released["attending"])
    else:  # groups are smaller than the KV heads they make, and the first block has most of those
        heads, head_dim = int(rng.choice([40, 56, 96])), int(rng.choice([64, 128]))
        groups = [2, 4, *(int(g) for g in rng.choice([2, 4], int(rng.integers(4, 40))))]
        idle = [_block(None, no_op=True)] * int(rng.integers(2, 9))
        idle += [_block(None, linear=True)] * int(rng.integers(1, 5))
    first, *others = [_block(group) for group in groups]
    order = rng.permutation(len(others) + len(idle))
    blocks = [first, *((others + idle)[i] for i in order)]
    config = llama(len(blocks), heads, heads, heads * head_dim)
    config |= {"model_type": "nemotron-nas", "num_key_value_heads": None, "block_configs": blocks}
    kv_heads = sum(heads // group for group in groups)
    return in_full(config, ask, numbers_of_token(1, kv_heads, head_dim))


def _block(group: int | None, *, no_op: bool = False, linear: bool = False) -> Config:
    """Return one block, with the entries that released files spell out and leave unused."""
    return {
        "attention": {
            "n_heads_in_group": group,
            "no_op": no_op,
            "replace_with_linear": linear,
            "num_sink_tokens": None,
            "window_length": None,
        },
        "ffn": {"ffn_mult": 2.625, "no_op": False, "replace_with_linear": False},
    }


RUNGS: dict[str, tuple[Maker, ...]] = {
    "planned": (_qwen3_next, _gemma3, _jamba, _nemotron_h),
    "chunked": (_llama4, _llama4_spelled_out),
    "shared": (_gemma3n,),
    "by_layer": (_nemotron_nas,),
}
