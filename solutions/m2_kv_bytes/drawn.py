"""Draws the figures of milestone 2's closing question, `cache_gb`."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from solutions.understanding import DrawnByKey
from solutions.world.shapes import read_catalog

N_DRAWN = 9
# A hundred chats with Llama-3-8B are 52.4 GB; a conversation with Llama-3-70B is 42.9 GB.
IN_THE_NOTEBOOK = (32, 8, 128, 16, 4_000, 100)
LLAMA_70B = (80, 8, 128, 16, 131_072, 1)


def draw(rng: np.random.Generator) -> DrawnByKey:
    """Return the questions and answers of `cache_gb`, the notebook's own first."""
    cases = [IN_THE_NOTEBOOK, LLAMA_70B]
    catalog = read_catalog()
    for number in range(N_DRAWN):
        model = catalog.iloc[int(rng.integers(len(catalog)))]
        layers, kv_heads, head_dim = (
            int(model[key]) for key in ("n_layers", "n_kv_heads", "head_dim")
        )
        tokens, requests = int(rng.integers(500, 131_073)), int(rng.integers(2, 129))
        cases.append((layers, kv_heads, head_dim, (16, 8)[number % 2], tokens, requests))
    return {
        "cache_gb": [
            (
                {
                    "n_layers": layers,
                    "n_kv_heads": kv_heads,
                    "head_dim": head_dim,
                    "kv_bits": kv_bits,
                    "context_len": tokens,
                    "n_requests": requests,
                },
                float(Fraction(2 * layers * kv_heads * head_dim * kv_bits * tokens * requests, 8))
                / 1e9,
            )
            for layers, kv_heads, head_dim, kv_bits, tokens, requests in cases
        ]
    }
