"""Draws the figures of milestone 6's closing question, `batch_of_equal_traffic`."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from solutions.understanding import Drawn, DrawnByKey
from solutions.world.shapes import read_catalog

N_DRAWN = 9
LLAMA_8B = {"n_layers": 32, "n_kv_heads": 8, "head_dim": 128}


def draw(rng: np.random.Generator) -> DrawnByKey:
    """Return the questions and answers of `batch_of_equal_traffic`, the notebook's own first."""
    cases = [_case("8.03", LLAMA_8B, 16, 16, 8_192)]  # 16.06 GB over 1.074 GB: 15.0
    catalog = read_catalog()
    for number in range(N_DRAWN):
        model = catalog.iloc[int(rng.integers(len(catalog)))]
        shape = {key: int(model[key]) for key in LLAMA_8B}
        bits = (16, 8, 4)[number % 3], (16, 8)[number % 2]
        cases.append(_case(str(model["params_b"]), shape, *bits, int(rng.integers(500, 131_073))))
    return {"batch_of_equal_traffic": cases}


def _case(
    params_b: str, shape: dict[str, int], weight_bits: int, kv_bits: int, context_len: int
) -> Drawn:
    args = {
        "params_b": float(params_b),
        "weight_bits": weight_bits,
        **shape,
        "kv_bits": kv_bits,
        "context_len": context_len,
    }
    weights = Fraction(params_b) * 10**9 * weight_bits / 8
    numbers = 2 * shape["n_layers"] * shape["n_kv_heads"] * shape["head_dim"] * context_len
    return args, float(weights / Fraction(numbers * kv_bits, 8))
