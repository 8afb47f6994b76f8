"""Draws the figures of lab x4's closing question, `usd_per_million_served`."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from solutions.understanding import DrawnByKey

N_DRAWN = 8
IN_THE_NOTEBOOK = ("3", 320, "32", "0.4")  # 10,000 tokens a second for 40 % of the time: 0.2083


def draw(rng: np.random.Generator) -> DrawnByKey:
    """Return the questions and answers of `usd_per_million_served`, the notebook's own first."""
    cases = [IN_THE_NOTEBOOK] + [
        (
            f"{rng.uniform(0.5, 8):.2f}",
            int(rng.integers(1, 500)),
            f"{rng.uniform(4, 90):.2f}",
            f"{rng.uniform(0.1, 0.95):.2f}",
        )
        for _ in range(N_DRAWN)
    ]
    return {
        "usd_per_million_served": [
            (
                {
                    "usd_per_hour": float(usd),
                    "batch_size": batch,
                    "step_ms": float(step_ms),
                    "busy_share": float(busy),
                },
                float(
                    Fraction(usd) * 10**6 * Fraction(step_ms) / (3_600_000 * batch * Fraction(busy))
                ),
            )
            for usd, batch, step_ms, busy in cases
        ]
    }
