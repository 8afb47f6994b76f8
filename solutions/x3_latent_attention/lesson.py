# %% [markdown]
# # Lab x3: latent attention, a cache without heads
#
# Milestone 2 counted what a cache costs: a key and a value for every KV head of every layer.
# Grouped heads make that smaller by having fewer keys. **Multi-head latent attention** (MLA;
# DeepSeek-V2, DeepSeek-AI 2024, arXiv:2405.04434) goes another way: it keeps *no* head at all. A
# token leaves one short vector in the cache, its **latent**, and all keys and values of all heads
# are linear functions of it. DeepSeek-V2 keeps 576 numbers a token a layer where its 128 heads
# would have 32,768.
#
# Two things about it are easy to believe and worth proving. First, that heads need never be built:
# the matrix that would make keys can be moved over to the query. Second, that rotary positions get
# in the way of just that, which is why MLA carries a small extra key. You will build both forms of
# the attention, see that their logits agree to the last few bits, put numbers on what each costs,
# and take the headline "93.3 % less cache" apart.
#
# **You will write** `kv_values_per_token`, `rope`, `attention_unabsorbed`, `full_logits`,
# `new_latent_cache`, `extend_cache`, `absorbed_attention`, `decode_step`, `score_matrix` and
# `multiplications`.
#
# **Check your work** at any time: type `%load_ext grader` into a cell, once, and then `%check`.
# `grader check x3` in a terminal grades the saved file from a fresh start.

# %% tags=["given"]
import time

import matplotlib.pyplot as plt
import numpy as np

# %% [markdown]
# ## What a token leaves behind
#
# The numbers that one token adds to the cache, over all layers:
#
# - with heads (MHA, GQA, MQA): 2 · layers · KV heads · head_dim, a key and a value each;
# - with a latent: layers · (latent + rotary key). Keys *and* values come of the one latent, and the
#   rotary key is one for all heads.
#
# Configs are dicts with the keys of a released `config.json`: `num_hidden_layers`,
# `num_key_value_heads`, `head_dim`, and for latent models `kv_lora_rank` (the latent's size) and
# `qk_rope_head_dim` (the rotary key's). DeepSeek's own config also says `num_key_value_heads: 128`.
# It is true of the heads that are computed, and no part of what is kept.
#
# **Predict** for DeepSeek-V2, 60 layers, latent 512, rotary key 64: 60 · 576 = **34,560**. For its
# predecessor DeepSeek 67B, 95 layers with 8 KV heads of 128: 2 · 95 · 8 · 128 = **194,560**.


# %% tags=["exercise"]
def kv_values_per_token(config: dict) -> int:
    """Return how many numbers one token adds to the cache, over all layers.

    Args:
        config: has `num_hidden_layers`; a model with latent attention has `kv_lora_rank` and
            `qk_rope_head_dim`, any other `num_key_value_heads` and `head_dim`. Further keys may be
            there, and some of them do not matter.

    Returns:
        Numbers, not bytes.
    """
    if "kv_lora_rank" in config:
        return config["num_hidden_layers"] * (config["kv_lora_rank"] + config["qk_rope_head_dim"])
    return 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"]


# %%
V2 = {  # deepseek-ai/DeepSeek-V2, config.json
    "num_hidden_layers": 60,
    "hidden_size": 5120,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}
OLD = {  # DeepSeek 67B: DeepSeek LLM paper, arXiv:2401.02954, table 2
    "num_hidden_layers": 95,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
}


def with_heads(n_kv_heads: int) -> dict:
    """Return DeepSeek-V2's shape as if it kept ordinary KV heads of 128."""
    return {"num_hidden_layers": 60, "num_key_value_heads": n_kv_heads, "head_dim": 128}


kinds = {
    "MHA, 128 KV heads": with_heads(128),
    "GQA, 16": with_heads(16),
    "GQA, 8": with_heads(8),
    "GQA, 4": with_heads(4),
    "MLA, 512 + 64": V2,
    "GQA, 2": with_heads(2),
    "MQA, 1": with_heads(1),
}
released = {  # from their config.json
    "Llama-2-7B (MHA)": (32, 32, 128),
    "Llama-3-70B (GQA)": (80, 8, 128),
    "DeepSeek 67B (GQA)": (95, 8, 128),
    "Llama-3-8B (GQA)": (32, 8, 128),
    "Falcon-7B (MQA)": (32, 1, 64),
}
keys = ("num_hidden_layers", "num_key_value_heads", "head_dim")
models = {name: dict(zip(keys, shape, strict=True)) for name, shape in released.items()}
models["DeepSeek-V3 (MLA)"] = V2 | {"num_hidden_layers": 61}
models["DeepSeek-V2 (MLA)"] = V2
models["DeepSeek-V2-Lite (MLA)"] = V2 | {"num_hidden_layers": 27}
kb = {name: 2 * kv_values_per_token(config) / 1000 for name, config in models.items()}

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8))
per_layer = {name: kv_values_per_token(c) // c["num_hidden_layers"] for name, c in kinds.items()}
for ax, numbers, shown in (
    (left, per_layer, "{:,}"),
    (right, dict(sorted(kb.items(), key=lambda pair: -pair[1])), "{:.1f}"),
):
    colours = ["tab:orange" if "MLA" in name else "tab:blue" for name in numbers]
    bars = ax.barh(list(numbers), list(numbers.values()), color=colours)
    ax.bar_label(bars, labels=[shown.format(n) for n in numbers.values()], padding=3)
    ax.invert_yaxis()
left.set(xscale="log", xlim=(100, 2e5), xlabel="numbers in the cache, per token and layer")
left.set_title("128 query heads of 128, kept in seven ways")
right.set(xlim=(0, 620), xlabel="cache per token in 16 bits, all layers (kB)")
right.set_title("Released models")
fig.tight_layout()
plt.show()
print("DeepSeek-V2:  ", f"{kv_values_per_token(V2):9,} numbers a token")
print("DeepSeek 67B: ", f"{kv_values_per_token(OLD):9,}")
print("V2's heads, all kept: ", f"{kv_values_per_token(with_heads(128)):,}")
print("576 numbers are the cache of", 576 / (2 * 128), "KV heads of 128")

# %% [markdown]
# **2.25 KV heads** is the figure the paper gives too (table 1): less than GQA with 4 groups, more
# than with 2. Is it as good? The paper compares models alike but for the attention and finds MLA
# ahead of full MHA on three of four benchmarks at 16B parameters and on all four at 250B, with 14 %
# and 4 % of the cache (appendix D). That is its authors' measurement; this notebook cannot repeat
# it.
#
# ## Read a headline: 93.3 %
#
# The abstract says that DeepSeek-V2 "reduces the KV cache by 93.3 %" compared with DeepSeek 67B.
# Take your counts: 1 − 34,560 / 194,560 = **82.2 %**. That is not the headline. Against all of V2's
# own 128 heads it is 1 − 576 / 32,768 = **98.2 %**. Not it either. Which comparison gives 93.3?
#
# Read on to section 3.2.3, on inference: the *deployed* model also stores each element of its cache
# in **6 bits on average**. Take 16 for DeepSeek 67B and count bytes: 34,560 · 6 / 8 = **25,920**
# against 194,560 · 16 / 8 = **389,120**, and 1 − 25,920 / 389,120 = **93.3 %**. The paper prints no
# such sum; it is the one that lands on its figure, to the digit. The headline mixes three changes:
# another attention, fewer layers, and fewer bits.

# %%
steps = [  # each changes one thing: numbers per layer, layers, bits
    ("DeepSeek 67B:\n2,048 numbers,\n95 layers, 16 bits", 2048, 95, 16),
    ("latent:\n576 numbers", 576, 95, 16),
    ("60 layers", 576, 60, 16),
    ("6 bits:\nDeepSeek-V2\nas deployed", 576, 60, 6),
]
sizes_kb = [numbers * layers * bits / 8 / 1000 for _, numbers, layers, bits in steps]
fig, ax = plt.subplots(figsize=(7, 3.8))
bars = ax.bar([name for name, *_ in steps], sizes_kb, color=["tab:blue", *["tab:orange"] * 3])
labels = [
    f"{kb:.1f} kB" + (f"\n−{1 - kb / sizes_kb[0]:.1%}" if i else "")
    for i, kb in enumerate(sizes_kb)
]
ax.bar_label(bars, labels=labels, padding=3)
ax.set(ylabel="cache per token (kB)", ylim=(0, 450))
ax.set_title("Three changes behind one headline")
plt.show()
for (name, *_), kb, before in zip(steps[1:], sizes_kb[1:], sizes_kb[:-1], strict=True):
    print(f"{' '.join(name.split()):34} {before / kb:5.2f} times smaller than the step before")

# %% [markdown]
# The attention itself gives a factor of 3.6, the layers 1.6, the bits 2.7. A GQA model could have
# had the last two as well. **Before a percentage is used, ask: of what, counted in what, and what
# else changed?**
#
# ## The equations
#
# One layer. `x` is its (normed) input, rows are tokens, weights multiply from the right. Every
# layer is a dict of sizes and float64 weights:
#
# | key | shape or value | what it makes |
# |---|---|---|
# | `n_heads`, `nope_dim`, `rope_dim`, `v_dim`, `latent_dim` | whole numbers | |
# | `w_dkv` | (d, latent_dim) | the latent $c = x W_\text{dkv}$: **cached** |
# | `w_kr` | (d, rope_dim) | the rotary key $k^R = \text{rope}(x W_\text{kr})$, one for all heads: **cached** |
# | `w_uk` | (latent_dim, n_heads · nope_dim) | the keys' other part $k^C = c W_\text{uk}$, per head |
# | `w_uv` | (latent_dim, n_heads · v_dim) | the values $v = c W_\text{uv}$, per head |
# | `w_dq` | (d, q_latent), not in every model | the queries' source $s = x W_\text{dq}$; else $s = x$ |
# | `w_uq` | (source, n_heads · nope_dim) | the queries' part $q^C = s W_\text{uq}$ that meets $k^C$ |
# | `w_qr` | (source, n_heads · rope_dim) | the queries' part $q^R = \text{rope}(s W_\text{qr})$ that meets $k^R$ |
# | `w_o` | (n_heads · v_dim, d) | the output, of the heads side by side |
#
# Head $h$ of token $t$ scores token $j \le t$ with
#
# $$\frac{q^C_{t,h} \cdot k^C_{j,h} + q^R_{t,h} \cdot k^R_j}{\sqrt{\text{nope\_dim} + \text{rope\_dim}}}$$
#
# which is one dot product of vectors put together, hence the root of the *sum* of their sizes. Then
# softmax, the weighted sum of values, and `w_o`, as ever. ("nope" stands for: no positional
# encoding.) Compressing the queries too saves memory in training and nothing in the cache. The
# released models norm the latents; that changes no argument here and is left out.
#
# ## Rotary positions
#
# `rope` turns a vector of `dim` numbers: number i and number i + dim/2 are a point in the plane,
# turned by the angle position · 10,000^(−i / (dim/2)). (DeepSeek's code makes pairs of neighbours
# instead. With the columns of the weights in another order that is the same model.)
#
# **Predict:** (1, 0) at position 1 is turned by one radian: (cos 1, sin 1) = **(0.540, 0.841)**.
# And a dot product of two turned vectors depends on the distance of their positions only.


# %% tags=["given"]
def norm(x: np.ndarray) -> np.ndarray:
    """Scale each vector (the last axis) to a mean square of 1."""
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-6)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Return the softmax over the last axis; a score may be -inf."""
    shifted = scores - np.max(scores, axis=-1, keepdims=True)
    exponentials = np.exp(shifted)
    return exponentials / np.sum(exponentials, axis=-1, keepdims=True)


def query_source(layer: dict, x: np.ndarray) -> np.ndarray:
    """Return what queries are made of: the compressed input where a layer compresses it, or x."""
    return x @ layer["w_dq"] if "w_dq" in layer else x


# %% tags=["exercise"]
def rope(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return vectors turned to their positions.

    Args:
        x: array of shape (n, dim) or (n, n_heads, dim), dim even.
        positions: the n positions, one for each entry of the first axis.

    Returns:
        Array of the shape of x. Numbers i and i + dim/2 are turned, as a point in the plane and
        counter-clockwise, by position * 10_000 ** (-i / (dim/2)) radians.
    """
    half = x.shape[-1] // 2
    angles = np.multiply.outer(
        np.asarray(positions, dtype=float), 10_000.0 ** (-np.arange(half) / half)
    )
    angles = angles.reshape(len(x), *[1] * (x.ndim - 2), half)  # the same for all heads
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


# %%
print("(1, 0) at position 1:", rope(np.array([[1.0, 0.0]]), [1])[0].round(3))
rng = np.random.default_rng(0)
a, b = rng.normal(size=(2, 1, 8))
for at_query, at_key in ((5, 2), (105, 102), (1005, 1002), (6, 2)):
    dot = (rope(a, [at_query]) @ rope(b, [at_key]).T).item()
    print(f"query at {at_query:4}, key at {at_key:4}: dot product {dot:.12f}")

# %% [markdown]
# ## The unabsorbed form: build every head
#
# First the way training does it, and the way the equations read: make each head's keys and values
# of the latents, and attend as in milestone 4. Masked scores are -inf.


# %% tags=["exercise"]
def attention_unabsorbed(layer: dict, x: np.ndarray) -> np.ndarray:
    """Return a layer's outputs for a whole sequence, with keys and values built for every head.

    Args:
        layer: sizes and weights, as in the table above.
        x: inputs of shape (n, d), those of positions 0 to n - 1.

    Returns:
        Outputs of shape (n, d). Token t sees tokens 0 to t.
    """
    n, heads = len(x), layer["n_heads"]
    positions = np.arange(n)
    source = query_source(layer, x)
    q = (source @ layer["w_uq"]).reshape(n, heads, -1)
    q_turned = rope((source @ layer["w_qr"]).reshape(n, heads, -1), positions)
    latents = x @ layer["w_dkv"]
    key_turned = rope(x @ layer["w_kr"], positions)
    k = (latents @ layer["w_uk"]).reshape(n, heads, -1)
    v = (latents @ layer["w_uv"]).reshape(n, heads, -1)
    future = positions > positions[:, None]
    root = np.sqrt(layer["nope_dim"] + layer["rope_dim"])
    mixed = np.empty_like(v)
    for h in range(heads):
        scores = (q[:, h] @ k[:, h].T + q_turned[:, h] @ key_turned.T) / root
        scores[future] = -np.inf
        mixed[:, h] = softmax(scores) @ v[:, h]
    return mixed.reshape(n, -1) @ layer["w_o"]


# %% [markdown]
# A model is a stack of such layers: `params` has an `embedding` (vocab, d), a list of `layers` and
# an `unembedding` (d, vocab). A token starts as its embedding (positions come in by `rope` alone),
# each layer adds `attention(norm(x))`, and `logits = norm(x) @ unembedding`. There is no MLP: it
# holds no cache.


# %% tags=["exercise"]
def full_logits(params: dict, tokens: list[int]) -> np.ndarray:
    """Return the logits after every token of a sequence, in the unabsorbed form.

    Args:
        params: the model: embedding, layers, unembedding.
        tokens: n token numbers.

    Returns:
        Array of shape (n, vocab).
    """
    x = params["embedding"][tokens]
    for layer in params["layers"]:
        x = x + attention_unabsorbed(layer, norm(x))
    return norm(x) @ params["unembedding"]


# %% tags=["given"]
def random_model(
    seed: int,
    n_layers: int = 2,
    n_heads: int = 4,
    nope_dim: int = 6,
    rope_dim: int = 4,
    v_dim: int = 5,
    latent_dim: int = 8,
    q_latent: int = 0,
) -> dict:
    """Draw a toy model of width 12 with 20 words, to try your functions on."""
    rng = np.random.default_rng(seed)
    d, vocab = 12, 20
    source = q_latent or d

    def weight(rows, columns, scale=1.0):
        return scale * rng.normal(size=(rows, columns)) / np.sqrt(rows)  # keeps sums of order 1

    def layer():
        made = {
            "n_heads": n_heads,
            "nope_dim": nope_dim,
            "rope_dim": rope_dim,
            "v_dim": v_dim,
            "latent_dim": latent_dim,
            "w_uq": weight(source, n_heads * nope_dim, 2),
            "w_qr": weight(source, n_heads * rope_dim, 2),
            "w_dkv": weight(d, latent_dim),
            "w_kr": weight(d, rope_dim),
            "w_uk": weight(latent_dim, n_heads * nope_dim),
            "w_uv": weight(latent_dim, n_heads * v_dim),
            "w_o": weight(n_heads * v_dim, d),
        }
        return {"w_dq": weight(d, q_latent), **made} if q_latent else made

    return {
        "embedding": rng.normal(size=(vocab, d)),
        "layers": [layer() for _ in range(n_layers)],
        "unembedding": weight(d, vocab),
    }


# %%
model = random_model(seed=1)
tokens = [3, 14, 15, 9, 2, 6, 5]
logits = full_logits(model, tokens)
changed = full_logits(model, [*tokens[:-1], 19])
print("logits:", logits.shape)
print(
    "largest change before the last token, when that changes:", np.abs(logits - changed)[:-1].max()
)

# %% [markdown]
# ## What is cached
#
# The cache of a layer is an array with a row for every token: its latent, then its rotary key, side
# by side, `latent_dim + rope_dim` numbers. The rotary key goes in turned, since its position never
# changes; a new token's position is the number of rows before it. The latent goes in **as it is**,
# and it will matter a great deal that it does.


# %% tags=["exercise"]
def new_latent_cache(params: dict) -> list[np.ndarray]:
    """Return an empty cache for each layer: arrays of shape (0, latent_dim + rope_dim)."""
    return [np.zeros((0, layer["latent_dim"] + layer["rope_dim"])) for layer in params["layers"]]


# %% tags=["exercise"]
def extend_cache(layer: dict, cache: np.ndarray, x_t: np.ndarray) -> np.ndarray:
    """Return a layer's cache with one more token in it.

    Args:
        layer: sizes and weights.
        cache: array of shape (t, latent_dim + rope_dim), the rows of t earlier tokens.
        x_t: the layer's input for the new token, of shape (d,).

    Returns:
        Array of shape (t + 1, latent_dim + rope_dim).
    """
    latent = x_t @ layer["w_dkv"]
    key_turned = rope((x_t @ layer["w_kr"])[None], [len(cache)])[0]
    return np.vstack([cache, np.concatenate([latent, key_turned])])


# %% [markdown]
# ## Absorption, on paper
#
# One head of 2 numbers, and a cached latent of 2 numbers:
#
# $$q = (1, 2) \qquad W_\text{uk} = \begin{pmatrix}1 & 0\\ 3 & 1\end{pmatrix} \qquad c = (2, 1)$$
#
# - Build the key: $k = c\,W_\text{uk} = (2 \cdot 1 + 1 \cdot 3,\; 2 \cdot 0 + 1 \cdot 1) = (5, 1)$,
#   and $q \cdot k = 1 \cdot 5 + 2 \cdot 1$ = **7**.
# - Or carry the query to where the latents live: $q\,W_\text{uk}^T = (1 \cdot 1 + 2 \cdot 0,\; 1
#   \cdot 3 + 2 \cdot 1) = (1, 5)$, and $(1, 5) \cdot c = 1 \cdot 2 + 5 \cdot 1$ = **7**.
#
# The first way works once per *cached token*, the second once per *query*. Values likewise: mix
# latents, and pass the mixture through $W_\text{uv}$ once.
#
# $$q \cdot (c\, W_\text{uk}) = (q\, W_\text{uk}^T) \cdot c \qquad
#   \sum_j w_j\, (c_j W_\text{uv}) = \Big(\sum_j w_j\, c_j\Big)\, W_\text{uv}$$

# %%
q, W_uk, c = np.array([1, 2]), np.array([[1, 0], [3, 1]]), np.array([2, 1])
print("key built:    ", c @ W_uk, "  score", q @ (c @ W_uk))
print("query carried:", q @ W_uk.T, "  score", (q @ W_uk.T) @ c)

# %% [markdown]
# So the cache of DeepSeek-V2 is read as if it had a *single* KV head of 576 numbers that serves as
# key, and its first 512 as value: MQA, for all 128 query heads. (A server may multiply $W_\text{uq}
# W_\text{uk}^T$ in advance, hence "absorbed". That is a matter of what is multiplied when, and the
# result is the same.)
#
# The scores are still divided by the root of `nope_dim + rope_dim`. The query that meets the latent
# is longer, but it is the same dot product.


# %% tags=["exercise"]
def absorbed_attention(layer: dict, cache: np.ndarray, x_t: np.ndarray) -> np.ndarray:
    """Return a layer's output for the newest token, from the cache alone.

    No key and no value of any head is built, and nothing but this token passes through w_uk, w_uv.

    Args:
        layer: sizes and weights.
        cache: array of shape (t + 1, latent_dim + rope_dim); its last row is the new token's.
        x_t: the layer's input for the new token, of shape (d,). Its position is t.

    Returns:
        Output of shape (d,).
    """
    heads, latent_dim = layer["n_heads"], layer["latent_dim"]
    latents, keys_turned = cache[:, :latent_dim], cache[:, latent_dim:]
    source = query_source(layer, x_t)
    q = (source @ layer["w_uq"]).reshape(heads, -1)
    q_turned = rope((source @ layer["w_qr"]).reshape(1, heads, -1), [len(cache) - 1])[0]
    w_uk = layer["w_uk"].reshape(latent_dim, heads, -1)
    w_uv = layer["w_uv"].reshape(latent_dim, heads, -1)
    root = np.sqrt(layer["nope_dim"] + layer["rope_dim"])
    mixed = np.empty((heads, layer["v_dim"]))
    for h in range(heads):
        scores = (latents @ (w_uk[:, h] @ q[h]) + keys_turned @ q_turned[h]) / root
        mixed[h] = (softmax(scores) @ latents) @ w_uv[:, h]
    return mixed.reshape(-1) @ layer["w_o"]


# %% tags=["exercise"]
def decode_step(
    params: dict, caches: list[np.ndarray], token: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Read one more token in the absorbed form: return the logits after it, and the caches.

    Args:
        params: the model.
        caches: one array a layer, from `new_latent_cache` or the step before. The list may be
            changed in place: the caller goes on with the returned one only.
        token: the new token's number.

    Returns:
        The logits, of shape (vocab,), and the caches with the token in them.
    """
    x = params["embedding"][token]
    for i, layer in enumerate(params["layers"]):
        h = norm(x)
        caches[i] = extend_cache(layer, caches[i], h)
        x = x + absorbed_attention(layer, caches[i], h)
    return norm(x) @ params["unembedding"], caches


# %% [markdown]
# **Predict:** the two forms make the same products in another order, so logits of order 1 differ by
# some $10^{-15}$, and the difference does not grow from step to step. The check allows $10^{-12}$
# plus $10^{-9}$ of the logit.

# %%
fig, ax = plt.subplots(figsize=(7, 4))
worst = 0.0
shapes = (
    ("4 heads, latent 8", "o", {}),
    ("the same, queries compressed", "s", {"q_latent": 6}),
    ("16 heads, latent 8", "^", {"n_heads": 16, "n_layers": 4}),
)
for label, marker, sizes in shapes:
    toy = random_model(2, **sizes)
    sequence = np.random.default_rng(3).integers(0, 20, 48).tolist()
    unabsorbed = full_logits(toy, sequence)
    caches = new_latent_cache(toy)
    difference = []
    for t, token in enumerate(sequence):
        logits, caches = decode_step(toy, caches, token)
        difference.append(np.abs(logits - unabsorbed[t]).max())
    worst = max(worst, *difference)
    ax.plot(np.maximum(difference, 1e-17), marker, ms=4, label=label)
ax.axhline(1e-12, color="grey", ls="--", lw=1)
ax.text(0, 1.4e-12, "what the check allows at a logit of 0", color="grey")
ax.axhline(2.2e-16, color="grey", ls=":", lw=1)
ax.text(0, 1.2e-16, "spacing of float64 numbers at 1", color="grey", va="top")
ax.set(yscale="log", ylim=(2e-17, 1e-11))
ax.set(xlabel="decode step", ylabel="largest difference of a logit")
ax.set_title("Absorbed against unabsorbed: rounding, and nothing else")
ax.legend(loc="center right", bbox_to_anchor=(1, 0.62))
plt.show()
print("every difference is below 1e-13:", bool(worst < 1e-13))
print("cache of a layer after 48 tokens:", caches[0].shape)

# %% [markdown]
# ## A key that never exists can do no harm
#
# Equal logits do not show which form ran. Sizes do: multiply `w_uk` by $2^{600}$ and `w_uq` by
# $2^{-600}$. All scores stay as they were, to the last bit, since powers of two round nothing. Do
# the same with `w_uv` and `w_o`. Now let one cached latent be enormous, $2^{500}$ times some
# direction that every head's query scores below zero. Its weight is 0, so it counts for nothing.
# But its *key* would be $2^{1100}$, and float64 ends at $2^{1024}$. Whoever builds keys gets
# infinity, then NaN. Whoever absorbs never meets it.
#
# **Predict:** finite numbers in one form, NaN in the other. This is one of the checks: that no head
# is built is a thing that shows.

# %%
toy = random_model(7, n_layers=1)
layer = toy["layers"][0]
x = norm(np.random.default_rng(8).normal(size=(5, 12)))
cache = new_latent_cache(toy)[0]
for row in x:
    cache = extend_cache(layer, cache, row)

queries = (x[-1] @ layer["w_uq"]).reshape(4, -1)
carried = np.einsum("hc,lhc->hl", queries, layer["w_uk"].reshape(8, 4, -1))
cache[2, :8] = 2.0**500 * (np.linalg.pinv(carried) @ np.full(4, -1.0))
big = {"w_uk": 2.0**600, "w_uv": 2.0**600, "w_uq": 2.0**-600, "w_o": 2.0**-600}
scaled = layer | {name: layer[name] * factor for name, factor in big.items()}
moderate, absorbed = (absorbed_attention(one, cache, x[-1]) for one in (layer, scaled))
with np.errstate(over="ignore", invalid="ignore"):
    k = (cache[:, :8] @ scaled["w_uk"]).reshape(5, 4, -1)
    built = np.einsum("hc,jhc->hj", (x[-1] @ scaled["w_uq"]).reshape(4, -1), k)
print("absorbed output:", absorbed[:4].round(4), "...")
print("largest difference from the layer with ordinary weights:", np.abs(absorbed - moderate).max())
print("scores of head 0 with keys that are built:", built[0].round(3))
print("largest number that such a key would hold:", np.abs(k).max())

# %% [markdown]
# ## What the cache remembers: not what milestone 4's did
#
# In milestone 4 the weights changed in mid-sequence, and old keys stayed as the old weights had
# made them. Here a cache holds **latents**, and keys are made of them anew at each step, wherever
# the multiplication takes place. So when `w_uk` changes, the keys of *old* tokens change with it.
#
# **Predict** for one layer: swap in another `w_uk` and `w_uv` after 4 tokens. From then on the
# logits equal those of a model that had the new ones *from the start*, since latents do not depend
# on them. Swap `w_dkv` instead, and they equal neither: old latents were made by the old one.

# %%
first, second = random_model(4, n_layers=1), random_model(5, n_layers=1)


def with_weights(*names: str) -> dict:
    """Return the first model with some weights of its layer taken from the second."""
    swapped = {name: second["layers"][0][name] for name in names}
    return first | {"layers": [first["layers"][0] | swapped]}


short = [3, 14, 15, 9, 2, 6, 5, 8]
print("from step 4 on                  from the old model   from the new one")
for label, new in (
    ("new w_uk, w_uv", with_weights("w_uk", "w_uv")),
    ("new w_dkv", with_weights("w_dkv")),
):
    from_old, from_new = full_logits(first, short), full_logits(new, short)
    caches = new_latent_cache(first)
    gaps = []
    for t, token in enumerate(short):
        logits, caches = decode_step(first if t < 4 else new, caches, token)
        gaps.append([np.abs(logits - other[t]).max() for other in (from_old, from_new)])
    print(f"{label:26} {np.max(gaps[4:], axis=0)[0]:22.2e} {np.max(gaps[4:], axis=0)[1]:18.2e}")

# %% [markdown]
# A server that absorbs matrices in advance has to absorb them again when weights change, or it
# decodes with keys of weights that are gone. (In a model of several layers the latents of the
# second depend on what the first one made, so there not even a new `w_uk` leaves all of them as
# they would have been.)
#
# ## Why the latent cannot carry the positions
#
# Why the extra rotary key? Try without: turn the keys that come of the latent. For one head, with
# $R_p$ the turn to position $p$ (as a matrix: `rope(x, p)` is $x R_p$),
#
# $$q_t \cdot k_j = (s_t W_\text{uq} R_t)\,(c_j W_\text{uk} R_j)^T = s_t\; W_\text{uq}\, R_{t-j}\, W_\text{uk}^T\; c_j^T$$
#
# since $R_t R_j^T = R_{t-j}$. Between the query's source and the latent stands $M_\delta =
# W_\text{uq} R_\delta W_\text{uk}^T$, and it **depends on the distance** $\delta = t - j$. Matrices
# do not commute, so $R_\delta$ cannot be moved out. A query carried to the latents serves one
# distance only: for 4,096 cached tokens it would have to be carried 4,096 times, which is as much
# work as building 4,096 keys.
#
# Write that matrix. It has a row for each number of the source and a column for each of the latent.


# %% tags=["exercise"]
def score_matrix(layer: dict, head: int, distance: int) -> np.ndarray:
    """Return the matrix between a query's source and a cached latent, were keys of latents turned.

    Suppose this head's q and k (its nope_dim numbers of `source @ w_uq` and `latent @ w_uk`) were
    turned to their positions by `rope`. Their dot product is then source @ matrix @ latent.

    Args:
        layer: sizes and weights; nope_dim is even.
        head: which head.
        distance: the query's position minus the key's, 0 or more.

    Returns:
        Array of shape (size of the query's source, latent_dim).
    """
    part = slice(head * layer["nope_dim"], (head + 1) * layer["nope_dim"])
    w_uq, w_uk = layer["w_uq"][:, part], layer["w_uk"][:, part]
    return rope(w_uq, np.full(len(w_uq), distance)) @ w_uk.T


# %% [markdown]
# Then the obvious way round: turn the *latent* before it is cached, so that no turn stands between
# $W_\text{uk}$ and the query. **Predict** what goes wrong. The query in latent space is not turned,
# so a score sees the key's position itself instead of a distance: shift the whole text and every
# score changes. (One may turn the carried query too, in the latent's own numbers. Scores depend on
# distances again then, but no head has a key of its own size any more, so the cheap form for
# training and prompts is gone; and values, which come of the same latent, would be made of a turned
# one.)

# %%
layer = random_model(9)["layers"][0]
distances = np.arange(0, 201)
fixed = score_matrix(layer, 0, 0)
change = [
    np.linalg.norm(score_matrix(layer, 0, int(d)) - fixed) / np.linalg.norm(fixed)
    for d in distances
]

rng = np.random.default_rng(10)
x_query, x_key = norm(rng.normal(size=(2, 12)))
part, apart = slice(0, layer["nope_dim"]), 3
w_uq, w_uk = layer["w_uq"][:, part], layer["w_uk"][:, part]
q, latent = x_query @ w_uq, x_key @ layer["w_dkv"]
q_rope = (x_query @ layer["w_qr"])[None, : layer["rope_dim"]]
k_rope = (x_key @ layer["w_kr"])[None]
starts = np.arange(0, 61)
latent_turned, decoupled = [], []
for start in starts:
    turned = rope(latent[None], [start])[0]
    latent_turned.append(q @ (turned @ w_uk))
    position = (rope(q_rope, [start + apart]) @ rope(k_rope, [start]).T).item()
    decoupled.append(q @ (latent @ w_uk) + position)

fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.9))
left.plot(distances, change, color="tab:blue")
left.set(xlabel="distance of query and key (tokens)", ylabel="|M(distance) − M(0)| / |M(0)|")
left.set(ylim=(0, None), title="Keys turned: a matrix for each distance")
right.plot(starts, latent_turned, color="tab:red", label="latent turned: it moves")
right.plot(starts, decoupled, color="tab:green", label="a rotary key of its own: it stays")
right.set(xlabel="position of the key (query 3 tokens later)", ylabel="score before the root")
right.set_title("The same two tokens, further down the text")
right.legend()
fig.tight_layout()
plt.show()
print(f"decoupled score, spread over all positions:   {np.ptp(decoupled):.1e}")
print(f"score with the latent turned, spread:         {np.ptp(latent_turned):.1e}")
M = score_matrix(layer, 0, apart)
by_hand = (rope(q[None], [7 + apart]) @ rope((latent @ w_uk)[None], [7]).T).item()
print(f"M(3) gives the score of turned keys, off by:  {abs(x_query @ M @ latent - by_hand):.1e}")

# %% [markdown]
# So positions get a channel of their own: `rope_dim` numbers that are not compressed, one key for
# all heads, and a query of each head to meet it. In DeepSeek-V2 it takes 64 of the 576 numbers. The
# other 512 are never turned. A score is the sum of the two, content and position, and the content
# half can be absorbed.
#
# ## When to absorb: count
#
# Both forms give the same numbers, so only cost decides. Count multiplications of one layer, for
# `n_new` tokens processed at once after `n_before` cached ones, from the point where queries and
# the new rows of the cache are there to the point before `w_o`. The number of (query, key) pairs is
# $P = n_\text{new}\, n_\text{before} + n_\text{new} (n_\text{new} + 1) / 2$. Per head:
#
# - **Unabsorbed:** all $n_\text{before} + n_\text{new}$ tokens pass through `w_uk` and `w_uv`,
#   latent · (nope + v) each. A pair costs nope + rope for its score and v for its value.
# - **Absorbed:** each *new* token passes through `w_uk` (its query) and `w_uv` (its mixture), again
#   latent · (nope + v). A pair costs latent + rope for its score and latent for its value.
#
# So one form pays for tokens, the other for pairs: 320 multiplications a pair and head in
# DeepSeek-V2 against 1,088.
#
# **Predict** for DeepSeek-V2 and one new token that makes 4,096: unabsorbed 128 · (4,096 · 512 ·
# 256 + 4,096 · 320) = **68.9 billion**, absorbed 128 · (512 · 256 + 4,096 · 1,088) = **0.587
# billion**: 117 times fewer. For a prompt of 4,096 at once: 412 billion against 1,237 billion, **3
# times more**.


# %% tags=["exercise"]
def multiplications(config: dict, n_new: int, n_before: int, absorbed: bool) -> int:
    """Return the multiplications of one layer's attention, as counted above, over all heads.

    Args:
        config: `num_attention_heads`, `kv_lora_rank`, `qk_nope_head_dim`, `qk_rope_head_dim` and
            `v_head_dim`.
        n_new: tokens processed at once, 1 or more; each sees those before it and itself.
        n_before: tokens in the cache before them.
        absorbed: which form.

    Returns:
        A whole number.
    """
    latent, rope_dim = config["kv_lora_rank"], config["qk_rope_head_dim"]
    nope, v = config["qk_nope_head_dim"], config["v_head_dim"]
    pairs = n_new * n_before + n_new * (n_new + 1) // 2
    per_token = latent * (nope + v)
    if absorbed:
        per_head = n_new * per_token + pairs * (2 * latent + rope_dim)
    else:
        per_head = (n_before + n_new) * per_token + pairs * (nope + rope_dim + v)
    return config["num_attention_heads"] * per_head


# %% [markdown]
# **Predict where they cross.** After a long context B, with n new tokens, the unabsorbed form pays
# 512 · 256 for each of the B old tokens, the absorbed form 768 more for each of about n · B pairs.
# B cancels: n = 512 · 256 / 768 = **171 tokens**, once the context is long, and however many the heads.
# Fewer at a time: absorb. More: build the heads.

# %%
contexts = np.array([2**i for i in range(4, 18)])
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4))
for form, colour in ((False, "tab:blue"), (True, "tab:orange")):
    label = "absorbed" if form else "unabsorbed"
    one = [multiplications(V2, 1, int(c) - 1, form) for c in contexts]
    left.plot(contexts, one, color=colour, label=f"{label}, 1 new token")
    whole = [multiplications(V2, int(c), 0, form) for c in contexts]
    left.plot(contexts, whole, color=colour, ls="--", label=f"{label}, all of it new")
left.set(
    xscale="log", yscale="log", xlabel="context (tokens)", ylabel="multiplications of one layer"
)
left.set_title("DeepSeek-V2: decoding and reading a prompt")
left.legend(fontsize=8)
chunks = np.unique(np.logspace(0, 3.6, 60).astype(int))
for before, style in ((1024, "-"), (16384, "--"), (131072, ":")):
    ratio = [
        multiplications(V2, int(n), before, True) / multiplications(V2, int(n), before, False)
        for n in chunks
    ]
    right.plot(chunks, ratio, style, lw=2, label=f"after {before:,} tokens")
right.axhline(1, color="grey", lw=1)
right.axvline(512 * 256 / 768, color="grey", lw=1, ls=":")
right.text(512 * 256 / 768 * 1.1, 0.01, "171", color="grey")
right.set(xscale="log", yscale="log", xlabel="new tokens at once", ylabel="absorbed / unabsorbed")
right.set_title("Above 1, building the heads is cheaper")
right.legend()
fig.tight_layout()
plt.show()
for label, new, before in (("decode at 4,096", 1, 4095), ("prompt of 4,096", 4096, 0)):
    each = {form: multiplications(V2, new, before, form) for form in (True, False)}
    print(f"{label}: absorbed {each[True] / 1e9:9.3f} billion, unabsorbed {each[False] / 1e9:8.2f}")
for before in (1024, 16384, 131072):
    n = next(
        n
        for n in range(1, 5000)
        if multiplications(V2, n, before, True) > multiplications(V2, n, before, False)
    )
    print(f"after {before:7,} tokens, building the heads is cheaper from {n} new tokens on")

# %% [markdown]
# Serving engines do just that: vLLM has two code paths for MLA, one that builds heads, for prompts,
# and one that works on latents, for decoding; the header of its MLA attention code explains both in
# these terms.
#
# A count is a claim about a clock. Take one head-heavy layer on this machine: 16 heads with
# DeepSeek-V2-Lite's sizes (latent 512, 128 + 64, values of 128) and one new token. **Predict** from
# the counts, then look at the time on the wall, the shortest of several runs, on one thread: threads
# that wait for each other would be measured, too. A slow memory may change the ratio, hardly its side
# of 1.

# %%
from threadpoolctl import threadpool_limits  # comes with scikit-learn

LITE = V2 | {"num_attention_heads": 16}
rng = np.random.default_rng(11)
w_uk, w_uv = rng.normal(size=(2, 512, 16, 128)) / 512**0.5
q, q_turned = rng.normal(size=(16, 128)), rng.normal(size=(16, 64))


def from_latents(latents, keys_turned):
    """Attend in the absorbed form."""
    carried = np.einsum("lhc,hc->hl", w_uk, q)
    weights = softmax((carried @ latents.T + q_turned @ keys_turned.T) / 192**0.5)
    return np.einsum("hl,lhv->hv", weights @ latents, w_uv)


def from_heads(latents, keys_turned):
    """Attend with every head's keys and values built."""
    k = (latents @ w_uk.reshape(512, -1)).reshape(-1, 16, 128).transpose(1, 2, 0)
    v = (latents @ w_uv.reshape(512, -1)).reshape(-1, 16, 128).transpose(1, 0, 2)
    weights = softmax(((q[:, None] @ k)[:, 0] + q_turned @ keys_turned.T) / 192**0.5)
    return (weights[:, None] @ v)[:, 0]


print("           absorbed          unabsorbed        ratio of the")
print("context      ms   1e9 a s      ms   1e9 a s   clock   counts   largest difference")
for context in (256, 1024, 2048):
    rows = rng.normal(size=(context, 576))
    seconds, outputs = [], []
    for attend in (from_latents, from_heads):
        runs = []
        with threadpool_limits(1):
            while len(runs) < 5 or sum(runs) < 0.3:
                started = time.perf_counter()
                out = attend(rows[:, :512], rows[:, 512:])
                runs.append(time.perf_counter() - started)
        seconds.append(min(runs))  # whatever else the machine does can only add to it
        outputs.append(out)
    counts = [multiplications(LITE, 1, context - 1, form) for form in (True, False)]
    apart = np.abs(outputs[0] - outputs[1]).max()
    each = "".join(
        f"{1e3 * s:9.1f}{c / s / 1e9:9.1f}" for s, c in zip(seconds, counts, strict=True)
    )
    ratios = f"{seconds[1] / seconds[0]:8.0f}{counts[1] / counts[0]:9.0f}"
    print(f"{context:6,}{each}{ratios}{apart:15.1e}")

# %% [markdown]
# The columns "1e9 a s" are multiplications per second. Where the clock's ratio is the smaller one,
# the absorbed form has fewer multiplications and runs them at a lower rate: a vector or 16 rows at a
# time, where the other form multiplies whole matrices, and numpy's cost of a call on top. It is no
# tuned kernel.

# %% [markdown]
# ## What the absorbed form asks of a GPU
#
# Decoding with ordinary heads is limited by memory (milestones 4 and 5): with MHA each number read
# from the cache is multiplied once. With a latent all 128 heads use the same 576 numbers: 128 ·
# 1,088 / 576 = **242** multiplications per number read (the count below is a little higher: it has
# the query's way in and the mixture's way out, too). In 16 bits that is 484 operations per 2 bytes,
# 242 per byte, and an H100 can do about 295 per byte it reads (989 TFLOP/s over 3.35 TB/s, its data
# sheet). So MLA trades the memory that decoding lacks for arithmetic it had to spare, and nearly
# all of it.

# %%
print("multiplications per number read from the cache, one layer, one new token, 4,096 of context:")
plain = {"MHA, 128 KV heads": 128, "GQA, 8": 8, "MQA, 1": 1}
for name, kv_heads in plain.items():
    per_pair = 128 * (128 + 128)  # a score and a value, in each of 128 query heads of 128
    print(
        f"  {name:20} {per_pair / (2 * kv_heads * 128):7.1f}   numbers read {4096 * 2 * kv_heads * 128:12,}"
    )
step = multiplications(V2, 1, 4095, True)
print(f"  {'MLA, absorbed':20} {step / (4096 * 576):7.1f}   numbers read {4096 * 576:12,}")

# %% [markdown]
# ## What you can now answer in an interview
#
# - *What does MLA keep of a token?* One latent and one rotary key per layer: 512 + 64 numbers in
#   DeepSeek-V2, the cache of 2.25 KV heads, for 128 heads.
# - *Where does "93.3 % less" come from?* From bytes of a deployed model against bytes of its
#   predecessor: a latent, fewer layers, and 6 bits for 16. From the two shapes alone it is 82.2 %.
# - *What is absorption?* Moving `w_uk` from the cached side of a dot product to the query's, and
#   `w_uv` behind the weighted sum. The same numbers up to rounding, and no key is ever built.
# - *Why a separate rotary key?* With turned keys, what stands between query and latent depends on
#   their distance; nothing fixed is left to absorb. A turned latent breaks the dependence on
#   distance alone.
# - *When not to absorb?* When many tokens come at once: a pair costs 1,088 instead of 320. They
#   cross near 171 once the context is long.
# - *What happens to old keys when weights change?* They follow `w_uk`, for they are made anew at
#   every step; the latents stay.

# %% [markdown] tags=["questions"]
# ## Check your understanding
#
# Three questions, graded like everything else. Answer on paper first. Under a choice, copy the
# words of one option into `understanding`, between quotes. A wrong answer is told what it
# overlooks.


# %% tags=["exercise"]
understanding: dict = {
    "why_a_key_of_its_own": "A turn between w_uq and w_uk differs with the distance: no single matrix could be absorbed",
    "when_to_absorb": "Rebuilding old tokens costs as much for one new token as for a thousand; absorbed pairs cost more each",
}


# %% tags=["exercise"]
def cache_cut(
    values_per_token: int, bits: float, old_values_per_token: int, old_bits: float
) -> float:
    """Return the share by which a model's cache is smaller than an older one's, per token.

    Args:
        values_per_token: numbers the new model keeps of a token, over all layers.
        bits: bits it stores each of them in.
        old_values_per_token: the same of the old model.
        old_bits: the same of the old model.

    Returns:
        A fraction: 0.25 where the new cache takes three quarters of the bytes.
    """
    return 1 - (values_per_token * bits) / (old_values_per_token * old_bits)
