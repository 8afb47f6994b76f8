# %% [markdown]
# # Milestone 2: what one token costs
#
# A transformer that generates text reads, at every step, the keys and values of every token it has
# seen. Computing them again each time would be quadratic work, so they are kept: that is the **KV
# cache**. It lives in GPU memory next to the weights, it grows by one entry per token, and it is
# what decides how many users a GPU can hold. In this milestone you learn to size it to the byte.
#
# **You will write** `kv_bytes_per_token`, `kv_bytes_for_runs` and `kv_bytes_from_config`.
#
# **Check your work** at any time: type `%load_ext grader` into a cell, once, and then `%check`.
# It asks what is defined in this notebook right now. `grader check 2` in a terminal grades the saved
# file from a fresh start, as your hand-in will be.

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
# way. `milestones/m2_kv_bytes/handout.md` lists the spellings and works one file through. The
# questions, in the order a careful reader asks:
#
# 1. **Which part?** A multimodal config nests the language model in `text_config`.
# 2. **Does it say something you cannot read?** Some keys change the cache in ways this milestone
#    does not teach: caches that are compressed, keys kept for an index, layers that read an image.
#    The next cell lists them. And some model types keep their plan of layers in code, not in the
#    file.
# 3. **What does each layer hold?** Full attention: the whole context. A sliding layer: at most its
#    window. A linear or recurrent layer: nothing that grows.
# 4. **Is it latent attention?** With `kv_lora_rank`, a layer stores one compressed latent of that
#    size and one rope key of `qk_rope_head_dim`, for all heads together and not twice.
# 5. **How many KV heads?** Named directly, or implied by a multi-query flag, or, if the file is
#    silent, as many as query heads.
# 6. **How wide is a head?** An explicit `head_dim` wins. Only without one is it
#    `hidden_size / num_attention_heads` (Qwen3-0.6B: 1024 / 16 is 64, and its head_dim is 128).
#
# A config that leaves one of these open is an error to report, never a number to guess. Gemma 2
# shows why: its file gives a window and no word on which layers use it, and the code uses it in
# every second layer. Read as a window for all 26 layers of the 2B model, 8,192 tokens come out a
# **third too small**, and nothing warns you. A cell below counts both readings.
#
# The work falls into four functions: find a value, say what the layers are, count their KV heads,
# and add it all up. Only the last one is graded by its name, so divide the work otherwise if you
# like. **The last rungs of this ladder earn bonus points.** Leave them for later: a file that you
# refuse by the name of its key costs nothing.
#
# **Predict:** a 70B-class config at 32,768 tokens and 16 bits holds
# 32,768 · 327,680 = **10,737,418,240 bytes** for one request.

# %% tags=["given"]
# Which layers attend, and how, in a language of their own. `layer_types` beside one of these says
# the same in the words of the handout, and then it decides.
LAYER_PLANS = (
    "layers_block_type",
    "_block_types",
    "hybrid_layer_pattern",
    "attn_layer_indices",
    "attention_types",
    "linear_attn_config",
)

# What a layer stores, changed: sizes of its own for some layers, caches compressed or added.
OTHER_CACHES = (
    "cross_attention_layers",
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

# The rungs that earn a bonus: refuse these two lists as you refuse the two above, until you read
# them.
BONUS_PLANS = (
    "full_attention_interval",
    "sliding_window_pattern",
    "attn_layer_period",
    "hybrid_override_pattern",
    "attention_chunk_size",
    "no_rope_layers",
)
BONUS_CACHES = ("num_kv_shared_layers", "block_configs")

# Model types whose older files leave the plan of layers to the code: no plan, no answer.
PLAN_IN_CODE = ("gemma2", "gemma3_text", "cohere2", "olmo3", "gpt_oss", "llama4_text")


# %% tags=["exercise"]
def first(config: dict, *keys: str, default: int | None = None) -> int:
    """Return the value of the first of these keys that is there: not null, 0, false or empty.

    Args:
        config: the language model's part of a config.json.
        keys: the spellings of one fact.
        default: what stands in where no key is there.

    Raises:
        ValueError: no key is there and nothing stands in; the message names the first key.
    """
    for key in keys:
        if config.get(key):
            return config[key]
    if default is None:
        raise ValueError(f"the config has no {keys[0]}")
    return default


# %% tags=["exercise"]
def kinds_of_layers(config: dict, n_layers: int) -> list[str]:
    """Return what each layer is, one kind a layer, in the words of `layer_types`.

    The core: `layer_types` decides where it is there; else every layer slides where a window is in
    force, and attends in full where none is. Every other plan is refused, or read for a bonus.

    Args:
        config: the language model's part of a config.json.
        n_layers: its layers.

    Returns:
        A list of kinds, the first layer's first.

    Raises:
        ValueError: the plan of layers cannot be read; the message names the key at fault.
    """
    if config.get("layer_types"):
        return list(config["layer_types"])
    for key in LAYER_PLANS:
        if config.get(key):
            raise ValueError(f"{key} plans the layers in a way that is not read here")

    def number(key):
        if type(config.get(key)) is not int:
            raise ValueError(f"{key} is {config.get(key)!r}, and no number")
        return config[key]

    def full_where(in_full, otherwise):  # layers are counted from 0
        return ["full_attention" if in_full(i) else otherwise for i in range(n_layers)]

    plans = [key for key in BONUS_PLANS if config.get(key)]
    if plans == ["full_attention_interval"]:
        every = number("full_attention_interval")
        return full_where(lambda i: (i + 1) % every == 0, "linear_attention")
    if plans == ["sliding_window_pattern"]:
        every = number("sliding_window_pattern")
        return full_where(lambda i: (i + 1) % every == 0, "sliding_attention")
    if plans == ["attn_layer_period"]:
        period, offset = number("attn_layer_period"), number("attn_layer_offset")
        return full_where(lambda i: i % period == offset, "mamba")
    if plans == ["hybrid_override_pattern"]:
        signs = {"*": "full_attention", "M": "mamba", "-": "mlp", "E": "mlp"}
        pattern = str(config["hybrid_override_pattern"])
        if set(pattern) - set(signs):
            raise ValueError(f"hybrid_override_pattern holds a sign that is not read: {pattern}")
        return [signs[sign] for sign in pattern]
    if plans == ["attention_chunk_size", "no_rope_layers"]:
        with_rope = config["no_rope_layers"]
        return ["chunked_attention" if rope else "full_attention" for rope in with_rope]
    if plans:
        raise ValueError(f"{' with '.join(plans)} makes no plan of layers that is read here")

    if config.get("model_type") in PLAN_IN_CODE:
        raise ValueError(f"a {config['model_type']} config needs layer_types to be read")
    window = config.get("sliding_window") and config.get("use_sliding_window") is not False
    if window and config.get("max_window_layers"):
        raise ValueError("max_window_layers gives some layers a window; which is not read here")
    return ["sliding_attention" if window else "full_attention"] * n_layers


# %% tags=["exercise"]
def kv_heads_of_layers(config: dict, n_layers: int) -> list[int]:
    """Return how many KV heads each layer has.

    The core: the same number everywhere. For a bonus, `block_configs` gives each layer its own.

    Args:
        config: the language model's part of a config.json, `attn_config` opened.
        n_layers: its layers.

    Returns:
        A list of counts, the first layer's first; 0 where a layer has no attention.

    Raises:
        ValueError: the heads cannot be read; the message names the key at fault.
    """
    n_heads = first(config, "num_attention_heads", "n_head", "n_heads")
    if config.get("block_configs"):
        n_kv_heads = []
        for block in config["block_configs"]:
            attention = {key: value for key, value in block["attention"].items() if value}
            if attention.get("no_op") or attention.get("replace_with_linear"):
                n_kv_heads.append(0)
            elif list(attention) == ["n_heads_in_group"]:
                n_kv_heads.append(n_heads // attention["n_heads_in_group"])
            else:
                raise ValueError(f"block_configs holds an attention that is not read: {attention}")
        return n_kv_heads
    if config.get("multi_query") and not config.get("new_decoder_architecture"):
        return [1] * n_layers
    if config.get("multi_query_attention"):
        return [first(config, "multi_query_group_num")] * n_layers
    spellings = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads")
    return [first(config, *spellings, default=n_heads)] * n_layers


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
    for key in OTHER_CACHES:
        if config.get(key):
            raise ValueError(f"{key} changes the cache in a way that is not read here")

    # How many tokens does each layer hold?
    n_layers = first(config, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    kinds = kinds_of_layers(config, n_layers)
    if len(kinds) != n_layers:
        raise ValueError(f"layer_types lists {len(kinds)} layers, num_hidden_layers {n_layers}")
    window = None if config.get("use_sliding_window") is False else config.get("sliding_window")
    tokens_held = []
    for kind in kinds:
        if kind in ("full_attention", "attention"):
            tokens_held.append(context_len)
        elif kind == "sliding_attention":
            if not window:
                raise ValueError("layer_types has sliding layers, but there is no sliding_window")
            tokens_held.append(min(context_len, window))
        elif kind == "chunked_attention":
            tokens_held.append(min(context_len, first(config, "attention_chunk_size")))
        elif kind in ("linear_attention", "mamba", "conv", "mlp"):
            tokens_held.append(0)
        else:
            raise ValueError(f"layer_types holds an unknown kind, {kind!r}")
    n_shared = config.get("num_kv_shared_layers") or 0
    if n_shared >= n_layers:
        raise ValueError(f"num_kv_shared_layers is {n_shared}, of {n_layers} layers")
    for layer in range(n_layers - n_shared, n_layers):
        tokens_held[layer] = 0  # it reads the cache of an earlier layer

    # How many numbers does a token take in each?
    if config.get("kv_lora_rank"):
        numbers = [first(config, "kv_lora_rank") + first(config, "qk_rope_head_dim")] * n_layers
    else:
        n_kv_heads = kv_heads_of_layers(config, n_layers)
        if len(n_kv_heads) != n_layers:
            raise ValueError(f"block_configs lists {len(n_kv_heads)} layers of {n_layers}")
        head_dim = config.get("head_dim") or config.get("kv_channels")
        if not head_dim:
            n_heads = first(config, "num_attention_heads", "n_head", "n_heads")
            head_dim, rest = divmod(first(config, "hidden_size", "n_embd", "d_model"), n_heads)
            if rest:
                raise ValueError("hidden_size is not a multiple of num_attention_heads")
        numbers = [2 * heads * head_dim for heads in n_kv_heads]  # keys and values

    held = sum(tokens * each for tokens, each in zip(tokens_held, numbers, strict=True))
    return held * batch_size * kv_bits // 8


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
# ## The last rungs: a bonus
#
# Newer models save on the cache by giving layers different jobs, and each family has its own way
# of writing down which layer does what. Four rules read most of them; layers are counted from 0.
#
# | the file says | layer i | otherwise it is |
# |---|---|---|
# | `full_attention_interval: k` | in full where (i + 1) % k = 0 | linear: nothing |
# | `sliding_window_pattern: k` | in full where (i + 1) % k = 0 | sliding |
# | `attn_layer_period: p`, `attn_layer_offset: o` | in full where i % p = o | mamba: nothing |
# | `hybrid_override_pattern: "MEM*"` | in full where the sign is `*` | `M`, `E`, `-`: nothing |
# | `attention_chunk_size: c`, `no_rope_layers: [1, 1, 1, 0]` | in full where 0 | chunked: min(context, c) |
# | `num_kv_shared_layers: s` | the last s layers hold nothing | as above |
# | `block_configs` | query heads / `n_heads_in_group` KV heads | `no_op` or linear: none |
#
# **Predict.** Qwen3-Next has 48 layers, 2 KV heads of 256, and attends in full in every fourth:
# 12 layers · 2 · 2 · 256 · 2 bytes = **24,576 bytes a token**, where the plain formula says four
# times as much. Gemma 3n E4B has 35 layers, every fifth in full, and its last 15 read the caches
# of earlier ones: of the first 20, only 4 grow with the context. Do you expect it above or below
# the 1B model of Gemma 3, which shares nothing? The next cell counts.

# %%
released = {  # of each family's config.json, what the cache depends on
    "Qwen3-Next-80B": {
        "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2,
        "head_dim": 256, "full_attention_interval": 4,
    },
    "Gemma-3-1B": {
        "num_hidden_layers": 26, "num_attention_heads": 4, "num_key_value_heads": 1,
        "head_dim": 256, "sliding_window": 512, "sliding_window_pattern": 6,
    },
    "Jamba-1.5-Mini": {
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "attn_layer_period": 8, "attn_layer_offset": 4,
    },
    "Llama-4-Scout": {
        "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8,
        "head_dim": 128, "attention_chunk_size": 8_192, "no_rope_layers": [1, 1, 1, 0] * 12,
    },
    "Gemma-3n-E4B": {
        "num_hidden_layers": 35, "num_attention_heads": 8, "num_key_value_heads": 2,
        "head_dim": 256, "sliding_window": 512, "num_kv_shared_layers": 15,
        "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
    },
}  # fmt: skip
growth, times_too_large = {}, {}
for name, config in released.items():
    at, later = (kv_bytes_from_config(config, n, 1, 16) for n in (131_072, 131_073))
    plain = 131_072 * kv_bytes_per_token(
        config["num_hidden_layers"], config["num_key_value_heads"], config["head_dim"], 16
    )
    growth[name], times_too_large[name] = later - at, plain / at
    print(f"{name:15} {later - at:>7,} bytes a further token, {at / 1e9:5.2f} GB at 131,072 tokens")

# %%
fig, ax = plt.subplots(figsize=(7, 3))
order = sorted(times_too_large, key=times_too_large.get)
bars = ax.barh(order, [times_too_large[name] for name in order])
ax.bar_label(bars, fmt=" %.1f×")
ax.margins(x=0.12)
ax.axvline(1, color="grey", lw=1, ls="--")
ax.set_xlabel("plain formula / what is held, at 131,072 tokens")
ax.set_title("Counting every layer in full overstates the cache")
plt.show()

# %% [markdown]
# Gemma 3n holds as much per further token as 4 layers of 2 KV heads: twice the 1B model's 4 layers
# of one. A model's name and size say little; its file says it all.
#
# ## What you can now answer in an interview
#
# - *How much GPU memory does one more user take?* Bytes per token times their context.
# - *Why does a 70B model hold more users per byte than an older 7B?* Grouped queries: 8 KV heads
#   against 32.
# - *Which numbers of a config decide it, and which famous ones do not?* Layers, KV heads, head
#   size, bits; not parameters, not hidden size, not query heads.
# - *What would you change first if the cache does not fit?* Bits (half), then heads (a new
#   model), then the context each user may have.

# %% [markdown] tags=["questions"]
# ## Check your understanding
#
# Four questions, graded like everything else. Answer on paper first. Under a choice, copy the words
# of one option into `understanding`, between quotes; a number goes there without its unit. A wrong
# answer is told what it overlooks.


# %% tags=["exercise"]
understanding: dict = {
    "llama_3_8b_128k_gb": 17.2,
    "gqa_and_mqa": "Several query heads share one KV head, so each token leaves fewer keys and values",
    "larger_model_smaller_cache": "8 KV heads in place of 32 save more than 80 layers in place of 32 cost",
}


# %% tags=["exercise"]
def cache_gb(
    n_layers: int,
    n_kv_heads: int,
    head_dim: int,
    kv_bits: int,
    context_len: int,
    n_requests: int,
) -> float:
    """Return the size of a cache in decimal GB.

    Args:
        n_layers: transformer layers.
        n_kv_heads: heads that keys and values are computed for.
        head_dim: numbers in one key, or one value, of one head.
        kv_bits: bits per stored number, 16 or 8.
        context_len: tokens of each request.
        n_requests: requests held at once.

    Returns:
        GB, of 1e9 bytes, not rounded.
    """
    token_bytes = 2 * n_layers * n_kv_heads * head_dim * kv_bits / 8
    return token_bytes * context_len * n_requests / 1e9
