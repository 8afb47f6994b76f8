"""Draws the figures of milestone 4's closing question, `prefill_tokens`."""

from __future__ import annotations

import numpy as np

from solutions.understanding import DrawnByKey

N_DRAWN = 8
IN_THE_NOTEBOOK = (50, 2_000, 300)  # 17,000 tokens with a prefix cache, 115,000 without


def draw(rng: np.random.Generator) -> DrawnByKey:
    """Return the questions and answers of `prefill_tokens`, the notebook's own first."""
    # Two or more requests: a single one shares its prefix with nobody.
    cases = [IN_THE_NOTEBOOK] + [
        (int(rng.integers(2, 200)), int(rng.integers(100, 20_000)), int(rng.integers(10, 3_000)))
        for _ in range(N_DRAWN)
    ]
    return {
        "prefill_tokens": [
            (
                {
                    "n_requests": n_requests,
                    "shared_tokens": shared,
                    "own_tokens": own,
                    "prefix_cached": prefix_cached,
                },
                (1 if prefix_cached else n_requests) * shared + n_requests * own,
            )
            for n_requests, shared, own in cases
            for prefix_cached in (True, False)
        ]
    }
