"""Draws the figures of lab x3's closing question, `cache_cut`."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from solutions.understanding import DrawnByKey

N_DRAWN = 8
V2, OLD_67B = 60 * 576, 95 * 2 * 8 * 128
IN_THE_NOTEBOOK = ((V2, 16, OLD_67B, 16), (V2, 6, OLD_67B, 16))  # 82.2 % and 93.3 %


def draw(rng: np.random.Generator) -> DrawnByKey:
    """Return the questions and answers of `cache_cut`, the notebook's own two first."""
    cases = list(IN_THE_NOTEBOOK)
    while len(cases) < N_DRAWN + len(IN_THE_NOTEBOOK):
        old_bits = int(rng.choice([8, 16]))
        case = (
            int(rng.integers(10, 80)) * int(rng.integers(300, 700)),
            int(rng.choice([4, 6, 8, 16])),
            int(rng.integers(20, 100)) * 2 * int(rng.choice([8, 16, 32])) * 128,
            old_bits,
        )
        if case[0] * case[1] < case[2] * old_bits / 2:  # the new one saves more than half
            cases.append(case)
    names = ("values_per_token", "bits", "old_values_per_token", "old_bits")
    return {
        "cache_cut": [
            (
                dict(zip(names, case, strict=True)),
                float(1 - Fraction(case[0] * case[1], case[2] * case[3])),
            )
            for case in cases
        ]
    }
