"""Draws the figures of lab x1's closing question, `scaled_change`."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from solutions.understanding import DrawnByKey

N_DRAWN = 8
IN_THE_NOTEBOOK = (0.005, 4, (3, 8))  # 0.5 %: 2.7 % at 3 bits, some 15 millionths at 8


def draw(rng: np.random.Generator) -> DrawnByKey:
    """Return the questions and answers of `scaled_change`, the notebook's own first."""
    change, bits, others = IN_THE_NOTEBOOK
    cases = [(change, bits, other) for other in others]
    for _ in range(N_DRAWN):
        one, other = (int(number) for number in rng.choice(np.arange(3, 9), 2, replace=False))
        cases.append((round(float(rng.uniform(1e-4, 9e-3)), 5), one, other))
    return {
        "scaled_change": [
            ({"change": change, "bits": bits, "new_bits": new_bits}, _at(change, bits, new_bits))
            for change, bits, new_bits in cases
        ]
    }


def _at(change: float, bits: int, new_bits: int) -> float:
    """Return the change at other bits: it grows with the square of a step."""
    longer = Fraction(len(range(1, 2 ** (bits - 1))), len(range(1, 2 ** (new_bits - 1))))
    return float(Fraction(change) * longer**2)
