"""Draws the figures of milestone 7's closing question, `usd_per_million`."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from solutions.understanding import DrawnByKey

N_DRAWN = 8
IN_THE_NOTEBOOK = ("3.6", 61, "35")  # 6.27e6 tokens an hour: 0.574 USD


def draw(rng: np.random.Generator) -> DrawnByKey:
    """Return the questions and answers of `usd_per_million`, the notebook's own first."""
    # Two or more requests: for a single one, forgetting the others would go unseen.
    cases = [IN_THE_NOTEBOOK] + [
        (f"{rng.uniform(1, 8):.2f}", int(rng.integers(2, 257)), f"{rng.uniform(5, 120):.1f}")
        for _ in range(N_DRAWN)
    ]
    return {
        "usd_per_million": [
            (
                {
                    "usd_per_hour": float(usd),
                    "requests_per_gpu": requests,
                    "decode_step_ms": float(step_ms),
                },
                # a step makes `requests` tokens, and an hour has 3.6e6 / step_ms steps
                float(Fraction(usd) * 10**6 / (requests * 3_600_000 / Fraction(step_ms))),
            )
            for usd, requests, step_ms in cases
        ]
    }
