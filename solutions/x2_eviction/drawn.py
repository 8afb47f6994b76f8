"""Draws the figures of lab x2's closing question, `reach`."""

from __future__ import annotations

import numpy as np

from solutions.understanding import DrawnByKey

N_DRAWN = 8
IN_THE_NOTEBOOK = (32, 4_096, 1_000_000)  # 131,041 tokens


def draw(rng: np.random.Generator) -> DrawnByKey:
    """Return the questions and answers of `reach`, the notebook's own first."""
    cases = [IN_THE_NOTEBOOK, (4, 64, 100)]  # the second text is shorter than the reach
    for _ in range(N_DRAWN):
        n_layers, budget = int(rng.integers(2, 81)), int(rng.integers(8, 5_000))
        # a text well below the reach or well above it
        share = rng.uniform(0.2, 0.8) if rng.random() < 0.4 else rng.uniform(1.5, 4)
        cases.append((n_layers, budget, int(n_layers * budget * share)))
    return {
        "reach": [
            (
                {"n_layers": n_layers, "budget": budget, "n_tokens": n_tokens},
                _reach(n_layers, budget, n_tokens),
            )
            for n_layers, budget, n_tokens in cases
        ]
    }


def _reach(n_layers: int, budget: int, n_tokens: int) -> int:
    """Follow the oldest token that is seen, one layer down at a time."""
    oldest = n_tokens - 1
    for _ in range(n_layers):
        oldest = max(0, oldest - (budget - 1))
    return n_tokens - oldest
