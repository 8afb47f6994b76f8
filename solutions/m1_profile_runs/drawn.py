"""Draws the figures of milestone 1's closing question, `throughput`."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from solutions.understanding import DrawnByKey

N_DRAWN = 8
IN_THE_NOTEBOOK = (64, "25")


def draw(rng: np.random.Generator) -> DrawnByKey:
    """Return the questions and answers of `throughput`, the notebook's own first."""
    cases = [IN_THE_NOTEBOOK]
    for _ in range(N_DRAWN):
        # Two or more requests: for a single one, forgetting the batch would go unseen.
        cases.append((int(rng.integers(2, 513)), f"{rng.uniform(3, 200):.2f}"))
    return {
        "throughput": [
            (
                {"batch_size": batch_size, "decode_step_ms": float(step_ms)},
                float(1000 * batch_size / Fraction(step_ms)),
            )
            for batch_size, step_ms in cases
        ]
    }
