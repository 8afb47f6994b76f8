"""A decoder with a bounded cache, written for truth: whole sequences, one layer at a time.

The lesson feeds tokens one by one through all layers and cuts arrays down to the entries it keeps.
Here a layer sees every token before the next layer sees any, nothing is ever cut, and what counts
is a table of which entries are alive for which query. An eviction names the one victim, never the
kept. Pairs of channels are complex numbers, so that RoPE is one rotation by the distance between
query and key. The two share no line to be wrong in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

LM = dict[str, Any]
"""`n_heads, n_kv_heads, head_dim, embedding, layers, unembedding`, as in `inference.load_lm`."""

EPSILON = 1e-6  # of the norm; part of the model
ROPE_BASE = 10_000.0  # part of the model
N_SINKS = 4  # of the policy "sinks", as the notebook sets it


@dataclass(frozen=True)
class Decoded:
    """Logits (tokens, vocab), and how far the least clear choice of a victim was from a tie.

    `alive` are, of each layer, the entries that each query saw: (KV heads, queries, keys).
    """

    logits: np.ndarray
    clearest: float
    alive: tuple[np.ndarray, ...]


def decoded(
    lm: LM,
    tokens: Sequence[int],
    budget: int,
    policy: str,
    within_cache: bool = False,
    *,
    own_counts: bool = True,
) -> Decoded:
    """Return the logits of tokens decoded through a cache of at most `budget` entries a layer.

    Without `own_counts` an entry's score leaves out the attention of its own query. That is wrong,
    and for a draw to see that its questions tell the two apart.
    """
    x = lm["embedding"][list(tokens)]
    clearest, alive = np.inf, []
    for layer in lm["layers"]:
        y = _normed(x)
        q, k = (_pairs(lm, y @ layer[w]) for w in ("w_q", "w_k"))
        v = (y @ layer["w_v"]).reshape(len(tokens), lm["n_kv_heads"], -1)
        q = q.reshape(len(tokens), lm["n_kv_heads"], -1, q.shape[-1])
        cache = _Cache(q, k, budget, policy, within_cache, own_counts)
        weights = np.stack([cache.step(t) for t in range(len(tokens))], axis=2)
        clearest = min(clearest, cache.clearest)
        alive.append(weights.max(axis=1) > 0)
        mixed = np.einsum("kgts,skc->tkgc", weights, v).reshape(len(tokens), -1)
        x = x + mixed @ layer["w_o"]
        y = _normed(x)
        gate = y @ layer["w_gate"]
        x = x + ((y @ layer["w_up"]) * gate * 0.5 * (1 + np.tanh(gate / 2))) @ layer["w_down"]
    return Decoded(_normed(x) @ lm["unembedding"], clearest, tuple(alive))


class _Cache:
    """Which entries of one layer are alive, for each KV head, and what attention they got."""

    def __init__(
        self,
        q: np.ndarray,
        k: np.ndarray,
        budget: int,
        policy: str,
        within_cache: bool,
        own_counts: bool,
    ) -> None:
        """`q` is (tokens, KV heads, group, pairs) and `k` (tokens, KV heads, pairs), complex."""
        n, n_kv = k.shape[:2]
        self._q, self._k = q, k
        self._budget, self._policy, self._within_cache = budget, policy, within_cache
        self._own_counts = own_counts
        self._alive = np.zeros((n_kv, n), dtype=bool)
        self._got = np.zeros((n_kv, n))
        self.clearest = np.inf

    def step(self, t: int) -> np.ndarray:
        """Let token t in, and return its attention weights (KV heads, group, all tokens)."""
        for head in range(len(self._alive)):
            if self._alive[head].sum() == self._budget:
                self._alive[head, self._victim(head)] = False
        self._alive[:, t] = True
        n = self._alive.shape[1]
        after = (
            self._alive[:, ::-1].cumsum(axis=1)[:, ::-1] - 1
        )  # alive entries at or after, less t
        apart = after if self._within_cache else np.tile(t - np.arange(n), (len(self._alive), 1))
        pairs = self._k.shape[-1]
        turn = np.exp(1j * apart[..., None] * ROPE_BASE ** (-np.arange(pairs) / pairs))
        dots = np.einsum("kgc,skc,ksc->kgs", self._q[t], self._k.conj(), turn).real
        scores = np.where(self._alive[:, None], dots / np.sqrt(2 * pairs), -np.inf)
        odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights: np.ndarray = odds / odds.sum(axis=-1, keepdims=True)
        self._got += weights.sum(axis=1)
        if not self._own_counts:
            self._got[:, t] = 0.0
        return weights

    def _victim(self, head: int) -> int:
        """Return the entry that a full cache drops, before the next token comes in."""
        alive = np.flatnonzero(self._alive[head])  # oldest first
        if self._policy == "window":
            return int(alive[0])
        if self._policy == "sinks":
            return int(alive[N_SINKS])
        n_recent = (self._budget - 1) - (self._budget - 1) // 2
        older = alive[: len(alive) - n_recent]
        got = self._got[head, older]
        least, next_least = np.sort(got)[:2]
        self.clearest = min(self.clearest, float(next_least - least))
        return int(older[got.argmin()])


def attention(
    q: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    positions: np.ndarray,
    within_cache: bool,
) -> np.ndarray:
    """Return what each query head mixes, (query heads, head_dim), one head and key at a time."""
    n_kv, n, size = keys.shape
    mixed = np.zeros_like(q)
    for head in range(len(q)):
        shared = head // (len(q) // n_kv)
        own = _complex(q[head])
        scores = np.empty(n)
        for j in range(n):
            apart = n - 1 - j if within_cache else positions[shared, -1] - positions[shared, j]
            pairs = np.arange(size // 2)
            turn = np.exp(1j * apart * ROPE_BASE ** (-2 * pairs / size))
            scores[j] = (own * _complex(keys[shared, j]).conj() * turn).sum().real / np.sqrt(size)
        odds = np.exp(scores - scores.max())
        mixed[head] = odds @ values[shared] / odds.sum()
    return mixed


def _complex(x: np.ndarray) -> np.ndarray:
    half = x.shape[-1] // 2
    return np.asarray(x[..., :half] + 1j * x[..., half:])


def _pairs(lm: LM, x: np.ndarray) -> np.ndarray:
    return _complex(x.reshape(len(x), -1, lm["head_dim"]))


def _normed(x: np.ndarray) -> np.ndarray:
    mean_square = np.einsum("td,td->t", x, x) / x.shape[1]
    return np.asarray(x * (mean_square + EPSILON)[:, None] ** -0.5)
