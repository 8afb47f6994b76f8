"""Draws the figures of milestone 5's closing question, `ridge_batch`."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from solutions.understanding import DrawnByKey

N_DRAWN = 9
IN_THE_NOTEBOOK = (16, 3_350, 989)  # 989e12 / 3,350e9 operations a byte, two bytes a weight: 295


def draw(rng: np.random.Generator) -> DrawnByKey:
    """Return the questions and answers of `ridge_batch`, the notebook's own first."""
    cases = [IN_THE_NOTEBOOK] + [
        ((16, 8, 4)[i % 3], int(rng.integers(300, 10_000)), int(rng.integers(50, 3_000)))
        for i in range(N_DRAWN)
    ]
    return {
        "ridge_batch": [
            (
                {
                    "weight_bits": weight_bits,
                    "gpu_bandwidth_gbps": float(gbps),
                    "gpu_tflops": float(tflops),
                },
                # batch * 2 / (tflops * 1e12) = weight_bits / 8 / (gbps * 1e9)
                float(Fraction(weight_bits, 16) * tflops * 1000 / gbps),
            )
            for weight_bits, gbps, tflops in cases
        ]
    }
