# %% [markdown]
# # Milestone 4: the cache changes the work, not the answer
#
# A language model writes one token at a time, and each new token looks back at all earlier ones.
# Done naively, every step computes the whole text again. With a **KV cache** every step computes
# one token and reads the rest from memory. Both give the same logits. In this milestone you build
# both, show that they agree to the last few bits, and count what the cache saves.
#
# **You will write** `full_logits`, `new_cache`, `decode_step` and `count_key_projections`, and on
# the way `softmax`.
#
# **Check your work** at any time: type `%load_ext grader` into a cell, once, and then `%check`.
# It asks what is defined in this notebook right now. `grader check 4` in a terminal grades the saved
# file from a fresh start, as your hand-in will be.

# %% tags=["given"]
import math

import matplotlib.pyplot as plt
import numpy as np

# %% [markdown]
# ## One decode step on paper
#
# Take the smallest attention there is: one layer, one head, vectors of 2 numbers. Two tokens have
# been read, the third arrives. After embedding, the three tokens are
#
# $$x_0 = (1, 0) \qquad x_1 = (0, 1) \qquad x_2 = (1, 1)$$
#
# and the three weight matrices (vectors are multiplied from the left) are
#
# $$W_q = \begin{pmatrix}1 & 1\\ 0 & 1\end{pmatrix} \qquad
#   W_k = \begin{pmatrix}1 & 0\\ 0 & 1\end{pmatrix} \qquad
#   W_v = \begin{pmatrix}2 & 0\\ 0 & 1\end{pmatrix}$$
#
# The keys and values of the first two tokens were computed when those tokens were read, and kept:
#
# | token | key $x W_k$ | value $x W_v$ | |
# |---|---|---|---|
# | 0 | (1, 0) | (2, 0) | in the cache |
# | 1 | (0, 1) | (0, 1) | in the cache |
# | 2 | (1, 1) | (2, 1) | **computed now**, and appended |
#
# **Predict with pencil and paper.** The new token asks with its query $q = x_2 W_q = (1, 2)$.
#
# 1. Dot products of the query with the three keys: 1, 2, 3.
# 2. Divided by $\sqrt{2}$, the root of the head's size: 0.707, 1.414, 2.121.
# 3. Softmax. Take off the largest and exponentiate: 0.243, 0.493, 1; their sum is 1.736, so the
#    weights are **0.140, 0.284, 0.576**.
# 4. Output, the weighted sum of the values:
#    (0.140 · 2 + 0.576 · 2, 0.284 · 1 + 0.576 · 1) = **(1.432, 0.860)**.
#
# The next cell does the same arithmetic, number by number.

# %%
query = (1 * 1 + 1 * 0, 1 * 1 + 1 * 1)  # x2 times the columns of W_q
new_key = (1 * 1 + 1 * 0, 1 * 0 + 1 * 1)
new_value = (1 * 2 + 1 * 0, 1 * 0 + 1 * 1)
keys_in_cache, values_in_cache = [(1, 0), (0, 1)], [(2, 0), (0, 1)]

dots = [query[0] * a + query[1] * b for a, b in [*keys_in_cache, new_key]]
scaled = [dot / math.sqrt(2) for dot in dots]
odds = [math.exp(score - scaled[2]) for score in scaled]
shares = [odd / (odds[0] + odds[1] + odds[2]) for odd in odds]
first = shares[0] * 2 + shares[1] * 0 + shares[2] * 2
second = shares[0] * 0 + shares[1] * 1 + shares[2] * 1

for label, numbers, on_paper in (
    ("query", query, (1, 2)),
    ("new key", new_key, (1, 1)),
    ("new value", new_value, (2, 1)),
    ("dot products", dots, (1, 2, 3)),
    ("divided by root 2", scaled, (0.707, 1.414, 2.121)),
    ("exponentials", odds, (0.243, 0.493, 1)),
    ("weights", shares, (0.140, 0.284, 0.576)),
    ("output", (first, second), (1.432, 0.860)),
):
    assert np.allclose(numbers, on_paper, rtol=0, atol=0.0005), label
    print(f"{label:18}", "  ".join(f"{number:6.3f}" for number in numbers), "  as on paper")

# %% [markdown]
# Look at what this step did *not* need. The old tokens' embeddings and queries were never touched:
# only their keys and values. And the step made one key where a model without a cache would have
# made three. That is the whole idea; the rest of this notebook does it for a complete model, and
# proves it.
#
# ## The model
#
# A decoder in miniature, with the parts that matter for the cache. Vectors are rows and weights
# multiply from the right: `x @ w`. All numbers are float64. `params` is a dict:
#
# | key | shape or value |
# |---|---|
# | `n_heads`, `n_kv_heads`, `head_dim` | whole numbers; `n_kv_heads` divides `n_heads` |
# | `embedding` | (vocab, d) |
# | `position` | (max_len, d) |
# | `layers` | a list of dicts, one a layer: |
# | ... `w_q` | (d, n_heads · head_dim) |
# | ... `w_k`, `w_v` | (d, n_kv_heads · head_dim) |
# | ... `w_o` | (n_heads · head_dim, d) |
# | ... `w_up`, `w_down` | (d, f) and (f, d) |
# | `unembedding` | (d, vocab) |
#
# Token number $t$ of a sequence enters as $x_t = \text{embedding}[\text{token}] +
# \text{position}[t]$. Each layer then adds to it twice, and the last line turns it into logits:
#
# $$x \leftarrow x + \text{attention}(\text{norm}(x)) \qquad
#   x \leftarrow x + \text{relu}(\text{norm}(x)\, W_\text{up})\, W_\text{down} \qquad
#   \text{logits} = \text{norm}(x)\, W_\text{unembedding}$$
#
# In the attention, the columns of `w_q` hold the query heads side by side, `head_dim` numbers
# each; those of `w_k` and `w_v` hold the KV heads. The outputs of the query heads, side by side
# again, are multiplied by `w_o`. Scores are divided by $\sqrt{d_\text{head}}$: `head_dim` is a
# number of its own, in general *not* d / n_heads.
#
# **Grouped heads.** With fewer KV heads than query heads, neighbours share: with 6 query heads
# and 3 KV heads, query heads 0 and 1 use KV head 0, heads 2 and 3 use 1, heads 4 and 5 use 2.
# In general query head $h$ uses KV head $\lfloor h / (n_\text{heads} / n_\text{kv heads}) \rfloor$.


# %% tags=["given"]
def norm(x: np.ndarray) -> np.ndarray:
    """Scale each vector (the last axis) to a mean square of 1."""
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-6)


def random_params(
    seed: int, n_layers: int, n_heads: int, n_kv_heads: int, head_dim: int, max_len: int
) -> dict:
    """Draw a toy transformer of width 12 with 20 words, to try your functions on."""
    rng = np.random.default_rng(seed)
    d, f, vocab = 12, 24, 20

    def weight(rows, columns):
        return rng.normal(size=(rows, columns)) / np.sqrt(rows)  # keeps sums of order 1

    return {
        "n_heads": n_heads,
        "n_kv_heads": n_kv_heads,
        "head_dim": head_dim,
        "embedding": rng.normal(size=(vocab, d)),
        "position": 0.7 * rng.normal(size=(max_len, d)),
        "layers": [
            {
                "w_q": weight(d, n_heads * head_dim),
                "w_k": weight(d, n_kv_heads * head_dim),
                "w_v": weight(d, n_kv_heads * head_dim),
                "w_o": weight(n_heads * head_dim, d),
                "w_up": weight(d, f),
                "w_down": weight(f, d),
            }
            for _ in range(n_layers)
        ],
        "unembedding": weight(d, vocab),
    }


# %% [markdown]
# ## A softmax that cannot overflow
#
# Softmax turns scores into weights: $w_i = e^{s_i} / \sum_j e^{s_j}$. Written down like that it
# breaks. The largest float64 is about $1.8 \cdot 10^{308}$, whose logarithm is **709.8**: from a
# score of 710 on, $e^s$ is infinite, and infinity over infinity is NaN. Scores do grow that way:
# the training of large vision transformers broke down on attention scores that had become too
# large (Dehghani et al. 2023, arXiv:2302.05442).
#
# The cure costs nothing. Multiply numerator and denominator by $e^{-m}$ with $m$ the largest score
# *of that row*: $w_i = e^{s_i - m} / \sum_j e^{s_j - m}$. No exponent is above 0 now, and the sum
# is at least 1.
#
# **Predict:** the scores 1000 and 1001 differ by 1, so their weights are $1/(1 + e)$ = **0.269**
# and $e/(1 + e)$ = **0.731**, the same as for 0 and 1.


# %% tags=["exercise"]
def softmax(scores: np.ndarray) -> np.ndarray:
    """Return the softmax over the last axis, for scores of any size.

    Args:
        scores: array of shape (..., n); an entry may be -inf and then gets weight 0, as long as
            its row has a finite one.

    Returns:
        Weights of the same shape; each row sums to 1.
    """
    odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


# %%
with np.errstate(over="ignore"):
    print("e^709 =", np.exp(709.0), "  e^710 =", np.exp(710.0))
print("softmax of 1000, 1001:", softmax(np.array([1000.0, 1001.0])).round(3))
print("softmax of 0, 1:      ", softmax(np.array([0.0, 1.0])).round(3))
print("with one score masked:", softmax(np.array([-np.inf, 0.0, 1.0])).round(3))

# %% [markdown]
# ## Without a cache: the whole sequence at once
#
# Given T tokens, compute T queries, keys and values in every layer, all T x T scores of a head,
# and mask those where the key comes *after* the query: a token must not see its future. A masked
# score is -inf before the softmax, so its weight is exactly 0. A token does see itself.


# %% tags=["exercise"]
def full_logits(params: dict, tokens: list[int]) -> np.ndarray:
    """Return the logits after every token of a sequence, computed from scratch.

    Args:
        params: the model, as in the table above.
        tokens: T token numbers, at least one and at most max_len.

    Returns:
        Array of shape (T, vocab); row t holds the logits after reading tokens[0] to tokens[t].
    """
    n_heads, n_kv_heads, head_dim = params["n_heads"], params["n_kv_heads"], params["head_dim"]
    group = n_heads // n_kv_heads
    n_tokens = len(tokens)
    x = params["embedding"][tokens] + params["position"][:n_tokens]
    later = np.triu(np.ones((n_tokens, n_tokens), dtype=bool), k=1)
    for layer in params["layers"]:
        h = norm(x)
        q = (h @ layer["w_q"]).reshape(n_tokens, n_heads, head_dim)
        k = (h @ layer["w_k"]).reshape(n_tokens, n_kv_heads, head_dim)
        v = (h @ layer["w_v"]).reshape(n_tokens, n_kv_heads, head_dim)
        mixed = np.empty_like(q)
        for head in range(n_heads):
            kv_head = head // group
            scores = q[:, head] @ k[:, kv_head].T / np.sqrt(head_dim)
            scores[later] = -np.inf
            mixed[:, head] = softmax(scores) @ v[:, kv_head]
        x = x + mixed.reshape(n_tokens, -1) @ layer["w_o"]
        x = x + np.maximum(norm(x) @ layer["w_up"], 0) @ layer["w_down"]
    return norm(x) @ params["unembedding"]


# %% [markdown]
# **Predict:** change one token of a sequence. Which logits move? Those of that token and of all
# later ones, and *exactly none* before it. Draw it as a square, one row for each changed token:
# the moved logits fill one triangle, diagonal included, and the other triangle is exactly zero.

# %%
params = random_params(seed=1, n_layers=2, n_heads=4, n_kv_heads=2, head_dim=5, max_len=64)
tokens = [3, 14, 15, 9, 2, 6, 5, 3, 5, 8, 9, 7]
base = full_logits(params, tokens)
moved = np.zeros((len(tokens), len(tokens)))
for changed in range(len(tokens)):
    other = [*tokens[:changed], 19, *tokens[changed + 1 :]]
    moved[changed] = np.abs(full_logits(params, other) - base).max(axis=1)

fig, ax = plt.subplots(figsize=(5.4, 4.4))
image = ax.imshow(np.where(moved > 0, moved, np.nan), cmap="viridis", vmin=0)
ax.set(xlabel="logits after token number", ylabel="token that was changed")
ax.set_xticks(range(0, len(tokens), 2))
ax.set_yticks(range(0, len(tokens), 2))
ax.set_title("White: exactly unchanged")
fig.colorbar(image, label="largest change of a logit")
plt.show()
print("largest change before the changed token:", np.tril(moved, -1).max())
print("tokens that moved:", int((moved > 0).sum()), "of", moved.size, "- a triangle of 12 has 78")

# %% [markdown]
# ## Why old keys never change
#
# The picture shows logits; the cache needs the same for what lies inside. Take layer 1. The key of
# token $t$ is made of $x_t$ alone, so it depends on token $t$ only. The layer's output at $t$ mixes
# values of tokens up to $t$: it depends on tokens up to $t$. That output is the input of layer 2,
# so its key at $t$ depends on tokens up to $t$, and so on through every layer. **Nothing that is
# computed for a token depends on a later one**, so nothing has to be computed again when a later
# one arrives. Three questions settle what to keep:
#
# - *Keys and values?* Every later query needs them: keep.
# - *Queries?* The query of token $t$ is used once, at step $t$: throw away.
# - *The vectors $x$ and the logits of old tokens?* Only their keys and values are ever read again:
#   throw away.
#
# **One thing is easy to get wrong: the position.** A decode step gets one token and no index. Its
# position is the number of tokens that came before, and that is *the number of tokens in the
# cache*. Here it picks a row of `position`. Models with rotary positions (RoPE) turn each query and
# key by an angle proportional to its position, and the turned key goes into the cache, so a wrong
# position at one step stays in the cache for good.
#
# **Predict:** turn the query (1, 2) at position 7 and the key (1, 1) at position 5 by half a radian
# per position. Only the distance, 2 positions or 1 radian, matters:
# $1 \cdot (\cos 1 + \sin 1) + 2 \cdot (\cos 1 - \sin 1)$ = **0.779**, and the same at positions 102
# and 100. Were the query's position one too low, the score would be **2.153**.


# %%
def turned(vector, position):
    """Rotate a vector of two numbers by half a radian per position."""
    a, b = vector
    cos, sin = math.cos(0.5 * position), math.sin(0.5 * position)
    return np.array([cos * a - sin * b, sin * a + cos * b])


for at_query, at_key in ((7, 5), (102, 100), (6, 5)):
    dot = np.sum(turned((1, 2), at_query) * turned((1, 1), at_key))
    print(f"query at {at_query:3}, key at {at_key:3}: score {dot:.3f}")

# %% [markdown]
# ## With a cache: one token at a time
#
# The cache is yours to design: lists that grow, or arrays for max_len tokens and a count of those
# filled. `decode_step` takes it, adds one token's keys and values in every layer, and returns it.
# Each sequence has a cache of its own. A step needs no mask: the future is not in the cache.


# %% tags=["exercise"]
def new_cache(params: dict) -> dict:
    """Return an empty cache for one sequence; two calls return two that share nothing.

    Args:
        params: the model, which tells the cache's sizes.

    Returns:
        Whatever your `decode_step` understands. Nobody else looks inside.
    """
    shape = (
        len(params["layers"]),
        len(params["position"]),
        params["n_kv_heads"],
        params["head_dim"],
    )
    return {"length": 0, "k": np.zeros(shape), "v": np.zeros(shape)}


# %% tags=["exercise"]
def decode_step(params: dict, cache: dict, token: int) -> tuple[np.ndarray, dict]:
    """Read one more token: return the logits after it, and the cache with it inside.

    Only this token goes through the layers. Its keys and values join the cache; those of earlier
    tokens are read from it as they are, even when `params` are not those they were made with.

    Args:
        params: the model, as in the table above.
        cache: from `new_cache`, or from the step before. It may be changed in place: the caller
            goes on with the returned one only.
        token: the new token's number. Its position is the number of tokens in the cache.

    Returns:
        The logits, of shape (vocab,), and the cache.
    """
    n_heads, n_kv_heads, head_dim = params["n_heads"], params["n_kv_heads"], params["head_dim"]
    group = n_heads // n_kv_heads
    t = cache["length"]
    x = params["embedding"][token] + params["position"][t]
    for i, layer in enumerate(params["layers"]):
        h = norm(x)
        q = (h @ layer["w_q"]).reshape(n_heads, head_dim)
        cache["k"][i, t] = (h @ layer["w_k"]).reshape(n_kv_heads, head_dim)
        cache["v"][i, t] = (h @ layer["w_v"]).reshape(n_kv_heads, head_dim)
        k, v = cache["k"][i, : t + 1], cache["v"][i, : t + 1]
        mixed = np.empty_like(q)
        for head in range(n_heads):
            kv_head = head // group
            scores = k[:, kv_head] @ q[head] / np.sqrt(head_dim)
            mixed[head] = softmax(scores) @ v[:, kv_head]
        x = x + mixed.reshape(-1) @ layer["w_o"]
        x = x + np.maximum(norm(x) @ layer["w_up"], 0) @ layer["w_down"]
    cache["length"] = t + 1
    return norm(x) @ params["unembedding"], cache


# %% [markdown]
# **Predict:** how far apart may the two ways be? They do the same multiplications in another
# order. A float64 number is rounded by at most $1.1 \cdot 10^{-16}$ of itself, logits are of order
# 1, and the sums are short. So expect differences of some $10^{-15}$, and none that grows from step
# to step. The check allows $10^{-12}$ plus $10^{-9}$ of the logit.

# %%
fig, ax = plt.subplots(figsize=(7, 4))
worst = 0.0
for label, marker, n_kv_heads in (("MHA", "o", 6), ("GQA", "s", 3), ("MQA", "^", 1)):
    model = random_params(2, n_layers=3, n_heads=6, n_kv_heads=n_kv_heads, head_dim=5, max_len=48)
    sequence = np.random.default_rng(3).integers(0, 20, 48).tolist()
    without = full_logits(model, sequence)
    kept = new_cache(model)
    difference = []
    for t, token in enumerate(sequence):
        logits, kept = decode_step(model, kept, token)
        difference.append(np.abs(logits - without[t]).max())
    worst = max(worst, *difference)
    label = f"{label}, KV heads: {n_kv_heads}"
    ax.plot(np.maximum(difference, 1e-17), marker, ms=4, label=label)
ax.axhline(1e-12, color="grey", ls="--", lw=1)
ax.text(0, 1.4e-12, "what the check allows at a logit of 0", color="grey")
ax.axhline(2.2e-16, color="grey", ls=":", lw=1)
ax.text(0, 1.2e-16, "spacing of float64 numbers at 1", color="grey", va="top")
ax.set(yscale="log", ylim=(2e-17, 1e-11))
ax.set(xlabel="decode step", ylabel="largest difference of a logit")
ax.set_title("Logits with a cache against logits without, three layers")
ax.legend(loc="center right", bbox_to_anchor=(1, 0.62))
plt.show()
print("every difference is below 1e-13:", bool(worst < 1e-13))

# %% [markdown]
# ## A cache remembers the weights, too
#
# Equal logits do not prove that a cache is used: a `decode_step` that stores the tokens and calls
# `full_logits` passes as well. What tells them apart is a change of weights in mid-sequence. Real
# systems do that: in reinforcement learning the weights may be updated while answers are being
# written, and the cache kept (PipelineRL, Piché et al. 2025, arXiv:2509.19128). What lies in it
# then is what the *old* weights made of the old tokens.
#
# **Predict:** switch from model A to model B after 4 tokens. The first four steps equal A's
# logits. From the fifth on the logits equal neither A's nor B's. Computing all again with B would
# give B's; a cache must not. (A server that wants B's answer has to drop the cache.)

# %%
model_a = random_params(4, n_layers=2, n_heads=4, n_kv_heads=2, head_dim=5, max_len=8)
model_b = random_params(5, n_layers=2, n_heads=4, n_kv_heads=2, head_dim=5, max_len=8)
short = [3, 14, 15, 9, 2, 6, 5, 8]
all_a, all_b = full_logits(model_a, short), full_logits(model_b, short)
kept = new_cache(model_a)
print("step  model  from all-A  from all-B")
for t, token in enumerate(short):
    logits, kept = decode_step(model_a if t < 4 else model_b, kept, token)
    from_a, from_b = (np.abs(logits - whole[t]).max() for whole in (all_a, all_b))
    print(f"{t:4}  {'A' if t < 4 else 'B':5}  {from_a:10.3f}  {from_b:10.3f}")

# %% [markdown]
# ## Count the work
#
# Write n tokens one at a time and count how often one layer multiplies a token's vector by `w_k`.
#
# - With a cache: once a step, **n** in all.
# - Without: the step that reads token number t (from 1) computes the keys of all t tokens. In all
#   $1 + 2 + \dots + n$. Write the sum twice, once backwards: n columns that each add up to n + 1.
#   So it is half of $n (n + 1)$.
#
# **Predict:** for 16 tokens **16** against 16 · 17 / 2 = **136**. The ratio is (n + 1) / 2, so at
# 4,096 tokens it is about 2,048.


# %% tags=["exercise"]
def count_key_projections(n_tokens: int, use_cache: bool) -> int:
    """Return how many keys one layer computes while n_tokens are decoded one at a time.

    Args:
        n_tokens: decode steps, starting from an empty sequence; at least 1.
        use_cache: whether each step computes its own token only, or all tokens so far.

    Returns:
        The number of times a token's vector is multiplied by w_k, in one layer, over all steps.
    """
    return n_tokens if use_cache else n_tokens * (n_tokens + 1) // 2


# %% [markdown]
# A formula is a claim; count for real. A weight that counts the rows it is multiplied with takes
# the place of `w_k` in the first layer. (It sees products written `x @ w`, as in this notebook.)


# %%
class Counted(np.ndarray):
    """A weight matrix that counts the vectors it is multiplied with."""

    rows = 0

    def __rmatmul__(self, x):
        """Multiply as ever, and count the rows of x."""
        Counted.rows += np.size(x) // np.shape(x)[-1]
        return np.asarray(x) @ np.asarray(self)


model = random_params(6, n_layers=2, n_heads=4, n_kv_heads=2, head_dim=5, max_len=16)
model["layers"][0]["w_k"] = model["layers"][0]["w_k"].view(Counted)
sixteen = [3, 14, 15, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3]

kept = new_cache(model)
cached_at, full_at = [], []
for t in range(16):
    Counted.rows = 0
    _, kept = decode_step(model, kept, sixteen[t])
    cached_at.append(Counted.rows)
    Counted.rows = 0
    full_logits(model, sixteen[: t + 1])
    full_at.append(Counted.rows)
print(f"counted: {sum(cached_at)} with a cache, {sum(full_at)} without")
print(f"formula: {count_key_projections(16, True)} with a cache, ", end="")
print(f"{count_key_projections(16, False)} without")

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
steps = np.arange(1, 17)
left.bar(steps - 0.2, full_at, 0.4, color="tab:orange", label=f"without: {sum(full_at)} in all")
left.bar(steps + 0.2, cached_at, 0.4, color="tab:blue", label=f"with a cache: {sum(cached_at)}")
left.set(xlabel="decode step", ylabel="key projections in this step", title="Counted, 16 tokens")
left.legend(loc="upper left")
lengths = 2 ** np.arange(13)
right.plot(
    lengths,
    [count_key_projections(int(n), False) for n in lengths],
    color="tab:orange",
    label="without a cache, n (n + 1) / 2",
)
right.plot(
    lengths,
    [count_key_projections(int(n), True) for n in lengths],
    color="tab:blue",
    label="with a cache, n",
)
right.plot([16, 16], [16, 136], "k.")
right.annotate("136", (16, 136), textcoords="offset points", xytext=(-8, 6), ha="right")
right.annotate("16", (16, 16), textcoords="offset points", xytext=(8, -10))
right.set(xscale="log", yscale="log", xlabel="tokens n", ylabel="key projections in all")
right.set_title("One layer, n tokens")
right.legend(loc="upper left")
fig.tight_layout()
plt.show()

# %% [markdown]
# ## What it saves and what it costs in a real model
#
# Count one decode step of a model the size of Llama-3-8B (32 layers, width 4,096, 32 query heads
# and 8 KV heads of 128, gated MLP of 14,336, vocabulary 128,256; from its released config.json) at
# 4,096 tokens, 16 bits. A weight used for one token is one multiplication and one addition, 2
# FLOPs. Per layer the weights number 2 · 4096² + 2 · 4096 · 1024 + 3 · 4096 · 14336 = 218.1
# million; the unembedding has 525 million and is applied to the last token only.
#
# **Predict:**
#
# - With a cache: 2 · (32 · 218.1e6 + 525e6) = 15.0 GFLOP for the weights, and for attention 4 FLOPs
#   per layer, per number of all query heads and per token, 4 · 32 · 4096 · 4096 = 2.1 GFLOP:
#   **17.2 GFLOP**.
# - Without: 4,096 tokens through every layer, 57 TFLOP, and attention over half a square, 4.4
#   TFLOP: **61.6 TFLOP**, some 3,600 times as much.
# - Bytes to read: the weights either way, 15.0 GB. The cache adds 131,072 bytes a token (milestone
#   2), 0.54 GB: **3.6 % more bytes**.
#
# So the cache trades 3,600 times less arithmetic for 4 % more reading. It also moves the
# bottleneck: about 1 FLOP remains for every byte read, where an H100 could do about 295 (989
# TFLOP/s over 3.35 TB/s, its data sheet). From here on, **decoding is limited by memory, not by
# arithmetic**, and that is what milestones 5 and 6 are built on.

# %%
layers, width, heads_width, kv_width, inner, vocab = 32, 4096, 32 * 128, 8 * 128, 14336, 128256
layer_weights = 2 * width * heads_width + 2 * width * kv_width + 3 * width * inner
context = 4096

print("one step at 4,096 tokens      TFLOP    GB read   FLOPs per byte")
for label, tokens_run, pairs, cache_bytes in (
    ("with a cache", 1, context, 2 * layers * kv_width * 2 * context),
    ("without", context, context * (context + 1) / 2, 0),
):
    flops = 2 * layers * layer_weights * tokens_run + 2 * width * vocab
    flops += 4 * layers * heads_width * pairs
    bytes_read = 2 * (layers * layer_weights + width * vocab) + cache_bytes
    print(f"{label:22} {flops / 1e12:12.4f} {bytes_read / 1e9:10.2f} {flops / bytes_read:13,.1f}")

# %% [markdown]
# ## What you can now answer in an interview
#
# - *Does a KV cache change what a model says?* No: the same logits, up to the rounding of sums in
#   another order, about 1e-15 in float64. It changes the work.
# - *Why is it allowed to keep old keys and values?* Attention is causal: nothing computed for a
#   token depends on a later one, in any layer.
# - *Why not cache queries?* A query is used at its own step and never again.
# - *What does it save?* n key projections instead of n (n + 1) / 2: 16 against 136 for 16 tokens.
# - *What does it cost?* Memory that grows with every token, and it leaves decoding limited by
#   memory traffic.
# - *Where does the position of a new token come from?* From the number of tokens in the cache.
# - *When is a cache wrong?* When what made it has changed: other weights, another adapter, another
#   position.

# %% [markdown] tags=["questions"]
# ## Check your understanding
#
# Four questions, graded like everything else. Answer on paper first. Under a choice, copy the words
# of one option into `understanding`, between quotes. A wrong answer is told what it overlooks.


# %% tags=["exercise"]
understanding: dict = {
    "training_and_the_cache": "No: all tokens of a sequence are known and computed in one pass, each key once",
    "why_no_queries": "A query is needed at the step of its own token and never again",
    "prefix_caching": "The keys and values of a token depend on the tokens up to it, and these are the same",
}


# %% tags=["exercise"]
def prefill_tokens(
    n_requests: int, shared_tokens: int, own_tokens: int, prefix_cached: bool
) -> int:
    """Return for how many tokens keys and values are computed before decoding starts.

    Args:
        n_requests: requests that begin with the same tokens, 1 or more.
        shared_tokens: the tokens that all of them begin with.
        own_tokens: further tokens of each prompt, which no other has.
        prefix_cached: whether keys and values of the shared tokens are kept for the next request;
            the first request finds nothing yet.

    Returns:
        Tokens, over all requests.
    """
    prefixes = 1 if prefix_cached else n_requests
    return prefixes * shared_tokens + n_requests * own_tokens
