"""Measure what the model card says: `python -m solutions.small_lm.measure`.

Perplexities are of whole held-out pieces, each opened by the start token, over all of their tokens.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from solutions.small_lm.inference import FOLDER, load_lm, logits_of, losses

PASSAGE = 32  # random tokens, said twice
DISTANCES = (64, 128, 256, 384)  # tokens from a passage's first token to its second coming
Model = dict[str, Any]


def held_out() -> np.ndarray:
    """Return the held-out pieces with the start token before each: (64, 513) tokens."""
    with np.load(FOLDER / "held_out.npz") as stored:
        pieces = stored["tokens"].astype(np.int64)
    return np.insert(pieces, 0, 0, axis=1)


def piece_losses(lm: Model, pieces: np.ndarray) -> np.ndarray:
    """Return the loss in nats of each token of each piece but its first: (pieces, length - 1)."""
    return np.stack([losses(logits_of(lm, piece), piece) for piece in pieces])


def copied_losses(lm: Model, distance: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the mean loss of a random passage and of its second coming, in held-out text.

    The first tokens of each are left out: nobody can know that a passage begins, or begins again.
    """
    piece = held_out()[rng.integers(64)][: distance + 2 * PASSAGE]
    first, again = 8, 8 + distance
    piece[first : first + PASSAGE] = piece[again : again + PASSAGE] = rng.integers(
        1, lm["vocab"], PASSAGE
    )
    found = losses(logits_of(lm, piece), piece)  # found[i] is the loss of token i + 1
    told = [float(found[start + 3 : start + PASSAGE - 1].mean()) for start in (first, again)]
    return told[0], told[1]


def main() -> None:
    """Print the card's figures."""
    lm = load_lm(FOLDER)
    pieces = held_out()
    found = piece_losses(lm, pieces)
    vocabulary = json.loads((FOLDER / "vocabulary.json").read_text(encoding="utf-8"))
    size = sum(len(vocabulary[token].encode()) for token in pieces[:, 1:].ravel())
    print(f"held-out perplexity a token: {np.exp(found.mean()):.2f}")
    print(f"bits a byte: {found.sum() / np.log(2) / size:.3f} ({size:,} bytes)")
    for low, high in ((0, 16), (16, 64), (64, 128), (128, 256), (256, 512)):
        print(f"perplexity of tokens {low} to {high - 1}: {np.exp(found[:, low:high].mean()):.2f}")
    rng = np.random.default_rng(0)
    for distance in DISTANCES:
        drawn = np.array([copied_losses(lm, distance, rng) for _ in range(16)])
        first, again = np.exp(drawn.mean(axis=0))
        print(f"a random passage again after {distance}: perplexity {first:,.0f}, then {again:.1f}")


if __name__ == "__main__":
    main()
