"""The small language model in NumPy: what the labs' notebooks are given, and their oracles use.

The text between the two marks stands in the labs' lessons too (a notebook stands alone); a test
keeps them equal.
"""

# mypy: disable-error-code="type-arg, no-any-return"
# A notebook's text: students read plain types.

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "data" / "small_lm"

# ---------------------------------------------------------------- given to students from here


def load_lm(folder: Path) -> dict:
    """Return the small language model: its sizes, and its weights as float32 arrays."""
    lm = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    with np.load(folder / "weights.npz") as stored:
        weights = {name: stored[name].astype(np.float32) for name in stored.files}
    lm["embedding"], lm["unembedding"] = weights["embedding"], weights["unembedding"]
    names = ("w_q", "w_k", "w_v", "w_o", "w_gate", "w_up", "w_down")
    lm["layers"] = [
        {name: weights[f"layers.{i}.{name}"] for name in names} for i in range(lm["n_layers"])
    ]
    return lm


def norm(x: np.ndarray) -> np.ndarray:
    """Scale each vector (the last axis) to a mean square of 1."""
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-6)


def rotate(x: np.ndarray, positions: np.ndarray, base: float = 10_000.0) -> np.ndarray:
    """Turn the heads of x, of shape (n, heads, head_dim), to their n positions (RoPE)."""
    half = x.shape[-1] // 2
    angles = np.asarray(positions)[:, None, None] * base ** (-np.arange(half) / half)
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return np.concatenate((first * cos - second * sin, second * cos + first * sin), axis=-1)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Return the softmax over the last axis; a score may be -inf."""
    shifted = scores - np.max(scores, axis=-1, keepdims=True)
    exponentials = np.exp(shifted)
    return exponentials / np.sum(exponentials, axis=-1, keepdims=True)


def logits_of(
    lm: dict,
    tokens: np.ndarray,
    on_keys: Callable | None = None,
    on_values: Callable | None = None,
    on_weights: Callable | None = None,
) -> np.ndarray:
    """Return the logits (T, vocab) after each of T tokens, all in one pass.

    Args:
        lm: the model.
        tokens: T token numbers; the first should be 0, the start token.
        on_keys: is given the number of a layer and its keys (T, n_kv_heads, head_dim) as a cache
            would hold them, turned to their positions; attention sees what it returns.
        on_values: the same for values.
        on_weights: is given the number of a layer and its attention weights (n_heads, T, T).
    """
    n, group = len(tokens), lm["n_heads"] // lm["n_kv_heads"]
    positions = np.arange(n)
    future = np.triu(np.ones((n, n), dtype=bool), k=1)
    x = lm["embedding"][tokens]
    for i, layer in enumerate(lm["layers"]):
        y = norm(x)
        q = rotate((y @ layer["w_q"]).reshape(n, -1, lm["head_dim"]), positions)
        k = rotate((y @ layer["w_k"]).reshape(n, -1, lm["head_dim"]), positions)
        v = (y @ layer["w_v"]).reshape(n, -1, lm["head_dim"])
        k = k if on_keys is None else on_keys(i, k)
        v = v if on_values is None else on_values(i, v)
        k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        scores = q.transpose(1, 0, 2) @ k.transpose(1, 2, 0) / np.float32(np.sqrt(lm["head_dim"]))
        weights = softmax(np.where(future, np.float32(-np.inf), scores))
        if on_weights is not None:
            on_weights(i, weights)
        mixed = (weights @ v.transpose(1, 0, 2)).transpose(1, 0, 2).reshape(n, -1)
        x = x + mixed @ layer["w_o"]
        y = norm(x)
        gate = y @ layer["w_gate"]
        x = x + (gate / (1 + np.exp(-gate)) * (y @ layer["w_up"])) @ layer["w_down"]
    return norm(x) @ lm["unembedding"]


def losses(logits: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Return how surprising each next token was, in nats: T - 1 numbers for T tokens."""
    scores = logits[:-1].astype(np.float64)
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return np.log(np.exp(shifted).sum(axis=-1)) - shifted[np.arange(len(tokens) - 1), tokens[1:]]


# ---------------------------------------------------------------- to here
