# %% [markdown]
# # Milestone 2: what one token costs
#
# A transformer that generates text reads, at every step, the keys and values of every token it has
# seen. Computing them again each time would be quadratic work, so they are kept: that is the **KV
# cache**. It lives in GPU memory next to the weights, it grows by one entry per token, and it is
# what decides how many users a GPU can hold. In this milestone you learn to size it to the byte.
#
# **You will write** `kv_bytes_per_token`, `kv_bytes_for_runs` and `kv_bytes_from_config`.
# **Check your work** at any time with `grader check 2` in a terminal.

# %% tags=["given"]
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

DATA = next(
    p / "data" for p in [Path.cwd(), *Path.cwd().parents] if (p / "data/train.csv").exists()
)

# %% [markdown]
# ## Derive it
#
# In one layer, a token leaves one key vector and one value vector **per KV head**. Each vector has
# `head_dim` numbers, each number takes `kv_bits / 8` bytes, and there are `n_layers` layers:
#
# $$\text{bytes per token} = 2 \cdot n_\text{layers} \cdot n_\text{kv heads} \cdot d_\text{head}
# \cdot \frac{\text{bits}}{8}$$
#
# Three things are *not* in the formula: the number of query heads (queries are used once and
# thrown away), the hidden size (a layer's width only matters through its KV heads), and the
# parameter count.
#
# **Predict before you run anything.** Llama-3-70B has 80 layers, 8 KV heads of 128 and keeps its
# cache in 16 bits. By hand: 2 · 80 · 8 · 128 · 2 = **327,680 bytes**, a third of a megabyte for
# every token of every user. Llama-2-7B, a model ten times smaller, has 32 layers and 32 KV heads:
# 2 · 32 · 32 · 128 · 2 = **524,288 bytes**. The small model costs more per token than the large
# one. The next cells measure both.


# %% tags=["exercise"]
def kv_bytes_per_token(n_layers: int, n_kv_heads: int, head_dim: int, kv_bits: int) -> int:
    """Return the bytes of KV cache that one token of one request takes.

    Args:
        n_layers: transformer layers, each with a cache of its own.
        n_kv_heads: heads that keys and values are computed for (not the query heads).
        head_dim: numbers in one key, or one value, of one head.
        kv_bits: bits per stored number, 16 or 8.

    Returns:
        Bytes per token, a whole number.
    """
    return 2 * n_layers * n_kv_heads * head_dim * kv_bits // 8  # 2: keys and values


# %%
for name, shape in {
    "Llama-3-70B": (80, 8, 128, 16),
    "Llama-3-8B": (32, 8, 128, 16),
    "Llama-2-7B": (32, 32, 128, 16),
}.items():
    print(f"{name:12} {kv_bytes_per_token(*shape):>8,} bytes per token")

# %% [markdown]
# ## Watch it grow
#
# A cache grows linearly with the context. The weights do not grow at all. Where the lines cross
# the weights' size, one single request holds as much memory as the whole model.
#
# **Predict:** a 128k-token conversation (131,072 tokens) with Llama-3-8B takes
# 131,072 · 131,072 = 17.18e9 bytes, **17.2 GB**, more than the 16.1 GB of its own weights. With
# Llama-2-7B's multi-head layout it would take four times as much, **68.7 GB**.

# %%
contexts = np.array([1_024, 4_096, 16_384, 65_536, 131_072])
shapes = {
    "Llama-2-7B (32 KV heads)": (32, 32, 128, 16),
    "Llama-3-70B (8 KV heads)": (80, 8, 128, 16),
    "Llama-3-8B (8 KV heads)": (32, 8, 128, 16),
    "Llama-3-8B, FP8 cache": (32, 8, 128, 8),
}
fig, ax = plt.subplots(figsize=(7, 4))
for label, shape in shapes.items():
    gigabytes = kv_bytes_per_token(*shape) * contexts / 1e9
    ax.plot(contexts, gigabytes, marker="o", label=label)
    print(f"{label:26} {gigabytes[-1]:5.1f} GB at 131,072 tokens")
ax.axhline(16.06, color="grey", ls="--", lw=1)
ax.text(1_100, 17.5, "weights of Llama-3-8B in 16 bits: 16.1 GB", color="grey")
ax.set(xscale="log", yscale="log", xlabel="context (tokens)", ylabel="KV cache of one request (GB)")
ax.set_title("KV cache against context, one request")
ax.legend()
plt.show()

# %% [markdown]
# ## Every run of the table
#
# The runs table has a column for everything the formula needs. Write it for a whole table at
# once: one array, one value per row, in the order of the rows. No loop is needed.


# %% tags=["exercise"]
def kv_bytes_for_runs(runs: pd.DataFrame) -> np.ndarray:
    """Return the KV-cache bytes per token of each run.

    Args:
        runs: a runs table with the columns n_layers, n_kv_heads, head_dim and kv_bits.

    Returns:
        An array of shape (len(runs),), bytes per token of each row, in the order of the rows.
    """
    values_per_token = 2 * runs["n_layers"] * runs["n_kv_heads"] * runs["head_dim"]
    return (values_per_token * runs["kv_bits"] // 8).to_numpy()


# %%
train = pd.read_csv(DATA / "train.csv")
per_token = kv_bytes_for_runs(train)
layout = pd.read_csv(DATA / "catalog/models.csv").set_index("model")["attention"]
summary = (
    pd.DataFrame({"model": train.model, "kib": per_token / 1024})
    .assign(layout=train.model.map(layout))
    .groupby("layout")
    .agg(
        models=("model", "nunique"),
        smallest=("kib", "min"),
        median=("kib", "median"),
        largest=("kib", "max"),
    )
)
print("KiB per token, by attention layout:")
summary.round(1)

# %% [markdown]
# ## Ways to make the cache cheaper
#
# The cache is the resource that runs out, so models and serving systems save on it. Two of the
# ideas below are factors of your formula, KV heads and bits, so their savings multiply. The last
# two leave the bytes of a token alone: they keep tokens from being stored twice, or memory from
# being set aside for tokens that are not there.
#
# | idea | what it changes | effect on one user's bytes | effect on many users |
# |---|---|---|---|
# | KV cache | keeps K and V instead of computing them again | costs bytes, saves work | the reason this page exists |
# | grouped queries (GQA, MQA) | fewer KV heads | n_heads / n_kv_heads times fewer | the same, for everyone |
# | 8-bit cache | fewer bits | half | the same, for everyone |
# | prefix caching | a shared beginning is stored once | none for the first user | a common prompt costs once, not per user |
# | paged attention | memory in small blocks on demand | none | no memory reserved for tokens that never come |

# %% [markdown]
# ## From a real config file
#
# You rarely get the four numbers; you get a `config.json`, and every family spells them its own
# way. `milestones/m2_kv_bytes/handout.md` lists the spellings. The ideas, in the order a careful
# reader asks:
#
# 1. **Which part?** A multimodal config nests the language model in `text_config`.
# 2. **Does it say something you cannot read?** Some keys change the cache in ways this milestone
#    does not teach: plans of layers in a language of their own, caches that layers share, keys
#    kept for an index. The next cell lists them. And some model types keep their plan of layers
#    in code, not in the file.
# 3. **Is it latent attention?** With `kv_lora_rank`, a layer stores one compressed latent of that
#    size and one rope key of `qk_rope_head_dim`, for all heads together and not twice.
# 4. **How many KV heads?** Named directly, or implied by a multi-query flag, or, if the file is
#    silent, as many as query heads.
# 5. **How wide is a head?** An explicit `head_dim` wins. Only without one is it
#    `hidden_size / num_attention_heads` (Qwen3-0.6B: 1024 / 16 is 64, and its head_dim is 128).
# 6. **What does each layer hold?** Full attention: the whole context. A sliding layer: at most its
#    window. A linear or recurrent layer: nothing that grows.
#
# A config that leaves one of these open is an error to report, never a number to guess. Gemma 2
# shows why: its file gives a window and no word on which layers use it, and the code uses it in
# every second layer. Read as a window for all 26 layers of the 2B model, 8,192 tokens come out a
# **third too small**, and nothing warns you. A cell below counts both readings.
#
# **Predict:** a 70B-class config at 32,768 tokens and 16 bits holds
# 32,768 · 327,680 = **10,737,418,240 bytes** for one request.

# %% tags=["given"]
# Which layers attend, and how, in a language of their own. `layer_types` beside one of these says
# the same in the words of the handout, and then it decides.
LAYER_PLANS = (
    "layers_block_type",
    "_block_types",
    "hybrid_override_pattern",
    "hybrid_layer_pattern",
    "attn_layer_period",
    "attn_layer_indices",
    "full_attention_interval",
    "sliding_window_pattern",
    "no_rope_layers",
    "attention_types",
    "attention_chunk_size",
    "linear_attn_config",
)

# What a layer stores, changed: sizes of its own for some layers, caches shared, compressed, added.
OTHER_CACHES = (
    "block_configs",
    "cross_attention_layers",
    "num_kv_shared_layers",
    "compress_ratios",
    "index_topk",
    "sparse_attention_config",
    "num_query_groups",
    "attention_head_dim",
    "d_kv",
    "swa_head_dim",
    "swa_num_key_value_heads",
    "global_head_dim",
    "num_global_key_value_heads",
)

# Model types whose older files leave the plan of layers to the code: no `layer_types`, no answer.
PLAN_IN_CODE = ("gemma2", "gemma3_text", "cohere2", "olmo3", "gpt_oss", "llama4_text")


# %% tags=["exercise"]
def kv_bytes_from_config(config: dict, context_len: int, batch_size: int, kv_bits: int) -> int:
    """Return the bytes of the whole KV cache of a batch, read from a config.json.

    Sliding layers hold min(context_len, window) tokens; latent attention holds latent and rope
    key; recurrent layers hold nothing here, and scales of a quantized cache are not counted. A key
    that is null, 0, false or empty is not there.

    Args:
        config: the parsed config.json of a model, in any of the handout's spellings.
        context_len: tokens in the cache of each request.
        batch_size: requests in the batch.
        kv_bits: bits per stored number, 16 or 8.

    Returns:
        Bytes of the whole cache, a whole number.

    Raises:
        ValueError: the config cannot be read; the message names the key at fault.
    """
    config = config.get("text_config") or config
    config = {**config, **(config.get("attn_config") or {})}
    layer_types = config.get("layer_types")

    def first(*keys, default=None):
        for key in keys:
            if config.get(key):
                return config[key]
        if default is None:
            raise ValueError(f"the config has no {keys[0]}")
        return default

    for key in OTHER_CACHES if layer_types else (*LAYER_PLANS, *OTHER_CACHES):
        if config.get(key):
            raise ValueError(f"{key} changes the cache in a way that is not read here")
    if config.get("model_type") in PLAN_IN_CODE and not layer_types:
        raise ValueError(f"a {config['model_type']} config needs layer_types to be read")

    n_layers = first("num_hidden_layers", "n_layer", "num_layers", "n_layers")
    if config.get("kv_lora_rank"):
        values_per_layer = first("kv_lora_rank") + first("qk_rope_head_dim")
    else:
        n_heads = first("num_attention_heads", "n_head", "n_heads")
        if config.get("multi_query") and not config.get("new_decoder_architecture"):
            n_kv_heads = 1
        elif config.get("multi_query_attention"):
            n_kv_heads = first("multi_query_group_num")
        else:
            spellings = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads")
            n_kv_heads = first(*spellings, default=n_heads)
        head_dim = config.get("head_dim") or config.get("kv_channels")
        if not head_dim:
            head_dim, rest = divmod(first("hidden_size", "n_embd", "d_model"), n_heads)
            if rest:
                raise ValueError("hidden_size is not a multiple of num_attention_heads")
        values_per_layer = 2 * n_kv_heads * head_dim  # keys and values

    window = config.get("sliding_window")
    if config.get("use_sliding_window") is False:
        window = None
    if not layer_types:
        if window and config.get("max_window_layers"):
            raise ValueError("max_window_layers gives some layers a window; which is not read here")
        layer_types = ["sliding_attention" if window else "full_attention"] * n_layers
    if len(layer_types) != n_layers:
        raise ValueError(
            f"layer_types lists {len(layer_types)} layers, num_hidden_layers {n_layers}"
        )

    tokens_held = 0
    for kind in layer_types:
        if kind in ("full_attention", "attention"):
            tokens_held += context_len
        elif kind == "sliding_attention":
            if not window:
                raise ValueError("layer_types has sliding layers, but there is no sliding_window")
            tokens_held += min(context_len, window)
        elif kind not in ("linear_attention", "mamba", "conv"):
            raise ValueError(f"layer_types holds an unknown kind, {kind!r}")
    return tokens_held * values_per_layer * batch_size * kv_bits // 8


# %%
llama_70b = {
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
}
print(f"{kv_bytes_from_config(llama_70b, 32_768, 1, 16):,} bytes for one request of 32,768 tokens")

# %%
gemma_2b = {
    "hidden_size": 2304,
    "num_attention_heads": 8,
    "num_hidden_layers": 26,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
}
every_second = ["sliding_attention", "full_attention"] * 13
as_run = kv_bytes_from_config({**gemma_2b, "layer_types": every_second}, 8_192, 1, 16)
as_read = kv_bytes_from_config(gemma_2b, 8_192, 1, 16)  # the plan of layers is not in this file
print(f"a window in every second layer: {as_run:>11,} bytes")
print(f"a window in all 26 layers:      {as_read:>11,} bytes, {1 - as_read / as_run:.0%} too small")

# %%
# A sliding window stops the growth; a latent shrinks every token. One request, 16 bits.
mistral = {
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
}
full = {key: value for key, value in mistral.items() if key != "sliding_window"}
latent = {
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
}
fig, ax = plt.subplots(figsize=(7, 4))
for label, config in {
    "7B, 8 KV heads": full,
    "the same with a 4,096 window": mistral,
    "671B with latent attention": latent,
}.items():
    ax.plot(
        contexts,
        [kv_bytes_from_config(config, int(t), 1, 16) / 1e9 for t in contexts],
        marker="o",
        label=label,
    )
ax.set(xscale="log", yscale="log", xlabel="context (tokens)", ylabel="KV cache of one request (GB)")
ax.set_title("A window stops the growth, a latent slows it")
ax.legend()
plt.show()

# %% [markdown]
# ## What you can now answer in an interview
#
# - *How much GPU memory does one more user take?* Bytes per token times their context.
# - *Why does a 70B model hold more users per byte than an older 7B?* Grouped queries: 8 KV heads
#   against 32.
# - *Which numbers of a config decide it, and which famous ones do not?* Layers, KV heads, head
#   size, bits; not parameters, not hidden size, not query heads.
# - *What would you change first if the cache does not fit?* Bits (half), then heads (a new
#   model), then the context each user may have.
