"""Latent attention written for truth: every head's key in full, turned as complex numbers.

It follows the paper's equations (DeepSeek-V2, arXiv:2405.04434, section 2.1): each head's key is
its part from the latent and the shared turned part, side by side, and so is its query. Nothing is
absorbed, and no head is looped over; the lesson's functions split scores in two and loop over
heads, so the two share no line to be wrong in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Layer = dict[str, Any]
"""Sizes `n_heads, nope_dim, rope_dim, v_dim, latent_dim` and the weights; not all have a `w_dq`."""
Params = dict[str, Any]
"""`embedding`, `layers` and `unembedding`."""

EPSILON = 1e-6  # of the norm; part of the model
BASE = 10_000.0


@dataclass(frozen=True)
class Kept:
    """What a layer keeps of its tokens: latents (n, latent_dim), turned keys (n, rope_dim)."""

    latents: np.ndarray
    keys: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """Both side by side, as the cache of the lab holds them."""
        return np.concatenate([self.latents, self.keys], axis=1)


def turned(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return vectors (n, ..., dim) turned to n positions: number i and i + half are one complex."""
    half = x.shape[-1] // 2
    z = x[..., :half] + 1j * x[..., half:]
    angle = np.multiply.outer(
        np.asarray(at, dtype=float), BASE ** (-2 * np.arange(half) / x.shape[-1])
    )
    z = np.einsum("n...i,ni->n...i", z, np.exp(1j * angle))
    return np.concatenate([z.real, z.imag], axis=-1)


def kept_of(layer: Layer, h: np.ndarray, at: np.ndarray) -> Kept:
    """Return what a layer keeps of inputs h (n, d) at n positions."""
    return Kept(
        np.einsum("nd,dc->nc", h, layer["w_dkv"]),
        turned(np.einsum("nd,dr->nr", h, layer["w_kr"]), at),
    )


def attended(layer: Layer, h: np.ndarray, at: np.ndarray, kept: Kept) -> np.ndarray:
    """Return the outputs (n, d) for inputs at positions `at`, over what is kept of positions 0 on.

    A query sees the kept tokens up to its own position.
    """
    heads = layer["n_heads"]
    source = np.einsum("nd,dq->nq", h, layer["w_dq"]) if "w_dq" in layer else h
    queries = np.concatenate(
        [
            np.einsum("nq,qhc->nhc", source, _by_head(layer["w_uq"], heads)),
            turned(np.einsum("nq,qhc->nhc", source, _by_head(layer["w_qr"], heads)), at),
        ],
        axis=-1,
    )
    shared = np.repeat(kept.keys[:, None], heads, axis=1)
    keys = np.concatenate(
        [np.einsum("sl,lhc->shc", kept.latents, _by_head(layer["w_uk"], heads)), shared], axis=-1
    )
    values = np.einsum("sl,lhv->shv", kept.latents, _by_head(layer["w_uv"], heads))
    scores = np.einsum("nhc,shc->hns", queries, keys) * keys.shape[-1] ** -0.5
    seen = np.arange(len(keys)) <= np.asarray(at)[:, None]
    odds = np.where(
        seen, np.exp(scores - np.where(seen, scores, -np.inf).max(-1, keepdims=True)), 0
    )
    weights = odds / odds.sum(-1, keepdims=True)
    out: np.ndarray = np.einsum(
        "hns,shv,hvd->nd", weights, values, _rows_by_head(layer["w_o"], heads)
    )
    return out


def whole(params: Params, tokens: Sequence[int]) -> np.ndarray:
    """Return the logits (n, vocab) of a sequence, all tokens at once."""
    at = np.arange(len(tokens))
    x = params["embedding"][list(tokens)]
    for layer in params["layers"]:
        h = _normed(x)
        x = x + attended(layer, h, at, kept_of(layer, h, at))
    logits: np.ndarray = np.einsum("nd,dv->nv", _normed(x), params["unembedding"])
    return logits


def chain(steps: Sequence[tuple[Params, int]]) -> np.ndarray:
    """Return the logits of tokens decoded in order, each with parameters of its own.

    Of old tokens the latents and turned keys stay; heads are made of them by the step's weights.
    """
    past: list[Kept] = []
    rows = []
    for t, (params, token) in enumerate(steps):
        at = np.array([t])
        x = params["embedding"][[token]]
        for i, layer in enumerate(params["layers"]):
            h = _normed(x)
            new = kept_of(layer, h, at)
            if t == 0:
                past.append(new)
            else:
                past[i] = Kept(
                    np.concatenate([past[i].latents, new.latents]),
                    np.concatenate([past[i].keys, new.keys]),
                )
            x = x + attended(layer, h, at, past[i])
        rows.append(np.einsum("nd,dv->nv", _normed(x), params["unembedding"])[0])
    return np.array(rows)


def between(layer: Layer, head: int, distance: int) -> np.ndarray:
    """Return the matrix between a query's source and a latent, were the head's keys turned.

    Entry (i, j) is the score of unit vectors i and j, the query `distance` after the key.
    """
    w_uq, w_uk = (_by_head(layer[w], layer["n_heads"])[:, head] for w in ("w_uq", "w_uk"))
    queries = turned(w_uq, np.full(len(w_uq), distance + 3))
    keys = turned(w_uk, np.full(len(w_uk), 3))  # any position will do
    matrix: np.ndarray = np.einsum("qc,lc->ql", queries, keys)
    return matrix


def _by_head(w: np.ndarray, heads: int) -> np.ndarray:
    return w.reshape(w.shape[0], heads, -1)


def _rows_by_head(w: np.ndarray, heads: int) -> np.ndarray:
    return w.reshape(heads, -1, w.shape[1])


def _normed(x: np.ndarray) -> np.ndarray:
    mean_square = np.einsum("nd,nd->n", x, x) / x.shape[1]
    scaled: np.ndarray = x * (mean_square + EPSILON)[:, None] ** -0.5
    return scaled
