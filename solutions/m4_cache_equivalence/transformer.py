"""The toy transformer of milestone 4, written for truth: whole tensors, one stretch at a time.

A *stretch* is a run of tokens decoded with the same parameters. Its queries see the keys and
values that earlier stretches left behind and those of its own tokens up to their own. One stretch
is the uncached model; a change of parameters between two steps is two stretches. The lesson's
functions loop over heads and steps; nothing here does, so the two share no line to be wrong in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Params = dict[str, Any]
"""`n_heads, n_kv_heads, head_dim`, the weight arrays, and `layers`, a list of dicts of arrays."""
Past = list[tuple[np.ndarray, np.ndarray]]
"""Keys and values of each layer, each (tokens so far, KV heads, head_dim)."""

EPSILON = 1e-6  # of the norm; part of the model


def stretch(params: Params, tokens: Sequence[int], past: Past | None = None) -> Any:
    """Return the logits (len(tokens), vocab) of the next tokens, and the past that they leave."""
    before = len(past[0][0]) if past else 0
    at = before + np.arange(len(tokens))
    x = params["embedding"][list(tokens)] + params["position"][at]
    left: Past = []
    for i, layer in enumerate(params["layers"]):
        h = _normed(x)
        k, v = (np.einsum("td,dkc->tkc", h, _kv_weight(params, layer[w])) for w in ("w_k", "w_v"))
        if past:
            k, v = (np.concatenate(pair) for pair in zip(past[i], (k, v), strict=True))
        left.append((k, v))
        weights = _softmax(_scores(params, layer, h, k, at))
        x = x + np.einsum("kgts,skc,kgcd->td", weights, v, _out_weight(params, layer["w_o"]))
        up = np.einsum("td,df->tf", _normed(x), layer["w_up"])
        x = x + np.einsum("tf,fd->td", np.where(up > 0, up, 0.0), layer["w_down"])
    return np.einsum("td,dv->tv", _normed(x), params["unembedding"]), left


def first_scores(params: Params, tokens: Sequence[int]) -> np.ndarray:
    """Return the scores of the first layer, (heads, tokens, tokens); what is masked is -inf."""
    at = np.arange(len(tokens))
    h = _normed(params["embedding"][list(tokens)] + params["position"][at])
    layer = params["layers"][0]
    k = np.einsum("td,dkc->tkc", h, _kv_weight(params, layer["w_k"]))
    scores = _scores(params, layer, h, k, at)
    return scores.reshape(params["n_heads"], *scores.shape[2:])


def chain(steps: Sequence[tuple[Params, int]]) -> np.ndarray:
    """Return the logits of tokens decoded in order, each with its own parameters."""
    rows: list[np.ndarray] = []
    past: Past | None = None
    start = 0
    for end in range(1, len(steps) + 1):
        params = steps[start][0]
        if end < len(steps) and steps[end][0] is params:
            continue
        logits, past = stretch(params, [token for _, token in steps[start:end]], past)
        rows.append(logits)
        start = end
    return np.concatenate(rows)


def _normed(x: np.ndarray) -> np.ndarray:
    mean_square = np.einsum("td,td->t", x, x) / x.shape[1]
    scaled: np.ndarray = x * (mean_square + EPSILON)[:, None] ** -0.5
    return scaled


def _kv_weight(params: Params, w: np.ndarray) -> np.ndarray:
    return w.reshape(-1, params["n_kv_heads"], params["head_dim"])


def _out_weight(params: Params, w: np.ndarray) -> np.ndarray:
    return w.reshape(params["n_kv_heads"], -1, params["head_dim"], w.shape[1])


def _scores(
    params: Params, layer: dict[str, np.ndarray], h: np.ndarray, k: np.ndarray, at: np.ndarray
) -> np.ndarray:
    """Return (KV heads, query heads of each, queries, keys); a key after its query gets -inf."""
    n_kv_heads, head_dim = params["n_kv_heads"], params["head_dim"]
    # Query head h uses KV head h // group: the heads of one KV head lie side by side.
    w_q = layer["w_q"].reshape(h.shape[1], n_kv_heads, -1, head_dim)
    q = np.einsum("td,dkgc->tkgc", h, w_q)
    scores = np.einsum("tkgc,skc->kgts", q, k) * head_dim**-0.5
    return np.where(np.arange(len(k)) <= at[:, None], scores, -np.inf)


def _softmax(scores: np.ndarray) -> np.ndarray:
    odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
    share: np.ndarray = odds / odds.sum(axis=-1, keepdims=True)
    return share
