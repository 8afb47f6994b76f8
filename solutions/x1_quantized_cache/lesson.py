# %% [markdown]
# # Lab x1: a quantized cache
#
# A KV cache in 16 bits is a habit, not a need. In 8 bits it holds twice the tokens, in 4 four times.
# What does that cost? In this lab you write the number formats yourself, bit by bit, run a small
# language model on what comes back from them, and measure the price in perplexity. On the way you
# find out why a scale must be shared by the right numbers, and what happens when it is not.
#
# **You will write** `to_int`, `from_int`, `from_fp8`, `to_fp8`, `through_groups`, `profile`,
# `profile_lm`, `cache_bytes`, `as_seen` and `perplexity`.
#
# **Check your work** at any time: type `%load_ext grader` into a cell, once, and then `%check`.
# It asks what is defined in this notebook right now. `grader check x1` in a terminal grades the saved
# file from a fresh start, as your hand-in will be.

# %% tags=["given"]
import json
import math
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

DATA = next(
    p / "data" for p in [Path.cwd(), *Path.cwd().parents] if (p / "data/train.csv").exists()
)

# %% [markdown]
# ## The model
#
# `data/small_lm/` holds a language model of 0.87 million weights, trained on the documentation of
# Python: 4 layers, 4 query heads and **2 KV heads of 32**, rotary positions, a context of 512 tokens.
# Its cache takes 2 · 4 · 2 · 32 = 512 numbers a token, **1,024 bytes** in 16 bits. It runs in NumPy:
# the next cell is all of it. `logits_of` computes a whole text in one pass, and has two hooks that
# matter here: `on_keys` and `on_values` are given each layer's keys and values *as a cache would hold
# them*, of shape (tokens, KV heads, 32), and attention goes on with what they return. So a hook that
# returns the round trip through a format shows what a quantized cache would do.


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


lm = load_lm(DATA / "small_lm")

# %% [markdown]
# Texts it has not seen, with the start token in front. **Perplexity** is the exponential of the mean
# loss: a model that had to guess among k equally likely tokens would have perplexity k. The vocabulary
# has 1,024 tokens, so knowing nothing is 1,024.

# %%
with np.load(DATA / "small_lm" / "held_out.npz") as stored:
    held_out = stored["tokens"].astype(int)
pieces = [np.concatenate(([0], row[:-1])) for row in held_out[:12]]
kept = {"keys": {}, "values": {}}  # what one text leaves in the cache, by layer


def keep(name):
    """Return a hook that keeps what it is given, and gives it back as it is."""

    def hook(layer, x):
        kept[name][layer] = x
        return x

    return hook


logits = logits_of(lm, pieces[0], keep("keys"), keep("values"))
print(
    "numbers in the cache, per token:", sum(x[0].size for of in kept.values() for x in of.values())
)
print(f"perplexity of one text: {math.exp(losses(logits, pieces[0]).mean()):.1f}")

# %% [markdown]
# ## Whole numbers and a scale
#
# The plainest format: agree on a step $s$, and store how many steps a number is, rounded. With
# $b$ bits there are codes from $-m$ to $m$, where $m = 2^{b-1} - 1$: **127** for 8 bits, **7** for 4,
# **1** for 2. (The code $-m - 1$ exists, and stays unused: so zero lies in the middle.) The largest
# number must fit, so
#
# $$s = \frac{\max |x|}{m} \qquad \text{code} = \text{round}(x / s) \qquad \hat{x} = \text{code} \cdot s$$
#
# The maximum runs over the numbers that *share* the scale. Who shares it is the question of this
# lab:
#
# | `share` | one scale for | over the axes | scales, for n tokens |
# |---|---|---|---|
# | `"tensor"` | all keys of a layer | 0, 1, 2 | 1 |
# | `"token"` | one token's vector of one head | 2 | n · heads |
# | `"channel"` | one number of one head, in all tokens | 0 | heads · head_dim |
#
# Round to the nearest, and an exact tie to the even code, as `np.rint` does. If all numbers that
# share a scale are 0, their codes are 0, and what comes back must be 0.


# %% tags=["given"]
SHARED_OVER = {"tensor": (0, 1, 2), "token": (2,), "channel": (0,)}


# %% tags=["exercise"]
def to_int(x: np.ndarray, bits: int, share: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of numbers in `bits` bits, and the scales that go with them.

    Args:
        x: (tokens, heads, channels), float32 or float64.
        bits: 2 to 8.
        share: which numbers share a scale: "tensor", "token" or "channel".

    Returns:
        The codes, an int8 array of the shape of x; and the scales, an array that x can be divided
        by: with 1 in place of each axis that a scale is shared over.
    """
    most = 2 ** (bits - 1) - 1
    scale = np.abs(x).max(axis=SHARED_OVER[share], keepdims=True) / most
    scale = np.where(scale > 0, scale, 1)
    return np.rint(x / scale).astype(np.int8), scale


# %% tags=["exercise"]
def from_int(codes: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the numbers that codes and scales stand for, in the shape of the codes."""
    return codes * scale


# %% [markdown]
# **How large is the error?** Rounding moves a number by up to half a step, either way, all distances
# equally likely: on average of squares $s^2 / 12$. So relative to the size of the numbers (both as
# roots of mean squares)
#
# $$\frac{\text{error}}{\text{size}} = \frac{s}{\sqrt{12}\,\text{rms}} = \frac{\max / \text{rms}}{\sqrt{12}\; m}$$
#
# **Predict.** Of 32 numbers from a normal distribution, the largest is about 2.4 times the rms. So
# one scale a token gives 2.4 / (3.46 · 127) = **0.55 %** at 8 bits, 2.4 / (3.46 · 7) = **10 %** at 4,
# and twice as much or a little more for every bit that goes. One scale for a whole tensor has to reach
# for the largest of 32,768 numbers: more.


# %%
def relative_error(x, seen):
    """Return the error of what comes back, relative to the size of what was there."""
    return np.linalg.norm(seen - x) / np.linalg.norm(x)


print("relative error, %        keys                        values")
print("bits             tensor   token channel     tensor   token channel")
for bits in (8, 6, 4, 3, 2):
    line = [
        np.mean([relative_error(x, from_int(*to_int(x, bits, share))) for x in of.values()])
        for of in kept.values()
        for share in SHARED_OVER
    ]
    print(f"{bits:4}        ", "".join(f"{100 * e:8.2f}" for e in line[:3]), end="   ")
    print("".join(f"{100 * e:8.2f}" for e in line[3:]))

# %% [markdown]
# The prediction for 8 and 4 bits holds within a few tenths of itself. With 2 bits there are three
# codes, and the simple argument ends: too many numbers round to 0.
#
# ## FP8: a float in eight bits
#
# The other way to spend 8 bits is to let the step grow with the number. A code is a sign, an exponent
# field $e$ and a rest $r$ of $t$ bits. Two formats are in use (Micikevicius et al. 2022,
# arXiv:2209.05433; the Open Compute Project's OFP8):
#
# | | sign | exponent field | rest | bias | largest | smallest | special |
# |---|---|---|---|---|---|---|---|
# | E4M3 | 1 bit | 4 bits | 3 bits | 7 | 448 | $2^{-9}$ | no infinity; NaN is 0x7F and 0xFF |
# | E5M2 | 1 bit | 5 bits | 2 bits | 15 | 57,344 | $2^{-16}$ | field 31: infinity if r = 0, else NaN |
#
# $$\text{value} = \pm \begin{cases} 2^{\,e - \text{bias}} \cdot (1 + r / 2^t) & e > 0 \text{ (normal)} \\
#   2^{\,1 - \text{bias}} \cdot r / 2^t & e = 0 \text{ (subnormal)} \end{cases}$$
#
# **By hand.** E4M3 `0 1001 101`: e = 9, r = 5: $2^2 \cdot (1 + 5/8)$ = **6.5**. E5M2 `0 10001 10`:
# e = 17, r = 2: $2^2 \cdot (1 + 2/4)$ = **6**. E4M3 `0 0000 011`: $2^{-6} \cdot 3/8$ = **0.00586**.
# And `1 0000 000` is -0: a zero with a sign.
#
# An E4M3 code with exponent field 15 is an ordinary number, unless all seven bits are ones: the format
# gave up infinity to reach 448.


# %% tags=["given"]
FP8 = {"e4m3": (3, 7, 448.0), "e5m2": (2, 15, 57_344.0)}  # bits of the rest, bias, largest


# %% tags=["exercise"]
def from_fp8(codes: list[int] | np.ndarray, kind: str) -> np.ndarray:
    """Return the values that FP8 codes stand for.

    Args:
        codes: whole numbers from 0 to 255, a list or an array of any shape.
        kind: "e4m3" or "e5m2".

    Returns:
        A float array of the shape of the codes; NaN and infinity where a code stands for them, and
        -0.0 for code 128.
    """
    rest_bits, bias, _ = FP8[kind]
    codes = np.asarray(codes).astype(int)
    field, rest = codes % 128 >> rest_bits, codes % 2**rest_bits
    value = np.where(
        field == 0,
        np.ldexp(rest.astype(float), 1 - bias - rest_bits),
        np.ldexp(2.0**rest_bits + rest, field - bias - rest_bits),
    )
    if kind == "e4m3":
        value = np.where(codes % 128 == 127, np.nan, value)
    else:
        value = np.where(field == 31, np.where(rest == 0, np.inf, np.nan), value)
    return np.where(codes >= 128, -value, value)


# %%
print("E4M3 0 1001 101:", from_fp8([0b0_1001_101], "e4m3"), "  0 0000 011:", from_fp8([3], "e4m3"))
print("E5M2 0 10001 10:", from_fp8([0b0_10001_10], "e5m2"))
for kind in FP8:
    values = from_fp8(np.arange(128), kind)
    finite = values[np.isfinite(values)]
    print(f"{kind}: {finite.size} finite codes up to {finite.max():,.0f}, smallest {finite[1]:.3g}")

# %% [markdown]
# ## Into FP8
#
# Where a number lies between $2^k$ and $2^{k+1}$, neighbours are $2^{k-t}$ apart. In units of that
# distance the number rounds like any other: to the nearest, a tie to the even. Below the smallest
# normal number, $2^{1 - \text{bias}}$, the distance stays what it is there; that is all there is to
# subnormals.
#
# **By hand.** 6.6 in E4M3: $k = 2$, the distance is $2^{-1}$, 6.6 is 13.2 of them, so 13: 6.5. And
# 6.75 is 13.5: a tie, to 14: **7**. In E5M2 the distance is 1, and 6.6 becomes **7**.
#
# Two traps. `floor(log2(x))` may be off by one just below a power of two: `np.frexp` is exact. And a
# number may round *up* to the next power of two: then its exponent field is one more. If you count
# codes (each next number is the next code), that comes by itself.
#
# **What is too large?** The standard knows two ways. In the *saturating* one, all that is beyond the
# largest number, infinity too, becomes the largest number, with its sign; in the other it becomes
# infinity or NaN. A cache wants the first: one NaN among the keys would spread to every later
# token. NaN itself stays NaN. What is too small becomes a zero that keeps its sign.


# %% tags=["exercise"]
def to_fp8(x: np.ndarray, kind: str) -> np.ndarray:
    """Return the FP8 codes nearest to numbers: ties to even, and saturating.

    Args:
        x: floats of any size; infinities and NaN may be among them.
        kind: "e4m3" or "e5m2".

    Returns:
        A uint8 array of the shape of x. A NaN gets any code that stands for NaN.
    """
    rest_bits, bias, largest = FP8[kind]
    x = np.asarray(x, dtype=np.float64)
    lost = np.isnan(x)
    size = np.minimum(np.abs(np.where(lost, 0, x)), largest)
    least = 1 - bias  # the exponent of the smallest normal number, and of all below it
    exponent = np.frexp(np.maximum(size, 2.0**least))[1] - 1
    steps = np.rint(np.ldexp(size, rest_bits - exponent))
    codes = (exponent - least) * 2**rest_bits + steps
    codes = np.where(lost, 127, codes) + 128 * np.signbit(x)
    return codes.astype(np.uint8)


# %% [markdown]
# **Predict the error.** Between two powers of two, E4M3 has 8 steps and E5M2 has 4. A step is at most
# 1/8 of the number (just above the power of two), at least 1/16. With sizes spread evenly on a
# logarithmic scale the relative error comes to $2^{-t}/\sqrt{12} \cdot \sqrt{\ln 2 / 1.5}$: **2.45 %**
# for E4M3 and **4.9 %** for E5M2, whatever the scale. So INT8 with one scale a token, at 0.55 %, should
# be **four times as exact** as E4M3 on numbers that are about equally large. A float pays for a range that
# well-behaved numbers do not need.

# %%
for label, seen in (
    ("INT8, a scale a token", lambda x: from_int(*to_int(x, 8, "token"))),
    ("E4M3", lambda x: from_fp8(to_fp8(x, "e4m3"), "e4m3")),
    ("E5M2", lambda x: from_fp8(to_fp8(x, "e5m2"), "e5m2")),
):
    of_both = [np.mean([relative_error(x, seen(x)) for x in of.values()]) for of in kept.values()]
    print(f"{label:22} relative error of keys {of_both[0]:.2%}, of values {of_both[1]:.2%}")

sizes = np.geomspace(1e-4, 8, 1500)
fig, ax = plt.subplots(figsize=(7.5, 4.2))
ints = np.append(sizes, 8.0).reshape(-1, 1, 1)
for label, seen, color in (
    ("E5M2", from_fp8(to_fp8(sizes, "e5m2"), "e5m2"), "tab:red"),
    ("E4M3", from_fp8(to_fp8(sizes, "e4m3"), "e4m3"), "tab:orange"),
    ("INT8, scale 8 / 127", from_int(*to_int(ints, 8, "tensor")).ravel()[:-1], "tab:blue"),
):
    off = np.abs(seen - sizes) / sizes
    worst = np.array([off[max(i - 25, 0) : i + 25].max() for i in range(len(off))])
    ax.plot(sizes, 100 * worst, color=color, label=label)
ax.set(
    xscale="log",
    yscale="log",
    xlabel="size of the number",
    ylabel="largest relative error nearby, %",
)
ax.set_title("The same 8 bits, spent on range or on steps")
ax.legend()
plt.show()

# %% [markdown]
# INT8 is better near its largest number and worse far below it; the lines cross where a number is
# a tenth to a twentieth of the largest. Which format wins depends on how unequal the numbers are that share a
# scale. FP8 needs no scale at all if the numbers fit: servers use it with a scale of 1 unless told
# otherwise (vLLM's documentation, "Quantized KV Cache"), and so does this lab.
#
# ## Are there outliers?
#
# In large models the keys have a few **outlier channels**, far larger than the others in all tokens,
# and the values have none: so keys should be quantized by channel and values by token. That is the
# finding of KIVI (Liu et al. 2024, arXiv:2402.02750) and of KVQuant (Hooper et al. 2024,
# arXiv:2401.18079), for Llama, Mistral and others. A scale is set by the largest number that shares it.
# If one channel is 20 times as large, then it sets the scale of *every token*, and all other channels
# round to few codes; by channel, it sets only its own.
#
# **Predict** for yourself before you run the next cell: does a model of 0.9 million weights have such
# channels?

# %%
fig, axes = plt.subplots(2, 4, figsize=(13, 4.8), sharey=True, sharex=True)
for row, name in zip(axes, ("keys", "values"), strict=True):
    for layer, ax in enumerate(row):
        largest = np.abs(kept[name][layer]).max(axis=0).ravel()
        ax.bar(
            np.arange(64), largest, width=1.0, color="tab:blue" if name == "keys" else "tab:green"
        )
        ax.axhline(np.median(largest), color="black", lw=1)
        ax.set_title(f"{name}, layer {layer}: {largest.max() / np.median(largest):.1f}")
for ax in axes[1]:
    ax.set_xlabel("channel (two heads of 32)")
for ax in axes[:, 0]:
    ax.set_ylabel("largest in 512 tokens")
fig.suptitle("Largest magnitude of each channel, in the titles the largest over the median (line)")
fig.tight_layout()
plt.show()

# %% [markdown]
# The largest key channel is a few times the median, and that of values less than twice or so: a weak
# form, at most, of what is reported of large models. That is a finding too. But a second property of
# channels is here, with the same consequence: a channel may lie **away from zero**. How much of the
# power of a tensor (its mean square) lies in the squares of its channels' means, and what does RoPE do
# to it?
#
# RoPE turns the pair of channels $(i, i + 16)$ of a key by $\theta_i = 10000^{-i/16}$ radians per
# position. A constant offset of a pair then goes round in circles. Averaged over $n$ positions, what is
# left of its length is $\left|\dfrac{\sin(n \theta_i / 2)}{n \sin(\theta_i / 2)}\right|$.
#
# **Predict** for 512 positions: a pair keeps nearly all of its offset if it turns by less than about a
# radian, $512 \cdot 10000^{-i/16} < 1$, so $i > 16 \ln 512 / \ln 10000$ = 10.8. Faster pairs lose it
# gradually: the formula leaves **pairs 11 to 15 more than 0.96, pair 10 still 0.89, pair 9 0.69**, and
# pairs 0 to 8 less than a quarter. Within 32 neighbouring tokens the same turn is reached at $i$ = 6.

# %%
positions = np.arange(512)


def offset_share(x):
    """Return the share of all power that lies in the channels' means."""
    return float((x.mean(axis=0) ** 2).sum() / (x**2).mean(axis=0).sum())


def pair_offsets(x):
    """Return how long each pair's mean is, (heads, 16)."""
    mean = x.mean(axis=0)
    return np.hypot(mean[:, :16], mean[:, 16:])


print("share of the power that is a constant offset of its channel")
print("layer   keys before RoPE   keys in the cache   values")
before = {layer: rotate(k, -positions) for layer, k in kept["keys"].items()}  # turned back
for layer in range(4):
    shares = [offset_share(x[layer]) for x in (before, kept["keys"], kept["values"])]
    print(f"{layer:5} {shares[0]:18.2f} {shares[1]:19.2f} {shares[2]:8.2f}")

most = max(before, key=lambda layer: offset_share(before[layer]))
pairs = np.arange(16)
theta = 10_000.0 ** (-pairs / 16)
theory = np.abs(np.sin(512 * theta / 2) / (512 * np.sin(theta / 2)))
then, now = pair_offsets(before[most]), pair_offsets(kept["keys"][most])
fig, ax = plt.subplots(figsize=(7, 4))
ax.plot(pairs, theory, color="grey", label="a constant offset, on paper")
for head in range(2):
    ax.plot(pairs, now[head] / then[head], "os"[head], label=f"measured, head {head}")
ax.axvline(10.8, color="grey", ls=":", lw=1)
ax.set(
    xlabel="pair of channels (0 turns fastest)", ylabel="offset in the cache / offset before RoPE"
)
ax.set_title(f"What RoPE leaves of the offsets, keys of layer {most}, 512 tokens")
ax.set_ylim(0, 1.15)
ax.legend()
plt.show()

# %% [markdown]
# Above the first layer, about half of the keys' power or more is offsets, before RoPE; RoPE blurs them, in
# the slow pairs least. (KVQuant quantizes keys *before* RoPE for this reason. In large models, too, much
# of what passes for outliers of keys is offsets of slow pairs: Jonasson 2025, arXiv:2503.01832.) Values
# have smaller ones. A symmetric scale wastes codes on a channel that lies on one side of zero. So give
# each group a zero point.
#
# ## Groups with a zero point
#
# Split the numbers into groups of `group`. In each, code 0 stands for the smallest number and the last
# code, $2^b - 1$, for the largest:
#
# $$\text{zero} = \min x \qquad s = \frac{\max x - \min x}{2^b - 1} \qquad
#   \text{code} = \text{round}\left(\frac{x - \text{zero}}{s}\right) \qquad \hat{x} = \text{code} \cdot s + \text{zero}$$
#
# A group runs either along the tokens of one channel (**by channel**) or along the channels of one
# token's head (**by token**). With groups of equal size both cost the same: two 16-bit numbers a group. So
# this is the fair comparison, which one scale for 512 tokens against one for 32 channels was not.
#
# | `along` | a group is | that is |
# |---|---|---|
# | `"tokens"` | one channel of one head, `group` tokens in a row | by channel |
# | `"channels"` | one token and head, `group` channels in a row | by token |
#
# **A cache grows token by token.** A group along tokens has its scale only when its last token is
# there. Until then its tokens **wait in 16 bits**: they come back as they are. So of n tokens the last
# n mod `group` wait.


# %% tags=["exercise"]
def through_groups(x: np.ndarray, bits: int, group: int, along: str) -> np.ndarray:
    """Return what comes back of numbers quantized in groups, each with a scale and a zero point.

    Args:
        x: (tokens, heads, channels).
        bits: 2 to 8.
        group: how many numbers share a scale and a zero point; along channels it divides their
            number. Along tokens groups start at the first one, and those that do not fill a last
            group come back as they are.
        along: "tokens" or "channels".

    Returns:
        An array of the shape of x; scales and zero points are not rounded to 16 bits. Where all numbers of a group are equal, they come back so.
    """
    axis = {"tokens": 0, "channels": 2}[along]
    moved = np.moveaxis(x, axis, -1)
    whole = moved.shape[-1] // group * group
    parts = moved[..., :whole].reshape(*moved.shape[:-1], -1, group)
    zero = parts.min(axis=-1, keepdims=True)
    step = (parts.max(axis=-1, keepdims=True) - zero) / (2**bits - 1)
    step = np.where(step > 0, step, 1)
    back = np.rint((parts - zero) / step) * step + zero
    back = np.concatenate((back.reshape(*moved.shape[:-1], whole), moved[..., whole:]), axis=-1)
    return np.moveaxis(back, -1, axis)


# %% [markdown]
# ## Measure it: a profile
#
# Three figures tell what a tensor wants. How much larger is its largest channel than the median one,
# each channel taken at its largest magnitude over the tokens (a channel is one number of *one head*)?
# How large is the relative error (root of the summed squares of the error over that of the numbers) in
# groups along channels, by token? And along tokens, by channel? The smaller error says which way to group.


# %% tags=["exercise"]
def profile(x: np.ndarray, bits: int, group: int) -> np.ndarray:
    """Return what tells how to quantize a tensor.

    Args:
        x: (tokens, heads, channels).
        bits: of the codes.
        group: how many numbers share a scale and a zero point.

    Returns:
        Three numbers: the largest channel over the median channel, by largest magnitude; the
        relative error of groups along channels; and that of groups along tokens.
    """
    largest = np.abs(x).max(axis=0)
    errors = [
        np.linalg.norm(through_groups(x, bits, group, along) - x) / np.linalg.norm(x)
        for along in ("channels", "tokens")
    ]
    return np.array([largest.max() / np.median(largest), *errors])


# %% tags=["exercise"]
def profile_lm(tokens: list[int], bits: int, group: int) -> np.ndarray:
    """Return the profiles of the small model's own keys and values, layer by layer.

    Args:
        tokens: a text, the start token first.
        bits: of the codes.
        group: how many numbers share a scale and a zero point.

    Returns:
        An array (layers, 2, 3): for each layer the profile of its keys, then of its values, as the
        model `lm` computes them in 16 bits or more.
    """
    found = np.zeros((lm["n_layers"], 2, 3))

    def on_keys(layer, k):
        found[layer, 0] = profile(k, bits, group)
        return k

    def on_values(layer, v):
        found[layer, 1] = profile(v, bits, group)
        return v

    logits_of(lm, np.asarray(tokens), on_keys, on_values)
    return found


# %% [markdown]
# **Predict.** Within 32 neighbouring tokens pairs 7 to 15 of a key hardly turn, so their offset is taken
# out by the zero point: by channel should win for keys, most where the offsets are large. Values have
# little offset, and no outliers: there it should make little difference.

# %%
print("relative error at 4 bits, groups of 32, equal bytes")
print("layer   keys: by token  by channel   values: by token  by channel")
profiles = np.mean([profile_lm(piece, 4, 32) for piece in pieces[:4]], axis=0)
for layer, (k, v) in enumerate(profiles):
    print(f"{layer:5} {k[1]:16.3f} {k[2]:11.3f} {v[1]:18.3f} {v[2]:11.3f}")

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True)
for ax, of, name in zip(axes, (0, 1), ("keys", "values"), strict=True):
    ax.bar(np.arange(4) - 0.2, 100 * profiles[:, of, 1], 0.4, color="tab:orange", label="by token")
    ax.bar(np.arange(4) + 0.2, 100 * profiles[:, of, 2], 0.4, color="tab:blue", label="by channel")
    ax.set(title=f"{name}: 4 bits, groups of 32", xlabel="layer", xticks=range(4))
axes[0].set(ylabel="relative error, %", ylim=(0, 130 * profiles[:, :, 1].max()))
axes[1].legend(loc="upper right")
fig.tight_layout()
plt.show()

# %% [markdown]
# For keys this agrees with KIVI, though for another reason: offsets more than outliers. For values KIVI
# found by token the better way; here by channel is a little better as well, since their offsets are
# small but not zero. The difference is slight, and a server would still take values by token: each
# token brings its own scales, and none has to wait. (KIVI's code and Transformers keep the newest values
# in 16 bits all the same, beside the keys that must be: it costs little and loses nothing.)
#
# ## Bytes, with everything counted
#
# Scales and zero points are stored in 16 bits: they are *counted* so, and in this lab nothing is rounded
# to them. So is what the scheme "16 bits" holds: it comes back unchanged, and costs 16 bits a number. (A
# float16 would move a number by a 2,000th of itself at most: far less than any code here.) Count per
# layer, for keys and for values:
#
# | `scheme["format"]` | further keys | bits |
# |---|---|---|
# | `"16 bits"` | | 16 a number |
# | `"e4m3"`, `"e5m2"` | | 8 a number, no scale |
# | `"int"` | `bits`, `share` | `bits` a number, and 16 a scale |
# | `"groups"` | `bits`, `group`, `along` | `bits` a number, and 16 + 16 a group; waiting tokens 16 a number |
#
# **Predict** for 2 bits in groups of 32: 2 + 32/32 = **3 bits a number**. The scales are a third of the
# cache: compression is 16 / 3 = **5.3**, not 8. For INT8 with one scale a token and head: 8 + 16/32 = 8.5 bits,
# so 512 numbers take **544 bytes** a token. With heads of 128 as in Llama-3-8B it is 8.125.


# %% tags=["exercise"]
def cache_bytes(
    n_layers: int, n_kv_heads: int, head_dim: int, n_tokens: int, keys: dict, values: dict
) -> int:
    """Return the bytes of the whole cache of one sequence, scales and zero points included.

    Args:
        n_layers, n_kv_heads, head_dim: the model.
        n_tokens: tokens in the cache.
        keys, values: the scheme of each, as in the table above. Groups along channels divide
            head_dim; along tokens, those that do not fill a last group wait in 16 bits.

    Returns:
        Bytes: the bits of all layers, of keys and of values, over 8; rounded up to a whole byte at
        the very end, once.
    """
    bits = 0
    for scheme in (keys, values):
        numbers = n_tokens * n_kv_heads * head_dim
        if scheme["format"] == "16 bits":
            bits += 16 * numbers
        elif scheme["format"] in FP8:
            bits += 8 * numbers
        elif scheme["format"] == "int":
            scales = {"tensor": 1, "token": n_tokens * n_kv_heads, "channel": n_kv_heads * head_dim}
            bits += scheme["bits"] * numbers + 16 * scales[scheme["share"]]
        else:
            waiting = 0
            if scheme["along"] == "tokens":
                waiting = n_tokens % scheme["group"] * n_kv_heads * head_dim
            groups = (numbers - waiting) // scheme["group"]
            bits += scheme["bits"] * (numbers - waiting) + 32 * groups + 16 * waiting
    return -(-n_layers * bits // 8)


# %%
PLAIN = {"format": "16 bits"}
BY_TOKEN_8 = {"format": "int", "bits": 8, "share": "token"}


def in_groups(bits, along):
    """Return the scheme of groups of 32."""
    return {"format": "groups", "bits": bits, "group": 32, "along": along}


def bytes_a_token(keys, values, n_tokens=512):
    """Return what one of 512 tokens takes in the small model's cache."""
    return cache_bytes(4, 2, 32, n_tokens, keys, values) / n_tokens


print("16 bits:", bytes_a_token(PLAIN, PLAIN), "bytes a token; INT8 by token:", end=" ")
print(bytes_a_token(BY_TOKEN_8, BY_TOKEN_8), "bytes a token")
two_bits = in_groups(2, "tokens"), in_groups(2, "channels")
for n_tokens in (512, 543):  # 31 tokens wait
    times = bytes_a_token(PLAIN, PLAIN) / bytes_a_token(*two_bits, n_tokens)
    print(f"2 bits in groups of 32, {n_tokens} tokens: {times:.2f} times smaller than 16 bits")

# %% [markdown]
# ## What the model makes of it
#
# Now put a format between the model and its cache. `as_seen` sends a tensor through a scheme and back;
# `perplexity` runs the model with it.
#
# One thing to know about this measurement. All tokens of a text are computed in one pass, so a query
# at token 100 sees keys whose scale, by channel, was made from tokens up to 512. A real cache would hold
# those keys in 16 bits until their group is full. So our figures for groups along tokens are a little
# pessimistic, and one scale for a whole text is something only a finished prompt could have.


# %% tags=["exercise"]
def as_seen(x: np.ndarray, scheme: dict) -> np.ndarray:
    """Return what attention sees of keys or values that were held by a scheme.

    Args:
        x: (tokens, heads, channels).
        scheme: as in the table of the last exercise. With FP8 no scale is used. What is held in
            "16 bits" comes back unchanged; scales and zero points are not rounded to 16 bits.

    Returns:
        An array of the shape of x.
    """
    if scheme["format"] == "16 bits":
        return x
    if scheme["format"] in FP8:
        return from_fp8(to_fp8(x, scheme["format"]), scheme["format"])
    if scheme["format"] == "int":
        return from_int(*to_int(x, scheme["bits"], scheme["share"]))
    return through_groups(x, scheme["bits"], scheme["group"], scheme["along"])


# %% tags=["exercise"]
def perplexity(pieces: list[list[int]], keys: dict, values: dict) -> float:
    """Return the small model's perplexity when its cache is held by two schemes.

    Args:
        pieces: texts, each a list of tokens with the start token first; they may differ in length.
        keys, values: the scheme of each.

    Returns:
        The exponential of the mean loss, over all predicted tokens of all pieces together.
    """
    found = []
    for piece in pieces:
        tokens = np.asarray(piece)
        logits = logits_of(
            lm, tokens, lambda _, k: as_seen(k, keys), lambda _, v: as_seen(v, values)
        )
        found.append(losses(logits, tokens))
    return float(np.exp(np.concatenate(found).mean()))


# %% [markdown]
# **Predict the law.** Let the cache be off by small random errors of variance $\sigma^2$. The loss
# changes by a first-order term, which has either sign and averages out, and a second-order term, which
# does not: proportional to $\sigma^2$. So with a step twice as long the loss should rise *four times*
# as much:
#
# $$\Delta \propto \text{error}^2 \propto \frac{1}{(2^{b-1} - 1)^2}$$
#
# From 4 bits to 3 the codes go from 7 to 3, so the price rises by $(7/3)^2$ = **5.4**. From 4 bits to 8
# it falls by $(7/127)^2$: to **a 330th**. If 4 bits cost half a percent, then 8 bits cost some 0.0015 %,
# and nobody will ever see that in a perplexity. From 3 to 2 bits it would be 9, if the errors
# were still small.
#
# The next cell measures keys alone and values alone, one scale a token, on 12 texts. The bars are
# standard errors over the texts; changes below them are noise.


# %%
def change(keys, values):
    """Return the change of the mean loss that two schemes make, and its standard error."""
    by_text = [
        math.log(perplexity([piece], keys, values)) - base
        for piece, base in zip(pieces, BASE, strict=True)
    ]
    return np.mean(by_text), np.std(by_text, ddof=1) / math.sqrt(len(by_text))


BASE = [math.log(perplexity([piece], PLAIN, PLAIN)) for piece in pieces]
print(f"perplexity in 16 bits: {math.exp(np.mean(BASE)):.2f}")
law = {"keys": [], "values": []}
for name, of in law.items():
    for bits in (2, 3, 4, 5, 8):
        scheme = {"format": "int", "bits": bits, "share": "token"}
        off = np.mean([relative_error(x, as_seen(x, scheme)) for x in kept[name].values()])
        of.append((off, *change(*((scheme, PLAIN) if name == "keys" else (PLAIN, scheme)))))
        print(f"{name}, {bits} bits: error {off:6.2%}, loss {of[-1][1]:+.5f} +- {of[-1][2]:.5f}")

# %%
fig, ax = plt.subplots(figsize=(7, 4.6))
for (name, of), color in zip(law.items(), ("tab:blue", "tab:green"), strict=True):
    off, rise, noise = np.array(of).T
    seen = rise > 2 * noise
    ax.errorbar(
        100 * off[seen], rise[seen], noise[seen], fmt="o", color=color, label=f"{name} alone"
    )
    ax.plot(100 * off[~seen], np.maximum(2 * noise, rise)[~seen], "v", color=color, mfc="none")
    anchor = 1 if seen[1] else 0  # 3 bits
    grid = np.geomspace(0.4, 60, 50)
    ax.plot(grid, rise[anchor] * (grid / (100 * off[anchor])) ** 2, color=color, lw=1, ls=":")
ax.set(xscale="log", yscale="log", ylim=(1e-5, 10))
ax.set(xlabel="relative error of what comes back, %", ylabel="rise of the loss, nats a token")
ax.set_title("One scale a token, 8 to 2 bits; dotted: the square law through 3 bits")
ax.plot(
    [], [], "v", color="black", mfc="none", label="not told from 0: below this (2 standard errors)"
)
ax.legend(loc="upper left", fontsize=9)
plt.show()

# %% [markdown]
# At 3, 4 and 5 bits the rise is told from zero, and there it follows the square law, roughly: a fifth of
# the error, about a twenty-fifth of the price. At 2 bits the errors are nearly as large as the numbers, and
# no law for small ones holds. At 8 bits noise is left, and first-order terms of either sign: a few
# ten-thousandths of a nat. That is why 8 bits are free here, and why the last bits cost so much.
#
# ## The whole table
#
# What a server would choose from: bytes a token, everything counted, against the rise of perplexity.

# %%
menu = {
    "16 bits": (PLAIN, PLAIN),
    "E5M2": ({"format": "e5m2"},) * 2,
    "E4M3": ({"format": "e4m3"},) * 2,
    "INT8 tensor": ({"format": "int", "bits": 8, "share": "tensor"},) * 2,
    "INT8 token": (BY_TOKEN_8,) * 2,
    "INT4 tensor": ({"format": "int", "bits": 4, "share": "tensor"},) * 2,
    "INT4 token": ({"format": "int", "bits": 4, "share": "token"},) * 2,
    "INT4 groups": (in_groups(4, "tokens"), in_groups(4, "channels")),
    "INT3 tensor": ({"format": "int", "bits": 3, "share": "tensor"},) * 2,
    "INT3 groups": (in_groups(3, "tokens"), in_groups(3, "channels")),
    "INT2 token": ({"format": "int", "bits": 2, "share": "token"},) * 2,
    "INT2 groups": (in_groups(2, "tokens"), in_groups(2, "channels")),
}
print("scheme         bytes a token   compression   perplexity")
table = {}
for name, schemes in menu.items():
    rise, noise = change(*schemes)
    table[name] = bytes_a_token(*schemes), 100 * math.expm1(rise), 100 * noise * math.exp(rise)
    size, percent, spread = table[name]
    print(f"{name:12} {size:15.1f} {1024 / size:13.2f}   {percent:+9.3f} % +- {spread:.3f}")

# %%
fig, ax = plt.subplots(figsize=(8, 4.8))
places = {
    "INT8 tensor": (-64, 12),
    "E4M3": (-36, -4),
    "INT3 groups": (-62, -14),
}
for name, (size, percent, spread) in table.items():
    color = "tab:blue" if "groups" in name else "tab:orange" if "INT" in name else "tab:red"
    shown = max(percent, 0.003)
    ax.errorbar(size, shown, spread, fmt="o" if percent > 2 * spread else "v", color=color)
    ax.annotate(name, (size, shown), textcoords="offset points", xytext=places.get(name, (8, 2)))
ax.set(yscale="log", ylim=(0.002, 1e4), xlim=(50, 1150))
ax.set(xlabel="bytes a token, scales and zero points included", ylabel="rise of perplexity, %")
ax.set_title("Triangles: not told from zero (drawn at 0.003 % or above)")
plt.show()

# %% [markdown]
# Read it from the right. INT8 halves the cache for a tenth of a percent at most: hardly more than 6,000
# tokens can show. The floats cost more at the same size: their errors are those of 6-bit (E4M3) and 5-bit
# (E5M2) whole numbers. **At 4 bits it matters how scales are shared**, and one scale for a whole tensor is where INT4 breaks down first. Then
# compare what takes *equal bytes*: INT4 with one scale for the tensor against INT3 in groups, and INT3 with
# one scale against INT2 in groups. A good scale is worth more than a bit.
#
# ## Plant the outliers
#
# What would it look like if this model had the outlier channels of large ones? It can have them.
# Multiply channels $i$ and $i + 16$ of a KV head's `w_k` by 16, and divide the same channels of `w_q`, in
# the query heads that read it, by 16. Every score $q \cdot k$ is what it was: the model is **the same
# function**. Both channels of a rotary pair must be scaled alike, for then the factor commutes with the
# turn. (Servers use this trick in the other direction, to smooth outliers away: SmoothAttention in QServe,
# Lin et al. 2024, arXiv:2405.04532.) But now the keys have the outlier channels that large models have.
#
# **Predict.** Each token's largest number is now up to 16 times what it was. With one scale a token, 4 bits
# leave the other 30 channels 7/16 of a step, so **most of them round to 0**. 8 bits leave them 127/16
# = 8 codes on either side, or a few more: the price is one between 8 and 4 bits. By channel, **nothing
# changes at all**: multiplying by 16 is exact in floats, and the scale moves with the numbers. In E4M3 the
# step moves with each number, so next to nothing changes there either, as long as nothing passes 448.


# %%
def planted(lm, pair, factor):
    """Return the same model with one pair of key channels, in each head, `factor` times as large."""
    size = lm["head_dim"]
    layers = []
    for layer in lm["layers"]:
        w_q, w_k = layer["w_q"].copy(), layer["w_k"].copy()
        for channel in (pair, pair + size // 2):
            w_k[:, channel::size] *= factor  # the same channel of every head
            w_q[:, channel::size] /= factor
        layers.append({**layer, "w_q": w_q, "w_k": w_k})
    return {**lm, "layers": layers}


trained, outlying = lm["layers"], planted(lm, pair=5, factor=16)["layers"]
schemes = {
    "16 bits": PLAIN,
    "E4M3": {"format": "e4m3"},
    "INT8 by token": BY_TOKEN_8,
    "INT4 by token": {"format": "int", "bits": 4, "share": "token"},
    "INT4 by channel": {"format": "int", "bits": 4, "share": "channel"},
    "INT4 groups by token": in_groups(4, "channels"),
    "INT4 groups by channel": in_groups(4, "tokens"),
}
print("keys alone: rise of perplexity, %   as trained   with outliers")
compared = {}
ratios = []
try:  # `perplexity` and `profile_lm` run `lm` with the layers it has: put them back in any case
    for name, scheme in schemes.items():
        compared[name] = []
        for layers in (trained, outlying):
            lm["layers"] = layers
            compared[name].append(100 * math.expm1(change(scheme, PLAIN)[0]))
        print(f"{name:35} {compared[name][0]:+10.3f} {compared[name][1]:+14.3f}")
    for layers in (trained, outlying):
        lm["layers"] = layers
        ratios.append(profile_lm(pieces[0], 4, 32)[:, 0, 0].max())
finally:
    lm["layers"] = trained
print(
    f"largest channel over the median, keys: {ratios[0]:.1f} as trained, {ratios[1]:.1f} with outliers"
)

# %%
fig, ax = plt.subplots(figsize=(8, 3.8))
names = list(schemes)[1:]
for place, (label, color) in enumerate((("as trained", "tab:blue"), ("with outliers", "tab:red"))):
    heights = [max(compared[name][place], 0.01) for name in names]
    ax.barh(np.arange(len(names)) + 0.2 - 0.4 * place, heights, 0.38, color=color, label=label)
ax.set(xscale="log", xlim=(0.01, 1e4), yticks=range(len(names)), yticklabels=names)
ax.invert_yaxis()
ax.set_xlabel("rise of perplexity, %, keys alone (0.01 or less is drawn as 0.01)")
ax.set_title("The same function, with and without outlier channels")
ax.legend(loc="lower right")
fig.tight_layout()
plt.show()

# %% [markdown]
# So the rule of large models is not about keys as such. It is about what shares a scale with what: **put a
# scale where the numbers are alike**. Outliers of channels and offsets of channels both make a channel
# alike over tokens. Where channels are equal and tokens differ, the same rule says by token.
#
# Whole numbers lose up to 4 bits to a factor of 16, and E4M3 loses none. That is what its range is for: it
# is the safe choice for a model whose outliers nobody has looked at.
#
# ## What you can now answer in an interview
#
# - *What does an 8-bit cache cost?* In INT8 next to nothing here, in FP8 a little: errors of half a
#   percent (INT8) to five (E5M2), and the loss rises with their square.
# - *INT8 or FP8?* INT8 is more exact where numbers that share a scale are alike; FP8 where they are
#   not, or where nobody wants to keep scales.
# - *Why keys by channel?* In large models a few channels are far larger than the rest: by token they
#   would ruin every token. Here it is offsets, which RoPE leaves in its slow pairs.
# - *Why values by token?* They have no such channels, and each token brings its own scale at once.
# - *Why do some tokens stay in 16 bits?* Groups along tokens have a scale only when they are full.
# - *What are 2 bits really?* 3, with a scale and a zero point for each 32 numbers.

# %% [markdown] tags=["questions"]
# ## Check your understanding
#
# Three questions, graded like everything else. Answer on paper first. Under a choice, copy the words
# of one option into `understanding`, between quotes. A wrong answer is told what it overlooks.


# %% tags=["exercise"]
understanding: dict = {
    "outlier_channel": "It sets the scale of every token, so that the other channels round to few codes; by channel it only sets its own",
    "keys_waiting": "A group of keys has its scale only when its 32 tokens are there; one token's values bring their own",
}


# %% tags=["exercise"]
def scaled_change(change: float, bits: int, new_bits: int) -> float:
    """Return what quantization costs at other bits, by the law of this notebook.

    Args:
        change: what it costs at `bits` bits with symmetric codes; small, 0.005 is half a percent.
        bits: of the codes that were measured, 3 to 8.
        new_bits: of the codes that are asked for, 3 to 8.

    Returns:
        The change at `new_bits`, as a fraction as well.
    """
    return change * ((2 ** (bits - 1) - 1) / (2 ** (new_bits - 1) - 1)) ** 2
