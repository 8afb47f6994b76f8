"""What the makers of milestone 2's config files share: how one is asked, what it holds, a shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Config = dict[str, Any]


@dataclass(frozen=True)
class Ask:
    """How one config is asked: no two variants of a maker share context, batch and bits."""

    variant: int
    context_len: int
    batch_size: int
    kv_bits: int

    def near(self, window: int, rng: np.random.Generator) -> Ask:
        """Return the same question below, well above, or just above a window, by variant."""
        context = (
            int(rng.integers(window // 4, window)) | 1,  # odd: no whole number of blocks
            window * int(rng.choice([2, 8, 32])),
            int(rng.integers(window + 1, window + window // 2)) | 1,
        )[self.variant]
        return Ask(self.variant, context, self.batch_size, self.kv_bits)


@dataclass(frozen=True)
class Case:
    """A config, how it is asked, and the values that one request's whole cache holds."""

    config: Config
    ask: Ask
    values_held: int

    @property
    def size(self) -> int:
        """The bytes of the whole cache of the batch."""
        return bytes_of(self.values_held * self.ask.batch_size, self.ask.kv_bits)


Maker = Callable[[np.random.Generator, Ask], Case]


def numbers_of_token(n_layers: int, n_kv_heads: int, head_dim: int, **_: int) -> int:
    """Return the numbers that one token leaves in layers of one kind."""
    return 2 * n_layers * n_kv_heads * head_dim  # keys and values


def bytes_of(values: int, kv_bits: int) -> int:
    """Return the bytes of so many numbers."""
    return values * kv_bits // 8


def in_full(config: Config, ask: Ask, values_per_token: int) -> Case:
    """Return a case in which every token of the context leaves as many values."""
    return Case(config, ask, values_per_token * ask.context_len)


def a_shape(rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Return (n_layers, n_heads, n_kv_heads, head_dim) with grouped heads and a plain width."""
    n_kv_heads = int(rng.choice([2, 4, 8, 16]))
    return (
        int(rng.integers(12, 90)),
        n_kv_heads * int(rng.choice([2, 4, 8])),
        n_kv_heads,
        int(rng.choice([64, 96, 128])),
    )


def llama(n_layers: int, n_heads: int, n_kv_heads: int, width: int) -> Config:
    """Return a config file in the spelling that most families share."""
    return {
        "model_type": "llama",
        "hidden_size": width,
        "num_hidden_layers": n_layers,
        "num_attention_heads": n_heads,
        "num_key_value_heads": n_kv_heads,
        "intermediate_size": 4 * width,
        "max_position_embeddings": 131_072,  # not a window: the caches below are sized by context
        "rope_theta": 500_000.0,
        "vocab_size": 128_256,
        "torch_dtype": "bfloat16",
    }


def inside(config: Config) -> Config:
    """Return a multimodal config file around that of its language model."""
    vision = {"model_type": "clip_vision_model", "num_hidden_layers": 24, "hidden_size": 1_024}
    vision["num_attention_heads"] = 16
    return {"model_type": "llava", "text_config": config, "vision_config": vision}
