# %% [markdown]
# # Lab x2: what to forget
#
# The KV cache grows by one entry a token, and memory does not. A server that has run out of it can
# refuse, wait, or **forget**: drop some entries and decode on with the rest. This lab builds the
# three best known ways to choose what goes, streams text through them, and measures what each
# costs: how much worse the next token is predicted, and what can no longer be recalled.
#
# **You will write** `sinks_and_recent`, `attend`, `attention_received`, `heavy_and_recent` and
# `decode`, the loop that streams a text through a cache of bounded size. At the end there are three
# questions. All points here are bonus.
#
# **Check your work** at any time: type `%load_ext grader` into a cell, once, and then `%check x2`.
# `grader check x2` in a terminal grades the saved file from a fresh start. The checks ask with small
# models drawn for them; the measurements here use a real one, if a small one.

# %% tags=["given"]
import functools
import json
import math
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

DATA = next(
    p / "data" for p in [Path.cwd(), *Path.cwd().parents] if (p / "data/train.csv").exists()
)

# %% [markdown]
# ## The model
#
# A decoder with everything that matters for a cache in today's models: RoPE, grouped KV heads,
# RMSNorm, a gated network. It was trained on the sources of Python's documentation; every sequence
# of its training began with **start token 0**, and some held passages that came twice, so that it
# can copy from far back. The next cell is given: loading, the parts of a layer, and `logits_of`, a
# pass over a whole text at once, against which everything below is measured.


# %% tags=["given"]
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


# %%
LM = load_lm(DATA / "small_lm")
with np.load(DATA / "small_lm" / "held_out.npz") as stored:
    HELD_OUT = stored["tokens"].astype(int)
WORDS = json.loads((DATA / "small_lm" / "vocabulary.json").read_text(encoding="utf-8"))


def text(number):
    """Return 512 tokens: the start token, then text that the model has never seen."""
    return np.concatenate(([LM["start_token"]], HELD_OUT[number][:-1]))


entry_bytes = 2 * LM["n_layers"] * LM["n_kv_heads"] * LM["head_dim"] * 2
print(
    f"{LM['n_layers']} layers, {LM['n_heads']} query heads on {LM['n_kv_heads']} KV heads", end=""
)
print(f" of {LM['head_dim']} numbers: {entry_bytes:,} bytes a token in 16 bits")
FULL_LOSS = np.array([losses(logits_of(LM, text(i)), text(i)) for i in range(8)])
print(f"with a full cache: loss {FULL_LOSS.mean():.3f} nats a token, ", end="")
print(f"perplexity {np.exp(FULL_LOSS.mean()):.2f}, over {FULL_LOSS.size:,} tokens")

# %% [markdown]
# Perplexity is $e$ to the mean loss: a model as unsure as one that chooses among that many tokens,
# all equally likely.
#
# ## The rules of the game
#
# Each layer may hold at most **B entries** for each KV head: B is the *budget*. A token comes, and
#
# 1. if the cache is full, it is cut down to B - 1 entries: there is **room** for B - 1;
# 2. the token's own key and value come in, last;
# 3. its query attends to the B entries (or fewer, early on) that are there now.
#
# So attention never sees more than B entries, the token's own among them. What was dropped is gone:
# no later token can bring it back. Which entries to keep is the *policy*:
#
# | policy | keeps | from |
# |---|---|---|
# | window | the newest | |
# | sinks | the first 4 of the text, and the newest | StreamingLLM (Xiao et al. 2023, arXiv:2309.17453) |
# | heavy | those that got most attention, and the newest | H2O (Zhang et al. 2023, arXiv:2306.14048) |
# | random | some by lot, and the newest | a control: is the choice worth anything? |
#
# The scripts that measured perplexity for both papers let the new token attend first and drop an entry
# afterwards, so that a token sees one entry more than the budget. Here room is made first, for all.
#
# ## By age: the first and the last
#
# With 10 entries in the cache, room for 6 and 2 sinks, entries **0, 1** stay, and the newest four:
# **6, 7, 8, 9**. Entries are named by their place in the cache, the oldest being 0. A plain window
# is the same with 0 sinks.


# %% tags=["exercise"]
def sinks_and_recent(n_entries: int, room: int, n_sinks: int) -> np.ndarray:
    """Return which entries stay: the first n_sinks, and the newest.

    Args:
        n_entries: entries in the cache, numbered from 0, the oldest.
        room: how many may stay. Where all fit, all stay.
        n_sinks: how many of the first ones stay, fewer than room; 0 for a plain window.

    Returns:
        The numbers of the entries that stay, in ascending order.
    """
    if n_entries <= room:
        return np.arange(n_entries)
    newest = np.arange(n_entries - (room - n_sinks), n_entries)
    return np.concatenate((np.arange(n_sinks), newest))


# %%
print("10 entries, room for 6, 2 sinks:", sinks_and_recent(10, 6, 2))
print("10 entries, room for 6, window: ", sinks_and_recent(10, 6, 0))

# %% [markdown]
# ## Where does an entry stand, when its neighbours are gone?
#
# RoPE turns every query and key by angles proportional to its position, so that a score depends on
# the *difference* of two positions only. Forgetting opens gaps, and there are two answers:
#
# - **in the text**: an entry keeps the position it came with. H2O does this: a key is turned once
#   and stored so (its repository has a variant that counts in the cache, for very long texts).
# - **in the cache**: entries are counted 0, 1, 2, ... as they stand in the cache now, and the query
#   has the number of the last, its own. StreamingLLM does this: keys are stored *before* they are
#   turned, and turned at each step anew. Positions then never exceed the budget, however long the
#   text is.
#
# A cache with entries from positions 0, 1, 96, 97, 98, 99:
#
# | | keys | query | distances |
# |---|---|---|---|
# | in the text | 0, 1, 96, 97, 98, 99 | 99 | 99, 98, 3, 2, 1, 0 |
# | in the cache | 0, 1, 2, 3, 4, 5 | 5 | 5, 4, 3, 2, 1, 0 |
#
# **Predict:** for which of the two does a *plain window* give other logits? Its entries 94 to 99
# have the distances 5, 4, 3, 2, 1, 0 either way: for **neither**. Only where there is a gap, and
# only across it, is there anything to choose.
#
# `attend` does one step of attention. Keys come unturned, with the positions they had in the text.
# Each KV head may hold entries of its own, so `turn`, which is given, takes a position for each
# vector: it does what `rotate` does, for arrays of any shape, and looks its angles up in a table.


# %% tags=["given"]
@functools.cache
def turns(half: int, kind: str) -> np.ndarray:
    """Return the cosines and the sines of positions 0 to 4,095, (2, 4096, half)."""
    angles = np.arange(4096)[:, None] * 10_000.0 ** (-np.arange(half) / half)
    return np.stack((np.cos(angles), np.sin(angles))).astype(kind)


def turn(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Turn vectors x, (..., head_dim), to their positions, an array that fits (...)."""
    a, b = np.split(x, 2, axis=-1)
    cos, sin = turns(a.shape[-1], x.dtype.str)[:, np.asarray(positions, dtype=int)]
    return np.concatenate((a * cos - b * sin, b * cos + a * sin), axis=-1)


# %% tags=["exercise"]
def attend(
    q: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    positions: np.ndarray,
    within_cache: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return what one token's query heads mix of the values, and their attention weights.

    Args:
        q: the query, (n_heads, head_dim), not turned yet.
        keys: the keys in the cache, (n_kv_heads, n, head_dim), not turned yet. The last one is of
            the query's own token.
        values: the values in the cache, (n_kv_heads, n, head_dim).
        positions: the entries' positions in the text, (n_kv_heads, n), ascending; whole numbers,
            as ints or as floats.
        within_cache: whether keys are turned to their places in the cache, 0 to n - 1, instead of
            those in the text. The query stands where its own key stands.

    Returns:
        The mixed values, (n_heads, head_dim), and the weights, (n_heads, n). Query head h uses KV
        head h // (n_heads / n_kv_heads); scores are divided by the root of head_dim.
    """
    n_kv_heads, n, head_dim = keys.shape
    if within_cache:
        positions = np.tile(np.arange(n), (n_kv_heads, 1))
    turned_q = turn(q.reshape(n_kv_heads, -1, head_dim), positions[:, -1:])
    turned_keys = turn(keys, positions)
    scores = turned_q @ turned_keys.transpose(0, 2, 1) / math.sqrt(head_dim)
    weights = softmax(scores)
    return (weights @ values).reshape(q.shape), weights.reshape(len(q), n)


# %%
rng = np.random.default_rng(0)
q, keys, values = (rng.normal(size=shape) for shape in ((4, 32), (2, 6, 32), (2, 6, 32)))
for name, where in (
    ("window, 94 to 99", [94, 95, 96, 97, 98, 99]),
    ("2 sinks and 96 to 99", [0, 1, 96, 97, 98, 99]),
):
    stand = np.array([where, where])
    in_text, _ = attend(q, keys, values, stand, within_cache=False)
    in_cache, _ = attend(q, keys, values, stand, within_cache=True)
    print(f"{name:21} the two differ by up to {np.abs(in_text - in_cache).max():.1e}")

# %% [markdown]
# ## By use: the heavy hitters
#
# H2O keeps the entries that earlier queries looked at most. An entry's **score** is the attention
# weight it got, added up over all the queries it has seen, its own among them, in each layer and
# head for itself. A cache entry belongs to a KV head, and with grouped heads several query heads
# read it: here **their weights are added up** (a choice: H2O was written for models where each
# query head has a KV head of its own).
#
# **Predict:** two KV heads, four query heads, three entries.
#
# | query head | KV head | weights |
# |---|---|---|
# | 0 | 0 | 0.5, 0.2, 0.3 |
# | 1 | 0 | 0.1, 0.1, 0.8 |
# | 2 | 1 | 1.0, 0.0, 0.0 |
# | 3 | 1 | 0.4, 0.4, 0.2 |
#
# KV head 0 receives 0.6, 0.3, 1.1 and KV head 1 receives 1.4, 0.4, 0.2. Each row adds up to 2, the
# size of the group.


# %% tags=["exercise"]
def attention_received(weights: np.ndarray, n_kv_heads: int) -> np.ndarray:
    """Return the attention that one query gave to each entry, as each KV head received it.

    Args:
        weights: attention weights of one token's query heads, (n_heads, n).
        n_kv_heads: the number of KV heads; query head h reads KV head h // (n_heads / n_kv_heads).

    Returns:
        Array of shape (n_kv_heads, n): sums over the query heads that share a KV head.
    """
    return weights.reshape(n_kv_heads, -1, weights.shape[-1]).sum(axis=1)


# %%
print(
    attention_received(np.array([[0.5, 0.2, 0.3], [0.1, 0.1, 0.8], [1, 0, 0], [0.4, 0.4, 0.2]]), 2)
)

# %% [markdown]
# Half of the room goes to heavy hitters, and the other half to the newest entries, which have had no
# time to be looked at: H2O, too, splits its budget between the two. Room for 5 is 2 heavy and 3
# recent.
#
# | entry | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
# |---|---|---|---|---|---|---|---|---|
# | score | 3.0 | 0.4 | 1.2 | 0.1 | 2.2 | 0.9 | 5.0 | 1.0 |
#
# **Predict:** entries 5, 6 and 7 stay because they are the newest, whatever their scores. Of 0 to 4,
# the heaviest two are 0 and 4. So **0, 4, 5, 6, 7** stay. Each KV head chooses for itself.


# %% tags=["exercise"]
def heavy_and_recent(scores: np.ndarray, room: int) -> np.ndarray:
    """Return which entries stay in each KV head: those with the highest scores, and the newest.

    Args:
        scores: the attention that each entry received so far, (n_kv_heads, n).
        room: how many may stay in each head. Where all fit, all stay. room // 2 are for heavy
            hitters, chosen among those that are not the newest; the rest are for the newest.

    Returns:
        The numbers of the entries that stay, (n_kv_heads, room), each row in ascending order.
    """
    n_kv_heads, n = scores.shape
    if n <= room:
        return np.tile(np.arange(n), (n_kv_heads, 1))
    n_heavy = room // 2
    n_older = n - (room - n_heavy)
    by_score = np.argsort(scores[:, :n_older], axis=1)
    heavy = np.sort(by_score[:, n_older - n_heavy :], axis=1)
    newest = np.tile(np.arange(n_older, n), (n_kv_heads, 1))
    return np.concatenate((heavy, newest), axis=1)


# %%
print(heavy_and_recent(np.array([[3.0, 0.4, 1.2, 0.1, 2.2, 0.9, 5.0, 1.0]]), 5))

# %% [markdown]
# All policies in one form: given the scores, (n_kv_heads, n), and the room, each says which entries
# stay, (n_kv_heads, room). The random one draws its scores by lot: whatever the heavy hitters gain
# over it, they gain by their scores.

# %% tags=["given"]
N_SINKS = 4
DICE = np.random.default_rng(0)


def by_age(scores: np.ndarray, room: int, n_sinks: int) -> np.ndarray:
    """Keep the first n_sinks entries and the newest, the same in every KV head."""
    return np.tile(sinks_and_recent(scores.shape[1], room, n_sinks), (len(scores), 1))


POLICIES = {
    "window": lambda scores, room: by_age(scores, room, 0),
    "sinks": lambda scores, room: by_age(scores, room, N_SINKS),
    "heavy": lambda scores, room: heavy_and_recent(scores, room),
    "random": lambda scores, room: heavy_and_recent(DICE.random(scores.shape), room),
}

# %% [markdown]
# ## The loop
#
# Now stream a text through all layers, one token at a time. Given are the parts of a layer around
# its attention, an empty cache for one layer, and two helpers that change it: `add` puts a token's
# entry last, with a score of 0, and `keep` drops all entries but those it is told.


# %% tags=["given"]
def project(lm: dict, layer: dict, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return one token's query, (n_heads, head_dim), key and value, (n_kv_heads, head_dim)."""
    y = norm(x)
    return tuple((y @ layer[w]).reshape(-1, lm["head_dim"]) for w in ("w_q", "w_k", "w_v"))


def finish(layer: dict, x: np.ndarray, mixed: np.ndarray) -> np.ndarray:
    """Return the token's vector after the layer, given what its query heads mixed."""
    x = x + np.ravel(mixed) @ layer["w_o"]
    y = norm(x)
    gate = y @ layer["w_gate"]
    return x + (gate / (1 + np.exp(-gate)) * (y @ layer["w_up"])) @ layer["w_down"]


def empty_cache(lm: dict) -> dict:
    """Return one layer's cache without entries: arrays whose second axis counts them."""
    heads, size, kind = lm["n_kv_heads"], lm["head_dim"], lm["embedding"].dtype
    return {
        "keys": np.zeros((heads, 0, size), kind),  # not turned
        "values": np.zeros((heads, 0, size), kind),
        "positions": np.zeros((heads, 0), int),  # in the text
        "scores": np.zeros((heads, 0)),  # attention received so far
    }


def add(cache: dict, key: np.ndarray, value: np.ndarray, position: int) -> None:
    """Put an entry last."""
    heads = len(key)
    new = {
        "keys": key,
        "values": value,
        "positions": np.full(heads, position),
        "scores": np.zeros(heads),
    }
    for name, array in cache.items():
        cache[name] = np.concatenate((array, new[name][:, None]), axis=1)


def keep(cache: dict, kept: np.ndarray) -> None:
    """Drop all entries but the kept ones, numbers of shape (n_kv_heads, room)."""
    heads = np.arange(len(kept))[:, None]
    for name, array in cache.items():
        cache[name] = array[heads, kept]


# %% tags=["exercise"]
def decode(
    lm: dict, tokens: list[int], budget: int, policy: str, within_cache: bool = False
) -> tuple[np.ndarray, list[dict]]:
    """Return the logits of a text that is streamed through a cache of bounded size.

    It calls `attend`, once for each token in each layer: later cells put another function in its
    place to see what that changes.

    Args:
        lm: the model.
        tokens: T token numbers; the first has position 0.
        budget: the most entries, its own among them, that a token's query may attend to in a layer.
        policy: a name of POLICIES, which says what stays when a full cache makes room for one more.
        within_cache: as in `attend`.

    Returns:
        The logits, (T, vocab), and the caches of all layers as they are at the end.
    """
    caches = [empty_cache(lm) for _ in lm["layers"]]
    rows = []
    for position, token in enumerate(tokens):
        x = lm["embedding"][token]
        for layer, cache in zip(lm["layers"], caches, strict=True):
            q, key, value = project(lm, layer, x)
            if cache["keys"].shape[1] == budget:
                keep(cache, POLICIES[policy](cache["scores"], budget - 1))
            add(cache, key, value, position)
            mixed, weights = attend(
                q, cache["keys"], cache["values"], cache["positions"], within_cache
            )
            cache["scores"] = cache["scores"] + attention_received(weights, lm["n_kv_heads"])
            x = finish(layer, x, mixed)
        rows.append(norm(x) @ lm["unembedding"])
    return np.array(rows), caches


# %% [markdown]
# **Predict:** with room for every token nothing is forgotten, so the logits are those of the whole
# pass. All numbers are float32, 24 bits, so that one rounding is 6e-8 of a number: through four
# layers, on logits of the order of 10, expect differences of some 1e-5 and **below 1e-3**. Then
# give it half the room: now they must differ from token 64 on, and not before.

# %%
tokens = text(0)[:128]
whole = logits_of(LM, tokens)
for budget in (128, 64):
    logits, caches = decode(LM, tokens, budget, "window")
    apart = np.abs(logits - whole).max(axis=1)
    print(f"budget {budget:3}: {caches[0]['keys'].shape[1]:3} entries at the end, ", end="")
    print(f"logits differ by up to {apart[:64].max():.0e} in the first 64 tokens", end="")
    print(f" and by {apart[64:].max():.0e} after")

# %% [markdown]
# ## How far back a window reaches
#
# Token $t$ sees the entries of the last B tokens. But each of these entries was made of a vector
# that had itself seen B tokens, one layer below. So each layer reaches B - 1 tokens further back:
# with L layers, the logits depend on $1 + L\,(B - 1)$ tokens at most. Mistral 7B was built on this
# (Jiang et al. 2023, arXiv:2310.06825): windows of 4,096 in 32 layers.
#
# **Predict** for our 4 layers and a budget of 8: 1 + 4 · 7 = **29 tokens**, the newest and 28
# before it. Change a token 28 back and the last logits move; change one 29 back and they do not
# move *at all*, to the last bit. Measure it, and see how much of the reach is worth anything. (In
# float64: what arrives from far back may be lost in the rounding of float32.)


# %%
def in_float64(part):
    """Return a model, or a part of one, with its arrays in float64."""
    if isinstance(part, dict):
        return {name: in_float64(value) for name, value in part.items()}
    if isinstance(part, list):
        return [in_float64(value) for value in part]
    return part.astype(np.float64) if isinstance(part, np.ndarray) else part


LM64 = in_float64(LM)
tokens = text(1)[:64]
BUDGET = 8
base = decode(LM64, tokens, BUDGET, "window")[0][-1]
base_full = logits_of(LM64, tokens)[-1]
back = np.array([1, 2, 4, 6, 7, 8, 10, 12, 14, 15, 18, 21, 22, 25, 27, 28, 29, 30, 33, 36])
moved, moved_full = [], []
for distance in back:
    changed = tokens.copy()
    changed[len(tokens) - 1 - distance] = 700
    moved.append(np.abs(decode(LM64, changed, BUDGET, "window")[0][-1] - base).max())
    moved_full.append(np.abs(logits_of(LM64, changed)[-1] - base_full).max())
moved = np.array(moved)

fig, ax = plt.subplots(figsize=(7, 4))
ax.plot(back, moved_full, "o-", ms=4, color="tab:gray", label="full cache")
ax.plot(
    back[moved > 0], moved[moved > 0], "o-", ms=4, color="tab:blue", label=f"window of {BUDGET}"
)
FLOOR = 1e-16
ax.plot(back[moved == 0], np.full((moved == 0).sum(), FLOOR), "x", color="tab:blue")
ax.text(back[moved == 0].max(), 4 * FLOOR, "exactly 0", color="tab:blue", ha="right")
ax.set(yscale="log", ylim=(FLOOR / 10, 1e4))
for layers in range(1, LM["n_layers"] + 1):
    reached = layers * (BUDGET - 1)
    ax.axvline(reached, color="lightgray", ls="--", lw=1, zorder=0)
    ax.text(reached - 0.2, 1e3, f"{layers} layer{'s' * (layers > 1)}", ha="right", fontsize=8)
ax.set(xlabel="how many tokens back one was changed", ylabel="largest change of a last logit")
ax.set_title("Each layer reaches one window further, ever more faintly")
ax.legend(loc="lower left")
plt.show()
print(
    "last to move the logits:", back[moved > 0].max(), "back; first to leave them alone: ", end=""
)
print(back[moved == 0].min())

# %% [markdown]
# ## Where attention goes
#
# Attention weights add up to 1. A head that finds nothing to look for in the text still has to put
# its weight somewhere. Xiao et al. (2023) found that large models put it on the first tokens,
# whatever they are, and called these **attention sinks**. Gu et al. (2024, arXiv:2410.10781) added
# that the values of such tokens are small: weight put there does next to nothing.
#
# **Predict:** if heads had no taste, a query that sees $n$ entries would put $1/n$ on the first:
# over the queries 256 to 511, 0.3 %. Ours was trained with the same start token in front of every
# text, which is an ideal sink. How much does it get?

# %%
N_TEXTS = 4
share = np.zeros((LM["n_layers"], LM["n_heads"]))
lengths = np.zeros((LM["n_layers"], 512))


def watch_weights(i, weights):
    """Add up what the late queries put on the first token."""
    share[i] += weights[:, 256:, 0].mean(axis=1) / N_TEXTS


def watch_values(i, values):
    """Add up the lengths of the value vectors."""
    lengths[i] += np.linalg.norm(values, axis=-1).mean(axis=-1) / N_TEXTS
    return values


for number in range(N_TEXTS):
    logits_of(LM, text(number), on_values=watch_values, on_weights=watch_weights)

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
for head in range(LM["n_heads"]):
    left.bar(np.arange(4) + 0.2 * head - 0.3, 100 * share[:, head], 0.18, color=f"C{head}")
even = 100 * np.mean(1 / np.arange(257, 513))
left.axhline(even, color="black", ls=":", lw=1, label="if all entries got the same")
left.legend(loc="upper right")
left.set(xlabel="layer (one bar a query head)", ylabel="attention on the first token (%)")
left.set(xticks=range(4), ylim=(0, None), title="Queries 256 to 511")
for i in range(LM["n_layers"]):
    right.plot(lengths[i, :48] / np.median(lengths[i]), label=f"layer {i}")
right.axhline(1, color="black", ls=":", lw=1)
right.set(xlabel="position", ylabel="length of the value / the median", ylim=(0, None))
right.set_title("Values of the first 48 tokens")
right.legend(loc="lower right")
fig.tight_layout()
plt.show()
for i in range(LM["n_layers"]):
    print(
        f"layer {i}: {100 * share[i].mean():5.1f} % of the attention is on the first token; ",
        end="",
    )
    print(f"its value has {lengths[i, 0] / np.median(lengths[i]):.2f} times the usual length")

# %% [markdown]
# ## What forgetting costs: perplexity against the budget
#
# Stream texts of 512 tokens through every policy and budget, each with the positions it was made
# for. **Predict**, before you look: in which order do the four curves come, and at which budget do
# they meet? All must meet the full cache at 512. (This cell decodes 30,000 tokens: it takes half a
# minute.)

# %%
BUDGETS = [16, 32, 64, 128, 256]
TEXTS = [0, 1, 2]
STYLE = {
    "window": ("tab:blue", "o", False),
    "sinks": ("tab:green", "s", True),
    "heavy": ("tab:red", "^", False),
    "random": ("tab:gray", "x", False),
}


CACHES = {}


def stream(number, budget, policy, within_cache):
    """Return the losses of one text, streamed; remember what is left in the caches."""
    tokens = text(number)
    logits, CACHES[number, budget, policy] = decode(LM, tokens, budget, policy, within_cache)
    return losses(logits, tokens)


LOSS = {
    (policy, budget): np.array([stream(n, budget, policy, within) for n in TEXTS])
    for policy, (_, _, within) in STYLE.items()
    for budget in BUDGETS
}
# Each prediction from the token on at which the largest of these caches is full.
LATE = slice(256, None)
full = FULL_LOSS[TEXTS][:, LATE].mean()

fig, ax = plt.subplots(figsize=(7, 4.4))
for policy, (color, marker, within) in STYLE.items():
    mean = [LOSS[policy, budget][:, LATE].mean() for budget in BUDGETS]
    where = "in the cache" if within else "in the text"
    ax.plot(BUDGETS, np.exp(mean), marker=marker, color=color, label=f"{policy}, positions {where}")
ax.axhline(np.exp(full), color="black", ls=":", lw=1, label="full cache")
ax.set(xscale="log", xlabel="budget (entries in each layer)", ylabel="perplexity")
ax.set_xticks(BUDGETS, [str(budget) for budget in BUDGETS])
ax.minorticks_off()
ax.set_title("Perplexity of tokens 257 to 511, three texts")
ax.legend()
plt.show()
print("perplexity    " + "".join(f"{budget:8}" for budget in BUDGETS))
for policy in STYLE:
    print(
        f"{policy:14}" + "".join(f"{np.exp(LOSS[policy, b][:, LATE].mean()):8.2f}" for b in BUDGETS)
    )
print(f"full cache    {np.exp(full):8.2f}")

# %% [markdown]
# How sure is a difference between two curves? They read the same texts, so compare them token by
# token: the mean difference of losses, and its standard error over blocks of 51 tokens (neighbouring
# tokens are not independent).


# %%
def compared(one, other):
    """Return the mean difference of losses and its standard error over blocks."""
    blocks = (one - other)[:, LATE].reshape(-1, 51).mean(axis=1)
    return blocks.mean(), blocks.std(ddof=1) / math.sqrt(len(blocks))


print("loss above that of the window, nats a token (standard error)")
print("budget" + "".join(f"{policy:>18}" for policy in ("sinks", "heavy", "random")))
for budget in BUDGETS:
    line = f"{budget:6}"
    for policy in ("sinks", "heavy", "random"):
        mean, error = compared(LOSS[policy, budget], LOSS["window", budget])
        line += f"{mean:+10.3f} ({error:.3f})"
    print(line)

# %% [markdown]
# Two things are not as the papers say, and worth finding out why:
#
# - *The window does not collapse.* It is worse than the same window with sinks, by a tenth of a nat and
#   more up to a budget of 64 and by less from there on, and not by a factor of hundreds. The next
#   section asks what our first token does.
# - *Heavy hitters are hardly better than the newest entries*, or worse. H2O's authors report that a
#   fifth of the cache is enough for OPT, LLaMA and GPT-NeoX. The sections after it look at what is
#   kept, and test the bet that H2O makes.
#
# ## Why dropping the first token hurts
#
# For Llama-2-7B, Xiao et al. (2023, table 2) measured a perplexity of 3,360 with a plain window of
# 4,096, of 11.9 with the first token kept, and of 9.6 with the first four: one entry in four thousand
# decides. Here is the same experiment on our model, at a budget of 64. The window drops the start
# token as soon as it is full, so look at the loss *as the text goes on*: with the first token and
# without it, the rest of the cache is all but the same.
#
# **Predict.** A head that has a share $s$ of its weight on the first token, and loses the token, puts
# that share on what is left: every other weight grows by a factor of $1 / (1 - s)$. With a tenth on
# the sink that is 11 %, with nine tenths it is tenfold. Given the shares that you measured above, do
# you expect a collapse as in Llama-2, or a dent?

# %%
BUDGET = 64
POLICIES["1 sink"] = lambda scores, room: by_age(scores, room, 1)


def cost_of(policy, within_cache=False):
    """Return the losses of each text above those with a full cache."""
    return np.array([stream(n, BUDGET, policy, within_cache) for n in TEXTS]) - FULL_LOSS[TEXTS]


COST = {policy: LOSS[policy, BUDGET] - FULL_LOSS[TEXTS] for policy in STYLE}
COST["1 sink"] = cost_of("1 sink", within_cache=True)

fig, ax = plt.subplots(figsize=(7, 4))
edges = np.arange(0, 512, 64)
for name, label in (("window", "window"), ("1 sink", "1 sink"), ("sinks", "4 sinks")):
    means = [COST[name][:, start : start + 64].mean() for start in edges]
    ax.plot(edges + 32, means, "o-", ms=4, label=label)
ax.axhline(0, color="black", ls=":", lw=1)
ax.axvline(BUDGET, color="gray", ls="--", lw=1)
ax.text(BUDGET + 4, ax.get_ylim()[1] * 0.95, "the cache is full", color="gray", va="top")
ax.set(xlabel="position in the text", ylabel="loss above the full cache (nats a token)")
ax.set_title(f"A budget of {BUDGET}, with and without the first token")
ax.legend()
plt.show()
for name in ("window", "1 sink", "sinks"):
    print(f"{name:8} {COST[name][:, BUDGET:].mean():+.3f} nats a token above the full cache")

# %% [markdown]
# What does the first token do there? Two things could be missed: the **place** for weight that
# belongs nowhere, or the **value** that it adds to the vector, the same at every step. Tell them
# apart: keep the first token's key, so that it still draws its weight, and set its value to zero. If
# the place is what counts, that costs nothing.
#
# And two more questions to the other policies. *Random, first token kept*: the lots, but the first
# token never goes. If this is as good as *heavy*, all that the heavy hitters' scores have found is the
# sink. *4 sinks, in the text*: the positions that StreamingLLM gave up.


# %%
@contextmanager
def attending(other):
    """Let `decode` attend by `other`, which is given `attend` first; put it back in any case.

    Says so where `decode` never called it: what was measured then is as without it.
    """
    global attend
    real, calls = attend, []

    def instead(*arguments, **named):
        calls.append(1)
        return other(real, *arguments, **named)

    attend = instead
    try:
        yield
    finally:
        attend = real
    if not calls:
        print("Your `decode` never called `attend`, so this experiment changed and saw nothing:")
        print("let `decode` call `attend`, once for each token in each layer, and run it again.")


def with_empty_sink(real, q, keys, values, positions, within_cache):
    """Attend as ever, but with a value of zero for the first token."""
    values = np.where((positions == 0)[..., None], np.float32(0), values)
    return real(q, keys, values, positions, within_cache)


def first_kept(scores, room):
    """Draw lots, but never for the first token."""
    lots = DICE.random(scores.shape)
    lots[:, 0] = 2
    return heavy_and_recent(lots, room)


POLICIES["random, first token kept"] = first_kept
COST["random, first token kept"] = cost_of("random, first token kept")
COST["4 sinks, in the text"] = cost_of("sinks", within_cache=False)
with attending(with_empty_sink):
    COST["1 sink, its value zero"] = cost_of("1 sink", within_cache=True)

COST["full cache"] = np.zeros_like(COST["window"])
ORDER = ["1 sink, its value zero", "1 sink", "4 sinks, in the text", "sinks"]
ORDER += ["random", "random, first token kept", "heavy", "full cache"]
gains = {}
for name in ORDER:
    blocks = (COST[name] - COST["window"])[:, 103:].reshape(-1, 51).mean(axis=1)
    gains[name] = blocks.mean(), blocks.std(ddof=1) / math.sqrt(len(blocks))
fig, ax = plt.subplots(figsize=(7.5, 3.6))
colors = ["tab:green"] * 4 + ["tab:gray"] * 2 + ["tab:red", "black"]
means, errors = zip(*gains.values(), strict=True)
ax.barh(ORDER, means, xerr=errors, color=colors, height=0.6, ecolor="black", capsize=3)
ax.invert_yaxis()
ax.axvline(0, color="tab:blue", lw=2)
ax.set(xlabel="loss above that of the window (nats a token), with its standard error")
ax.set_title(f"Budget {BUDGET}, tokens 104 to 511; left is better")
fig.tight_layout()
plt.show()
for name, (mean, error) in gains.items():
    print(f"{name:26} {mean:+.3f} (standard error {error:.3f})")

# %% [markdown]
# All bars are differences from the same window on the same texts, the blue line. In the models that Gu
# et al. studied the value of the first token is next to nothing, so that setting it to zero would cost
# next to nothing. Ours is another case: with its value at zero the first token is of no use at all.
# What is missed is the *value*, a constant that heads have learnt to add at every step, as much as the
# place for the weight. (A value may be short and yet count: its weight is many times that of any
# other entry, and it comes at every step.) The cure is the same: keep the entry.
#
# The positions matter, too, though no text here is longer than those of the training. In the cache a
# sink is never further away than the budget; in the text it recedes.
#
# Follow the weight. Take one text through the window with 1 sink and without, and ask where the
# attention of the late queries lies: on the oldest entry (the sink, if it is there), on the newest 4,
# or in between.


# %%
def where_attention_lies(policy, within_cache):
    """Return the shares of attention on the oldest entry, the newest four and the rest, by layer.

    They are NaN where `decode` did not call `attend` once for each token in each layer.
    """
    seen = []

    def watched(real, *arguments, **named):
        mixed, weights = real(*arguments, **named)
        seen.append((weights[:, 0].mean(), weights[:, -4:].sum(axis=1).mean()))
        return mixed, weights

    with attending(watched):
        decode(LM, text(0)[:384], BUDGET, policy, within_cache)
    if len(seen) != 384 * LM["n_layers"]:
        if seen:
            print(f"`attend` was called {len(seen):,} times, not {384 * LM['n_layers']:,}")
        return np.full((LM["n_layers"], 3), np.nan)
    by_layer = np.array(seen).reshape(384, LM["n_layers"], 2)[256:].mean(axis=0)
    return np.column_stack((by_layer, 1 - by_layer.sum(axis=1)))


LIES = {
    "1 sink, in the cache": where_attention_lies("1 sink", True),
    "1 sink, in the text": where_attention_lies("1 sink", False),
    "window": where_attention_lies("window", False),
}
fig, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True)
for ax, (title, shares) in zip(axes, LIES.items(), strict=True):
    base = np.zeros(LM["n_layers"])
    for column, name in enumerate(("oldest entry", "newest 4", "in between")):
        ax.bar(range(4), 100 * shares[:, column], bottom=base, label=name, width=0.7)
        base += 100 * shares[:, column]
    ax.set(xlabel="layer", xticks=range(4), title=title)
axes[0].set_ylabel("share of the attention (%)")
fig.tight_layout(rect=(0, 0, 0.86, 1))
fig.legend(*ax.get_legend_handles_labels(), loc="center right")
plt.show()
print("attention on the oldest entry" + "".join(f"  layer {i}" for i in range(LM["n_layers"])))
for title, shares in LIES.items():
    print(f"{title:29}" + "".join(f"{share:9.1%}" for share in shares[:, 0]))

# %% [markdown]
# So this is a sink, and a shallow one: an entry that gets many times its share, in some of the layers, for
# being the first. In Llama-2-7B all layers but the lowest two attend to it heavily (Xiao et al. 2023,
# figure 2), so that there the loss of it is felt everywhere, and at once. Gu et al. (2024) find that
# sinks come with training, once there has been enough of it, in small models too. How deep they are
# has to be measured for each model.
#
# ## What is left in the cache
#
# At the end of a text, which entries does each policy hold? Ask the caches that `decode` returns.
# For the first two every layer and head holds the same; heavy hitters differ from head to head.

# %%
fig, ax = plt.subplots(figsize=(9, 4.4))
row, labels = 0, []
for policy, heads in (("window", 1), ("sinks", 1), ("random", 2), ("heavy", 8)):
    color = STYLE[policy][0]
    caches = CACHES[0, BUDGET, policy]
    held = [positions for cache in caches for positions in cache["positions"]][:heads]
    for number, positions in enumerate(held):
        ax.scatter(positions, np.full(len(positions), row), s=40, color=color, marker="|")
        labels.append(policy if heads == 1 else f"{policy}, layer {number // 2} head {number % 2}")
        row += 1
ax.set_yticks(range(row), labels, fontsize=8)
ax.invert_yaxis()
ax.set(
    xlabel="position in the text", title=f"Entries in the cache after 512 tokens, budget {BUDGET}"
)
fig.tight_layout()
plt.show()
early = [np.mean(p < 64) for cache in caches for p in cache["positions"]]
print(f"heavy: {100 * np.mean(early):.0f} % of the entries come from the first 64 tokens, ", end="")
print(
    f"and the first token is held by {sum((p == 0).any() for c in caches for p in c['positions'])}",
    end="",
)
print(f" of {len(early)} heads")

# %% [markdown]
# ## Does past attention foretell future attention?
#
# That is what H2O bets on. It can be tested without evicting anything: run a text with a full cache,
# stop at some token, and let each policy choose 64 entries. Then look at what the *next* 64 queries
# attend to among all entries that were there, and ask what share of it falls on the chosen ones. The
# best possible choice, made knowing the future, is the ceiling.
#
# **Predict:** H2O's authors found that few entries get most of the attention, so a choice of 64 out of
# up to 448 should cover most of it. Will *heavy* cover more than *window*? It gives half of its room
# away from the newest entries.


# %%
def future_covered(number, chosen, ahead=64):
    """Return the share of future attention on what each policy chose, by policy and layer."""
    got = []

    def watch(_, weights):
        """Add up the weights of the query heads that share a KV head."""
        got.append(weights.reshape(LM["n_kv_heads"], -1, 512, 512).sum(axis=1))

    logits_of(LM, text(number), on_weights=watch)
    shares = {name: np.zeros(LM["n_layers"]) for name in (*chosen, "best")}
    stops = range(128, 449, 64)
    for stop in stops:
        for i, weights in enumerate(got):  # (KV heads, queries, entries)
            past = weights[:, :stop, :stop].sum(axis=1)
            future = weights[:, stop : stop + ahead, :stop].sum(axis=1)
            kept = {name: POLICIES[name](past, BUDGET) for name in chosen}
            kept["best"] = np.argsort(future, axis=1)[:, -BUDGET:]
            for name, entries in kept.items():
                on_kept = np.take_along_axis(future, entries, axis=1).sum(axis=1)
                shares[name][i] += (on_kept / future.sum(axis=1)).mean() / len(stops)
    return shares


CHOSEN = ("window", "sinks", "heavy", "random")
found = [future_covered(number, CHOSEN) for number in range(4)]
covered = {name: np.mean([one[name] for one in found], axis=0) for name in (*CHOSEN, "best")}
fig, ax = plt.subplots(figsize=(7.5, 4))
for number, (name, by_layer) in enumerate(covered.items()):
    color = STYLE.get(name, ("black",))[0]
    ax.bar(np.arange(4) + 0.16 * (number - 2), 100 * by_layer, 0.14, color=color, label=name)
ax.set(xlabel="layer", xticks=range(4), ylabel="future attention covered (%)", ylim=(0, 115))
ax.set_title(f"Attention of the next 64 queries on {BUDGET} chosen entries")
ax.legend(ncol=5, loc="upper center", fontsize=8)
plt.show()
print("covered   " + "".join(f"  layer {i}" for i in range(LM["n_layers"])) + "     mean")
for name, by_layer in covered.items():
    print(f"{name:10}" + "".join(f"{share:9.0%}" for share in by_layer) + f"{by_layer.mean():9.0%}")

# %% [markdown]
# Compare *heavy* with *random* and with *window*, layer by layer, and all with *best*. The best 64
# entries would cover clearly more than any policy does, so there is something to be gained by choosing
# well. Past attention finds a little of it: *heavy* covers some more than the lots, most of all where
# an entry is looked at by everyone, whatever it is: the sink. Against age it gains next to nothing: what
# it finds among the old it gives away among the newest. Heads that copy look at a token once, when it is needed, and its score tells too late. With
# large models, many more heads and longer texts the bet may be won; measure this before you trust a
# score.
#
# ## What cannot be recalled
#
# Perplexity hides a loss that hardly ever matters for the next token. So hide a needle: a passage of
# 24 random tokens right after the start, then ordinary text, and then **the first 8 tokens of the
# passage again**. A model that can look back goes on with the other 16; nothing else could tell it
# what they are. Chance is 1 in 1,024.
#
# **Predict** for a budget of 64 and 16, 64 or 256 tokens of text between:
#
# - *full*: some share of the 16, whatever the distance.
# - *window*: with 16 tokens between, the passage is still in the cache when it is asked for. With 64
#   or more it is not, and four layers of reach will not bring it back.
# - *sinks*: the same: the four sinks are the start token and the first three tokens of the passage, and
#   none of the 16 is among them.
# - *heavy*: the passage stays only if it was looked at *before* it was asked for. Was it?
# - *random*: half of 64 entries by lot. To copy a run of tokens all of them have to be there.


# %%
def needle(seed, between):
    """Return tokens with a passage that comes twice, and where its second half begins."""
    passage = np.random.default_rng(seed).integers(1, LM["vocab"], 24)
    filler = HELD_OUT[20 + seed][:between]
    tokens = np.concatenate(([LM["start_token"]], passage, filler, passage))
    return tokens, len(tokens) - 16


BETWEEN, SEEDS = [16, 64, 256], range(4)
recalled = {}
for policy in ("full", *STYLE):
    for between in BETWEEN:
        hits = []
        for seed in SEEDS:
            tokens, start = needle(seed, between)
            if policy == "full":
                logits = logits_of(LM, tokens)
            else:
                logits, _ = decode(LM, tokens, BUDGET, policy, STYLE[policy][2])
            hits.append(logits[start - 1 : -1].argmax(axis=1) == tokens[start:])
        recalled[policy, between] = np.mean(hits)

fig, ax = plt.subplots(figsize=(7.5, 4))
for number, policy in enumerate(("full", *STYLE)):
    color = STYLE.get(policy, ("black",))[0]
    heights = [100 * recalled[policy, between] for between in BETWEEN]
    bars = ax.bar(np.arange(3) + 0.16 * (number - 2), heights, 0.14, color=color, label=policy)
    ax.bar_label(bars, fmt="%.0f", fontsize=8)
ax.set_xticks(range(3), [str(between) for between in BETWEEN])
ax.set(xlabel="tokens between the passage and its return", ylabel="recalled of 16 tokens (%)")
ax.set(ylim=(0, 119), yticks=range(0, 101, 20))
ax.set_title(f"A passage seen once, asked for again; budget {BUDGET}")
ax.legend(ncol=5, loc="upper center", fontsize=8)
plt.show()
print(f"recalled, of {16 * len(SEEDS)} tokens" + "".join(f"{between:8}" for between in BETWEEN))
for policy in ("full", *STYLE):
    print(f"{policy:23}" + "".join(f"{recalled[policy, b]:8.0%}" for b in BETWEEN))

# %% [markdown]
# What *heavy* and *random* still know after 64 tokens is what they have not dropped yet: one entry
# goes for each token that comes, and the passage dies bit by bit. After 256 it is gone.
#
# No policy can keep what nobody has asked for yet. A score of past attention tells what *was* of
# use; a question at the end of a long text may need what never was. StreamingLLM says so of itself:
# it does not lengthen the context, it only keeps a model fluent while the text goes by (its
# repository's answers to common questions). What looks harmless in perplexity may be fatal to a task.

# %% [markdown]
# ## What you can now answer in an interview
#
# - *How do you bound the KV cache?* Give each layer B entries. Before a token comes in, make room:
#   attention, and so memory and time a step, never see more than B.
# - *What does a plain window lose?* The first token, and with it the place where heads put weight
#   that belongs nowhere, or a constant that they add. One to four entries cure it.
# - *Which position has an entry whose neighbours are gone?* That in the text (H2O), or that in the
#   cache (StreamingLLM), which never leaves the range the model was trained on. In a plain window
#   the two are the same: RoPE sees differences only.
# - *How far back can a window of B see?* $1 + L\,(B - 1)$ tokens, faintly.
# - *What do heavy hitters add?* A choice by use instead of age, for each head, at the price of keeping
#   scores. It finds the sink by itself, and favours early tokens, whose scores have grown for longest.
#   Whether past attention foretells future attention has to be measured, against age and against lots:
#   on this model it does by a little better than lots, and hardly better than age.
# - *What does no policy keep?* What has not been looked at before it is asked for. Test recall, not
#   perplexity alone.

# %% [markdown] tags=["questions"]
# ## Check your understanding
#
# Three questions, graded like everything else. Answer on paper first. Under a choice, copy the words
# of one option into `understanding`, between quotes. A wrong answer is told what it overlooks.


# %% tags=["exercise"]
understanding: dict = {
    "why_the_first_token": "Attention weights add up to 1: what heads put on it, they then put on values that mean something",
    "what_renumbering_changes": "For a window with sinks only: the sinks come nearer, the distances within a window stay",
}


# %% tags=["exercise"]
def reach(n_layers: int, budget: int, n_tokens: int) -> int:
    """Return on how many tokens the last logits can depend at most, through a sliding window.

    Args:
        n_layers: layers of the model.
        budget: the entries that a query sees in each layer, its own among them.
        n_tokens: the tokens of the text so far.

    Returns:
        Tokens, the newest among them; no more than the text has.
    """
    return min(n_tokens, 1 + n_layers * (budget - 1))
