# %% [markdown]
# # Lab x4: the ceiling
#
# A GPU that serves a language model makes more tokens per second the more requests it decodes at
# once, up to a point. This lab finds that point for the five GPUs of the course, and asks what it is
# made of: arithmetic, reading the cache, or room for the cache. Then it looks for more: giving
# memory out in pages instead of in one piece, keeping a shared beginning once, and coding the cache's
# bytes in fewer bits. On the way stands a price for a million tokens.
#
# **You will write** `ceilings`, `reserved_tokens`, `waste`, `schedule`, `blocks_held`,
# `entropy_bits`, `byte_planes` and `cache_entropy`, and bring your step models of milestones 5 and 6.
#
# **Check your work** at any time: type `%load_ext grader` into a cell, once, and then `%check`.
# It asks what is defined in this notebook right now. `grader check x4` in a terminal grades the
# saved file from a fresh start, as your hand-in will be. All 5 points are bonus.

# %% tags=["given"]
import json
import lzma
import math
import zlib
from collections import deque
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

DATA = next(
    p / "data" for p in [Path.cwd(), *Path.cwd().parents] if (p / "data/train.csv").exists()
)
GPUS = ["L40S", "A100-80GB", "H100-80GB", "H200", "B200"]  # slowest memory first
MODEL_KEYS = ["n_layers", "hidden_size", "n_heads", "n_kv_heads", "head_dim", "intermediate_size"]
GPU_KEYS = ["gpu_memory_gb", "gpu_bandwidth_gbps", "gpu_tflops"]


# %% [markdown]
# ## Three times that grow differently
#
# A decode step reads the weights once, reads the cache of every request, and computes for every
# request. With a batch of $B$ requests of $T$ tokens, at the speed of the data sheet,
#
# $$t(B) = \underbrace{\frac{\text{weight bytes}}{\text{bandwidth}}}_{w}
#        + B\,\underbrace{\frac{T \cdot \text{bytes per token}}{\text{bandwidth}}}_{k}
#        + B\,\underbrace{\frac{2P}{\text{peak}}}_{c}$$
#
# and the GPU makes $B / t(B)$ tokens per second. While $w$ is most of the step, a larger batch is
# nearly free. Three things end that:
#
# - **The cache.** At $B_\text{cache} = w / k$ the caches take as long to read as the weights.
# - **Arithmetic.** At $B_\text{compute} = w / c$ computing takes as long as reading the weights.
#   That is the ridge of milestone 5.
# - **Memory.** $B_\text{memory}$ requests fit beside the weights (milestone 3), and not one more.
#
# Which comes first? Both of the first two have $w$ on top, so the cache comes before the arithmetic
# exactly if $k > c$: if one request's cache takes longer to read than one request's arithmetic
# takes to compute. **The batch has left the question.** Only the context decides: the cache wins
# beyond $T^* = 2P / \text{peak} \cdot \text{bandwidth} / \text{bytes per token}$.
#
# **Predict on paper** for Llama-3.1-8B (8.0303e9 parameters, 131,072 bytes a token, all in 16 bits)
# on an H100 (3,350 GB/s, 989 TFLOP/s, 80 GB) at 4,096 tokens:
#
# - $w$ = 16.06 GB / 3,350 GB/s = 4.794 ms; $k$ = 0.537 GB / 3,350 GB/s = 0.160 ms; $c$ = 16.06
#   GFLOP / 989 TFLOP/s = 0.0162 ms.
# - $B_\text{cache}$ = 4.794 / 0.160 = **29.9** and $B_\text{compute}$ = 4.794 / 0.0162 = **295**.
# - $B_\text{memory}$ = (73.6 - 16.06) / 0.537 = 107.2, so **107**.
# - The cache comes first. At which context would it not? That is one of the questions at the end.


# %% tags=["exercise"]
def ceilings(
    model: dict,
    gpu: dict,
    weight_bits: int,
    kv_bits: int,
    context_len: int,
    memory_fraction: float = 0.92,
) -> dict:
    """Return the batches at which three limits are met, and which of them comes first.

    Args:
        model: n_layers, n_kv_heads, head_dim and params_b (1e9 parameters).
        gpu: gpu_memory_gb (1e9 bytes), gpu_bandwidth_gbps (1e9 bytes a second), gpu_tflops (1e12
            operations a second in 16-bit arithmetic; taken for all bits).
        weight_bits: bits of a weight.
        kv_bits: bits of a number in the cache.
        context_len: tokens in the cache of each request.
        memory_fraction: the share of the memory that weights and cache may fill.

    Returns:
        cache_batch: where reading all caches takes as long as reading the weights, not rounded;
        compute_batch: where computing, 2 operations per parameter and request, takes as long as
            reading the weights, not rounded;
        memory_batch: the most requests that fit, whole, 0 if none does;
        first: "cache", "compute" or "memory", whichever of the three batches is the smallest.
    """
    weight_bytes = model["params_b"] * 1e9 * weight_bits / 8
    numbers_per_token = 2 * model["n_layers"] * model["n_kv_heads"] * model["head_dim"]
    request_bytes = context_len * numbers_per_token * kv_bits / 8
    operations = 2 * model["params_b"] * 1e9
    bytes_per_s, operations_per_s = gpu["gpu_bandwidth_gbps"] * 1e9, gpu["gpu_tflops"] * 1e12
    weights_s = weight_bytes / bytes_per_s
    room_bytes = memory_fraction * gpu["gpu_memory_gb"] * 1e9 - weight_bytes
    found = {
        "cache": weights_s / (request_bytes / bytes_per_s),
        "compute": weights_s / (operations / operations_per_s),
        "memory": max(0, int(room_bytes // request_bytes)),
    }
    first = min(found, key=found.get)
    return {**{f"{name}_batch": batch for name, batch in found.items()}, "first": first}


# %%
shapes = pd.read_csv(DATA / "catalog/models.csv").set_index("model")
catalog = pd.read_csv(DATA / "catalog/gpus.csv").set_index("gpu")


def shape_of(model):
    """Return a model of the catalog as a dict."""
    return shapes.loc[model, [*MODEL_KEYS, "params_b"]].to_dict()


def gpu_of(gpu):
    """Return a GPU of the catalog as a dict."""
    return catalog.loc[gpu, GPU_KEYS].to_dict()


def peak_of(gpu, weight_bits):
    """Return TFLOP/s: twice the 16-bit peak where weights of 8 bits are computed in FP8."""
    in_fp8 = weight_bits == 8 and not gpu.startswith("A100")  # INT8 weights, 16-bit arithmetic
    return gpu_of(gpu)["gpu_tflops"] * (2 if in_fp8 else 1)


for context in (256, 512, 1024, 4096, 16384):
    found = ceilings(shape_of("llama-3.1-8b"), gpu_of("H100-80GB"), 16, 16, context)
    told = "  ".join(f"{key} {found[key]:7.1f}" for key in found if key != "first")
    print(f"{context:6,} tokens: {told}  first: {found['first']}")

# %% [markdown]
# So the cache is *not* always the ceiling. At 256 tokens the arithmetic comes first: 295 requests
# against 479. From 512 tokens on it is the cache.
#
# ## For each GPU and model
#
# Six models on five GPUs, with contexts of 1,200 tokens, about those of the chat requests below.
# **Predict** the pattern before you look.
#
# - Llama-2-7B keeps 32 KV heads where Llama-3.1-8B keeps 8, so its cache batch is about five times
#   smaller, and the cache comes first everywhere.
# - Falcon-7B keeps one KV head of 64: 8,192 bytes a token, and $T^*$ on the H100 is 5,700 tokens. Its
#   context ends at 2,048. On all five GPUs the arithmetic comes before this model's cache, always.
# - The 70B in 8 bits fills an 80 GB card nearly alone: memory comes first there. On the H200 and the
#   B200 it has room. Mind the peak: `ceilings` computes at `gpu_tflops`, the peak of 16-bit
#   arithmetic. With FP8 weights these GPUs compute in FP8, which their data sheets list at twice that
#   rate; an A100 has no FP8 and widens 8-bit weights to 16 bits (`data/README.md`). So the next cell
#   hands `ceilings` the peak that applies. Half the weight bytes at twice the rate leave
#   $B_\text{compute}$ where it was: 206 on the H200, 281 on the B200, beyond the cache's 179.

# %%
found_for = {}
for name, bits in (
    ("llama-3.2-1b", 16),
    ("falcon-7b", 16),
    ("llama-2-7b", 16),
    ("llama-3.1-8b", 16),
    ("qwen3-14b", 16),
    ("llama-3.1-70b", 8),
):
    row = found_for[f"{name}, {bits} bits"] = {}
    for gpu in GPUS:
        machine = {**gpu_of(gpu), "gpu_tflops": peak_of(gpu, bits)}
        found = ceilings(shape_of(name), machine, bits, 16, 1200)
        batches = "/".join(f"{found[f'{key}_batch']:.0f}" for key in ("cache", "compute", "memory"))
        row[gpu] = f"{batches} {found['first']}" if found["memory_batch"] else "does not fit"
print("batch at which the cache / arithmetic / memory limit is met, and which comes first")
pd.DataFrame(found_for).T

# %% [markdown]
# ## Your step models
#
# The three batches come from the data sheet. What would a benchmark show? Bring your two models:
# the roofline of milestone 5 and the traffic model of milestone 6. Paste them into the next two
# functions (neither is graded here), or, if you have no traffic model, let the second return what
# the first does.


# %% tags=["exercise"]
def roofline_steps(train: pd.DataFrame) -> Callable:
    """Fit the four-coefficient roofline of milestone 5.

    Args:
        train: labelled runs (decode_step_ms in ms).

    Returns:
        A function that takes a runs table of n rows (columns as in train, without names or
        labels) and returns an array of shape (n,), the predicted step of each row in ms.
    """
    from scipy.optimize import nnls

    def parts(runs):
        speed, peak = runs["gpu_bandwidth_gbps"] * 1e6, runs["gpu_tflops"] * 1e9  # per ms
        kept = runs["n_layers"] * runs["n_kv_heads"] * runs["head_dim"] * runs["context_len"]
        host = 0.04 * runs["n_layers"] + 0.002 * runs["batch_size"]
        weights = runs["params_b"] * runs["weight_bits"] * 1.25e8 / speed
        cache = runs["batch_size"] * kept * runs["kv_bits"] / 4 / speed
        return np.column_stack(
            [host, weights, cache, 2e9 * runs["params_b"] * runs["batch_size"] / peak]
        )

    measured = train["decode_step_ms"].to_numpy()
    found, _ = nnls(parts(train) / measured[:, None], np.ones(len(measured)))
    return lambda runs: parts(runs) @ found


# %% tags=["exercise"]
def traffic_steps(train: pd.DataFrame) -> Callable:
    """Fit the memory-traffic model of milestone 6: a formula, and a learned factor on top.

    Args:
        train: labelled runs (decode_step_ms in ms).

    Returns:
        A function that takes a runs table of n rows and returns an array of shape (n,), the
        predicted step of each row in ms.
    """
    import lightgbm

    formula = roofline_steps(train)
    own = ["batch_size", "head_dim", "weight_bits", "kv_bits", "gpu_bandwidth_gbps"]

    def facts(runs):
        kept = runs["n_layers"] * runs["n_kv_heads"] * runs["head_dim"] * runs["context_len"]
        cache = runs["batch_size"] * kept * runs["kv_bits"] / 4
        weights = runs["params_b"] * runs["weight_bits"] * 1.25e8
        work = runs["batch_size"] * runs["params_b"] / runs["gpu_tflops"]
        reads = (cache + weights) / runs["gpu_bandwidth_gbps"]
        heads = runs["batch_size"] * runs["n_kv_heads"]
        return np.column_stack(
            [cache / (cache + weights), work / reads, formula(runs), heads, runs[own]]
        )

    trees = lightgbm.LGBMRegressor(
        n_estimators=150, learning_rate=0.08, random_state=0, n_jobs=1, verbose=-1
    )
    trees.fit(facts(train), np.log(train["decode_step_ms"] / formula(train)))
    return lambda runs: formula(runs) * np.exp(trees.predict(facts(runs)))


# %%
train = pd.read_csv(DATA / "train.csv")
validation = pd.read_csv(DATA / "validation.csv")
STEP_MODELS = {
    "roofline (milestone 5)": roofline_steps(train),
    "traffic (milestone 6)": traffic_steps(train),
}
for label, steps_of in STEP_MODELS.items():
    error = np.mean(np.abs(steps_of(validation) / validation["decode_step_ms"] - 1))
    print(f"{label:24} MAPE on validation {error:.3f}")


def runs_of(model, gpu, batch, context, weight_bits=16, kv_bits=16):
    """Return a runs table: one model on one GPU, with an array of batches and of contexts."""
    fixed = {**shape_of(model), **gpu_of(gpu), "weight_bits": weight_bits, "kv_bits": kv_bits}
    batch = np.asarray(batch)
    return pd.DataFrame(
        {**fixed, "batch_size": batch, "context_len": context}, index=range(len(batch))
    )


# %% [markdown]
# **Predict** the curve. At $B_\text{cache}$ the step is $2w + Bc$, so the throughput is
# $(k + c) / (2k + c)$ of what an endless batch would give: **about half**, a little more for the
# arithmetic, a little less for the overhead that the formula leaves out. From there on, doubling
# the batch gives only a third more. So the dots should lie on the bend of every curve, whatever the
# GPU or the context.

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
curves = [(left, "H100-80GB", context, f"{context:,} tokens") for context in (512, 2048, 8192)]
curves += [(right, gpu, 2048, gpu) for gpu in GPUS]
share_at_mark = []
for number, (ax, gpu, context, label) in enumerate(curves):
    found = ceilings(shape_of("llama-3.1-8b"), gpu_of(gpu), 16, 16, context)
    batch = np.unique(np.geomspace(1, found["memory_batch"], 60).astype(int))
    color = f"C{number % 3}" if ax is left else f"C{number - 3}"
    for (_, steps_of), style in zip(STEP_MODELS.items(), ("--", "-"), strict=True):
        rate = 1000 * batch / steps_of(runs_of("llama-3.1-8b", gpu, batch, context))
        ax.plot(batch, rate, style, color=color, label=label if style == "-" else None)
    at = found["cache_batch"]
    if at < found["memory_batch"]:
        ax.plot(at, np.interp(at, batch, rate), "o", color=color)
    far = np.array([round(at), 1_000_000])
    near, endless = (
        1000
        * far
        / STEP_MODELS["roofline (milestone 5)"](runs_of("llama-3.1-8b", gpu, far, context))
    )
    share_at_mark.append(near / endless)
for ax, title in ((left, "Llama-3.1-8B on one H100"), (right, "Llama-3.1-8B, 2,048 tokens each")):
    ax.set(xscale="log", yscale="log", xlabel="batch (requests)", title=title)
    ax.set_ylabel("tokens per second")
    ax.legend()
fig.suptitle(
    "Solid: traffic model. Dashed: roofline. "
    "Dots: caches cost as much as the weights. Lines end with the memory."
)
plt.show()
print("throughput at the dot, as a share of an endless batch (roofline):")
print(np.round(share_at_mark, 2))

# %% [markdown]
# So for this model and contexts beyond a few hundred tokens, **the cache is the ceiling, not the
# arithmetic**: the curves bend at a batch of tens to a few hundred, before the ridge. What
# helps past the bend is not a faster chip but fewer cache bytes per request. Before the bend,
# what helps is a larger batch, and there memory decides: how many requests really fit?
#
# ## Real requests
#
# Requests are not 4,096 tokens each. The next cell holds 200 real ones, two runs of 100 consecutive
# requests (from 18:15:46, where it begins, and from 18:47:11) of a public trace of a chat service in
# Azure, one hour of November 2023: prompt and output in tokens. The trace belongs to Splitwise (Patel
# et al. 2023, arXiv:2311.18677; `AzureLLMInferenceTrace_conv.csv` in
# github.com/Azure/AzurePublicDataset, CC-BY).
#
# **These 200 are an excerpt, no fair sample.** Of the whole trace the paper gives a median of 1,020
# tokens for prompts and 129 for outputs. Compare the medians below.

# %% tags=["given"]
TRACE = """
374,44 396,109 879,55 91,16 91,16 381,84 1313,142 388,84 242,14 209,152
394,124 394,59 1315,174 2221,15 389,90 415,106 120,12 369,74 206,162 1353,142
197,152 181,154 388,54 4085,62 2584,170 203,147 126,194 389,87 2548,116 91,16
4081,74 181,123 191,217 27,183 203,217 398,81 126,172 209,181 209,181 28,175
437,88 181,104 203,138 200,177 4073,58 91,16 1087,401 382,64 412,102 194,217
203,217 200,217 64,174 458,123 1352,158 874,404 378,58 91,16 4074,50 389,89
212,183 1085,394 407,131 396,82 1029,399 962,399 203,217 898,94 181,253 320,18
1119,414 124,157 1313,179 1096,383 400,102 1057,424 203,162 1314,216 2,93 1065,409
372,60 4094,82 1104,394 1075,415 4088,37 1225,372 1118,426 380,102 1133,385 42,167
2590,50 1140,377 126,203 431,84 1115,421 206,179 400,91 1123,396 862,379 859,422
4120,70 31,157 415,103 1759,66 401,94 120,12 389,97 387,110 4079,90 1317,243
401,127 428,87 4116,57 387,79 1315,231 239,14 426,92 1919,70 4085,55 2840,99
1293,45 1017,426 397,87 197,162 4123,60 4320,116 394,155 454,40 4097,38 1192,393
373,80 4082,48 396,134 396,94 408,88 4072,199 406,98 395,134 203,158 373,56
811,42 397,133 1316,159 375,68 384,72 4076,78 1218,45 865,47 473,110 4076,33
181,73 1048,420 1324,166 1113,406 381,69 381,105 413,81 1029,394 409,96 934,452
400,109 4074,73 181,145 398,100 4083,63 381,76 415,104 1156,438 313,18 403,97
399,102 725,36 401,84 401,97 1045,91 377,73 407,131 4092,35 1481,63 473,93
709,106 374,93 401,96 387,83 397,84 2440,83 4078,87 4077,62 4074,43 1153,77
1038,436 374,64 2092,72 374,56 408,83 4090,69 396,96 181,179 2744,89 374,109
"""
REQUESTS = [[int(number) for number in pair.split(",")] for pair in TRACE.split()]
POLICIES = ("longest", "power_of_two", "exact", "paged")
MAX_LEN = 4608  # a round number of tokens above the longest of these 200 requests
BLOCK = 16  # tokens in a block, as in vLLM

# %%
lengths = np.array(REQUESTS)
total = lengths.sum(axis=1)
fig, ax = plt.subplots(figsize=(7, 3.6))
ax.hist([lengths[:, 0], lengths[:, 1]], bins=np.geomspace(2, 5000, 30), label=["prompt", "output"])
ax.set(xscale="log", xlabel="tokens", ylabel="requests", title="200 requests of a chat service")
ax.legend()
plt.show()
print(f"prompt: median {np.median(lengths[:, 0]):.0f}, mean {lengths[:, 0].mean():.0f} tokens")
print(f"output: median {np.median(lengths[:, 1]):.0f}, mean {lengths[:, 1].mean():.0f} tokens")
print(f"longest of these 200: {total.max():,} tokens; mean {total.mean():,.0f}")

# %% [markdown]
# ## Four ways to give out memory
#
# A request's cache grows by one token a step, and nobody knows in advance where it will end. If it
# must lie in one piece, the piece must be cut before the first token. Kwon et al. (2023,
# arXiv:2309.06180), the paper of vLLM, compare these; their names stand in brackets:
#
# - **longest** [Orca (Max)]: a piece for the longest request that is allowed, `max_len` tokens.
# - **power_of_two** [Orca (Pow2)]: the prompt, and for the output the next power of two at or above
#   its length, as if a guess were right within a factor of two; at most `max_len` in all.
# - **exact** [Orca (Oracle)]: prompt + output. An oracle: no system knows this.
# - **paged** [vLLM]: no piece at all. Blocks of 16 tokens, taken one by one as the request grows; only
#   the last block is not full.
#
# A block table says where the blocks lie, as a page table does in an operating system.
#
# **Predict** the share of reserved memory that holds no token, over the life of the requests. The
# mean request holds about 1,100 tokens while it is decoded. So *longest* wastes about
# 1 - 1,100 / 4,608 = **76 %**; *exact* wastes half of the outputs on average; *paged* wastes
# half a block of 16, about 8 of 1,100 tokens: **0.7 %**.


# %% tags=["exercise"]
def reserved_tokens(
    policy: str, prompt: int, made: int, output: int, max_len: int, block_size: int
) -> int:
    """Return how many tokens of memory a request has reserved when it holds prompt + made tokens.

    Args:
        policy: one of POLICIES.
        prompt: tokens of the prompt.
        made: output tokens made so far, at least 1 and at most `output`.
        output: output tokens it will have made at its end.
        max_len: the most tokens that a request may have, prompt and output together.
        block_size: tokens in a block.

    Returns:
        longest: max_len; power_of_two: the prompt and the smallest power of two (1, 2, 4, ...) that
        is at least `output`, but at most max_len in all; exact: all tokens that it will have;
        paged: whole blocks for the tokens it holds now.
    """
    if policy == "longest":
        return max_len
    if policy == "exact":
        return prompt + output
    if policy == "power_of_two":
        room = 1
        while room < output:
            room *= 2
        return min(prompt + room, max_len)
    return math.ceil((prompt + made) / block_size) * block_size


# %% tags=["exercise"]
def waste(policy: str, requests: list, max_len: int, block_size: int) -> float:
    """Return the share of the reserved memory that holds no token.

    Look at each request after each of its output tokens (made = 1, 2, ..., output), as if each
    look took equally long. Of all tokens of memory reserved in all of these looks, which share
    holds no token?

    Args:
        policy: one of POLICIES.
        requests: pairs of prompt and output, in tokens; outputs are at least 1.
        max_len: the most tokens that a request may have.
        block_size: tokens in a block.
    """
    held = reserved = 0
    for prompt, output in requests:
        for made in range(1, output + 1):
            held += prompt + made
            reserved += reserved_tokens(policy, prompt, made, output, max_len, block_size)
    return 1 - held / reserved


# %%
wasted = {policy: waste(policy, REQUESTS, MAX_LEN, BLOCK) for policy in POLICIES}


def held_on_average(requests):
    """Return how many tokens a request holds, on average over all its steps."""
    prompt, output = np.array(requests).T
    return np.average(prompt + (output + 1) / 2, weights=output)


while_made = held_on_average(REQUESTS)
sizes = 2 ** np.arange(1, 11)
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
bars = left.bar(
    POLICIES, [100 * share for share in wasted.values()], color=["C3", "C1", "C2", "C0"]
)
left.bar_label(bars, fmt="%.1f %%")
left.axhspan(60, 80, color="grey", alpha=0.2)
left.text(3.4, 61, "60 to 80 %: vLLM's authors,\nof systems in 2023", ha="right", va="bottom")
left.set(ylabel="reserved memory without a token (%)", ylim=(0, 90), title=f"max_len {MAX_LEN:,}")
right.plot(sizes, [100 * waste("paged", REQUESTS, MAX_LEN, int(size)) for size in sizes], "o-")
guess = 100 * (sizes - 1) / 2 / (while_made + (sizes - 1) / 2)
right.plot(sizes, guess, "k--", lw=1, label="half a block for each request")
right.axhline(4, color="grey", lw=1, label="4 %, vLLM's claim")
right.set(xscale="log", yscale="log", xlabel="tokens in a block", ylabel="waste of paging (%)")
right.legend()
plt.show()
print(f"tokens held while decoding, on average: {while_made:,.0f}")
print(f"longest, with a max_len of 8,192: {waste('longest', REQUESTS, 8192, BLOCK):.0%}")

# %% [markdown]
# The 60 to 80 % are the figure of vLLM's authors for systems of their time (vllm.ai, blog of 20
# June 2023; the paper's figure 2 says that 20 to 38 % of the cache memory held tokens). Here
# *longest* lies in that band because 4,608 was chosen close above these 200 requests. The trace holds
# longer ones (4,509 + 134 tokens at 18:44:53), and a server allows what its model can hold: with the
# 8,192 of the first Llama 3 the waste is worse, as printed. The other two waste much less here than in
# the paper. Its ShareGPT chats have outputs longer than prompts; here the prompts are several times as
# long as the outputs, and a prompt's length is known. (External fragmentation, holes between pieces of
# several sizes, comes on top for the two middle policies. This notebook counts tokens and has no
# addresses.)
#
# ## From waste to throughput: play it through
#
# A server decodes the requests of a queue with **continuous batching**: after every step, finished
# requests leave and others join. With pages there is a catch. A request is let in with room for
# what it holds now, and when all of them grow, memory runs out in mid-flight. Then the newest is
# put back at the head of the queue, and its blocks are free. (The tokens it has made are kept as
# text. When it comes back, its cache is computed again; here that costs no step.)
#
# One step is, in this order:
#
# 1. *Room.* Each running request needs room for the tokens it holds and the one it makes now. While
#    all running ones together need more than the memory holds, the newest (the one let in last)
#    goes back to the head of the queue.
# 2. *Join.* Requests join from the head of the queue, as long as the memory holds what they and all
#    others running need. The first that does not fit ends it: nobody overtakes.
# 3. *Decode.* Each running request makes one token. Batch and tokens held are written down.
# 4. *Leave.* Who has made its last token leaves and frees its memory.


# %% tags=["exercise"]
def schedule(
    policy: str, requests: list, capacity_tokens: int, max_len: int, block_size: int
) -> list:
    """Return what runs in each step, from the first until every request has made its last token.

    Args:
        policy: one of POLICIES; what a request needs is `reserved_tokens` of it, with the token
            that it makes in this step counted among those made.
        requests: pairs of prompt and output, in tokens, in the order of the queue. All are there
            from the start, and each fits alone.
        capacity_tokens: tokens of memory.
        max_len: the most tokens that a request may have.
        block_size: tokens in a block.

    Returns:
        A pair of whole numbers for each step: the batch, and the tokens that these requests hold
        when each has made its token of this step.
    """
    queue = deque([prompt, output, 0] for prompt, output in requests)
    running, steps = [], []

    def need(request):
        prompt, output, made = request
        return reserved_tokens(policy, prompt, made + 1, output, max_len, block_size)

    while queue or running:
        used = sum(need(request) for request in running)
        while used > capacity_tokens:
            newest = running.pop()
            used -= need(newest)
            queue.appendleft(newest)
        while queue and used + need(queue[0]) <= capacity_tokens:
            used += need(queue[0])
            running.append(queue.popleft())
        if not running:
            raise ValueError("the request at the head of the queue fits into no empty memory")
        for request in running:
            request[2] += 1
        steps.append([len(running), sum(prompt + made for prompt, _, made in running)])
        running = [request for request in running if request[2] < request[1]]
    return steps


# %% [markdown]
# **On paper first.** Three requests, prompts of 3 and outputs of 4, in a memory of 12 tokens with
# blocks of 2. With one token made a request holds 4 tokens, 2 blocks; three of them fill all 6. With
# the second token each needs a third block, 9 in all: the newest goes back (6 blocks for two).
# Third token: 6 tokens, still 3 blocks each. Fourth: 7 tokens, 4 blocks each, 8 in all: the second
# goes back too, one remains. Then both return: (3 + 3 + 1) + (3 + 1 + 1) tokens are 4 + 3 blocks, too
# many, so one at a time: first the second's last token, then the third's last three.
# **Steps: 3, 2, 2, 1, 1, 1, 1, 1.**

# %%
for policy in POLICIES:
    steps = schedule(policy, [[3, 4], [3, 4], [3, 4]], 12, 8, 2)
    print(f"{policy:13}", [batch for batch, _ in steps])

# %% [markdown]
# Now the real thing: 2,500 requests, drawn from the 200 with replacement, on Llama-2-13B and one
# A100 of 80 GB. A Llama 2 has 4,096 tokens of context, so it gets only the requests that it can hold,
# and *longest* reserves no more than 4,096. The memory holds 58,000 tokens of that model. **Predict:**
# *longest* runs 58,000 / 4,096 = **14** at a time. Without the longest requests a request holds about
# 870 tokens, so *paged* runs 58,000 / 870, **some 65**.

# %%
rng = np.random.default_rng(0)
many = [REQUESTS[i] for i in rng.integers(0, len(REQUESTS), 2500)]


def capacity_of(model, gpu, weight_bits=16, kv_bits=16):
    """Return how many tokens of cache fit beside the weights, in 92 % of the memory."""
    # one request of one token each: as many requests as tokens
    return ceilings(shape_of(model), gpu_of(gpu), weight_bits, kv_bits, 1)["memory_batch"]


def served(model, requests, max_len=MAX_LEN):
    """Return the requests that a model's context can hold, and the longest that is allowed."""
    max_len = min(max_len, int(shapes.loc[model, "max_context"]))
    return [request for request in requests if sum(request) <= max_len], max_len


capacity = capacity_of("llama-2-13b", "A100-80GB")
requests, allowed = served("llama-2-13b", many)
print(f"{len(requests):,} of {len(many):,} requests have at most {allowed:,} tokens")
fig, ax = plt.subplots(figsize=(9, 4))
for policy, color in zip(POLICIES, ["C3", "C1", "C2", "C0"], strict=True):
    steps = np.array(schedule(policy, requests, capacity, allowed, BLOCK))
    ax.plot(steps[:, 0], color=color, lw=0.8, label=f"{policy}: {len(steps):,} steps")
    used = steps[: len(steps) // 2, 1].mean() / capacity
    print(
        f"{policy:13} mean batch {steps[:, 0].mean():5.1f}, {used:.0%} of the memory holds tokens"
    )
ax.set(xlabel="step", ylabel="requests running")
ax.set_title(
    f"{len(requests):,} requests, Llama-2-13B on an A100-80GB: {capacity:,} tokens of memory"
)
ax.legend(loc="upper right")
plt.show()

# %% [markdown]
# ## How much faster?
#
# More requests at a time are more tokens per second, but not in proportion: past $B_\text{cache}$ the
# curve is bent. So the same waste costs a different price on each machine. **Predict** with one
# line: with batches $B_1$ and $B_2$ decoding gains $\frac{B_2}{B_1} \cdot \frac{t(B_1)}{t(B_2)}$, where
# $B_1$ = capacity / `max_len`, rounded down, and $B_2$ = capacity / tokens held on average. The batch
# grows by `max_len` / tokens held at the most: 4,608 / 1,100, **four times**. The throughput grows as
# much only left of the bend. Qwen3-14B on an L40S stays there, so expect about three; the 8B on an
# H100 goes far beyond, so expect well below two.
#
# Decoding is not all. Before its first output token a request has its prompt computed, the
# **prefill**, and paging saves nothing of it. Charge it as 2 operations per parameter and token, at an
# assumed half of the peak. Paging even adds to it: who is put back has its whole cache computed
# again, and now it costs. **Predict** for the 8B on an H100: 1,050 prompt tokens take 34 ms. The 144
# output tokens share steps of some 13 ms with 95 requests in *longest*, 20 ms, and steps of some 33 ms
# with 411 in *paged*, 12 ms. From 54 ms to 46 ms a request: **1.2 times**.
#
# The last machine is the paper's own: OPT-13B on a 40 GB card, with 2,048 tokens of context. It is
# played twice: with this trace's requests, and with lengths of the means that the paper gives for
# ShareGPT, 161 tokens in and 338 out (drawn exponentially; that form is ours). The A100-40GB is in no
# run that the step models were fitted to.

# %%
BY = [label.split()[0] for label in STEP_MODELS]  # roofline, traffic
drawn = np.ceil(rng.exponential([161, 338], (2500, 2))).astype(int)
machines = [
    ("llama-3.1-8b", "A100-80GB", 16, many),
    ("llama-3.1-8b", "H100-80GB", 16, many),
    ("llama-3.1-8b", "L40S", 16, many),
    ("llama-3.1-70b", "H200", 8, many),
    ("qwen3-14b", "L40S", 16, many),
    ("llama-2-13b", "A100-80GB", 16, many),
    ("opt-13b", "A100-40GB", 16, many),
    ("opt-13b", "A100-40GB", 16, drawn.tolist()),
]


def play(policy, model, gpu, bits, asked, max_len=MAX_LEN):
    """Return the steps of a queue of requests, as an array."""
    requests, allowed = served(model, asked, max_len)
    return np.array(schedule(policy, requests, capacity_of(model, gpu, bits), allowed, BLOCK))


def decoded_rate(steps, model, gpu, bits, steps_of):
    """Return tokens per second while the queue is full: from a tenth to half of a run's steps."""
    steps = steps[len(steps) // 10 : len(steps) // 2]
    context = np.ceil(steps[:, 1] / steps[:, 0]).astype(int)
    milliseconds = steps_of(runs_of(model, gpu, steps[:, 0], context, bits)).sum()
    return 1000 * steps[:, 0].sum() / milliseconds


def prefilled(requests, batches):
    """Return how many tokens a queue had prefilled, with those of requests that were put back.

    The batches tell who ran: a batch larger than what was left has new ones from the head of the
    queue, a smaller one has lost its newest.
    """
    to_come = list(range(len(requests)))[::-1]
    missing = [output for _, output in requests]
    inside, tokens = [], 0
    for batch in batches:
        for _ in range(len(inside) - batch):
            to_come.append(inside.pop())
        for _ in range(batch - len(inside)):
            inside.append(to_come.pop())
            tokens += sum(requests[inside[-1]]) - missing[inside[-1]]
        for number in inside:
            missing[number] -= 1
        inside = [number for number in inside if missing[number]]
    return tokens


def prefill_s(model, gpu, bits, tokens):
    """Return the seconds that prefill takes for some tokens, at an assumed half of the peak."""
    return 2 * shape_of(model)["params_b"] * 1e9 * tokens / (0.5e12 * peak_of(gpu, bits))


rows = []
for model, gpu, bits, asked in machines:
    requests, allowed = served(model, asked)
    prompts, outputs = np.array(requests).sum(axis=0)
    held, tokens = held_on_average(requests), capacity_of(model, gpu, bits)
    batch = np.array([tokens // allowed, tokens / held])
    step = STEP_MODELS["roofline (milestone 5)"](runs_of(model, gpu, batch, int(held), bits))
    row = {
        "machine": f"{model}, {gpu}" + ("" if asked is many else ", ShareGPT"),
        "max_len": allowed,
        "longest: batch": batch[0],
        "paged: batch": batch[1],
        "cache batch": ceilings(shape_of(model), gpu_of(gpu), bits, 16, int(held))["cache_batch"],
        "predicted": batch[1] / batch[0] * step[0] / step[1],
    }
    played = {p: play(p, model, gpu, bits, asked) for p in ("longest", "exact", "paged")}
    computed = {p: prefilled(requests, steps[:, 0]) for p, steps in played.items()}
    row["prefilled again"] = f"{computed['paged'] / prompts - 1:.0%}"
    for by, steps_of in zip(BY, STEP_MODELS.values(), strict=True):
        decode_s = {
            p: outputs / decoded_rate(steps, model, gpu, bits, steps_of)
            for p, steps in played.items()
        }
        whole_s = {p: decode_s[p] + prefill_s(model, gpu, bits, computed[p]) for p in played}
        row[f"decoding, {by}"] = decode_s["longest"] / decode_s["paged"]
        row[f"with prefill, {by}"] = whole_s["longest"] / whole_s["paged"]
        row[f"over exact, {by}"] = decode_s["exact"] / decode_s["paged"]
    rows.append(row)
gains = pd.DataFrame(rows).set_index("machine")
shown = ["max_len", "longest: batch", "paged: batch", "cache batch", "prefilled again"]
print("last column: tokens that paging prefills once more, as a share of all prompts")
gains[shown].round({"paged: batch": 0, "cache batch": 0})

# %%
print("tokens per second, paged / longest; in the last two columns, decoding, paged / exact")
kinds = [f"{kind}, {by}" for kind in ("decoding", "with prefill", "over exact") for by in BY]
gains[["predicted", *kinds]].round(2)

# %%
at = np.arange(len(gains))
fig, ax = plt.subplots(figsize=(9, 5.2), layout="constrained")
ax.plot(gains["predicted"], at, "kx", ms=9, label="decoding, predicted in one line")
for by, marker in zip(BY, ("o", "s"), strict=True):
    ax.plot(gains[f"decoding, {by}"], at, marker, mfc="none", color="C0", label=f"decoding, {by}")
    ax.plot(gains[f"with prefill, {by}"], at, marker, color="C1", label=f"with prefill, {by}")
ax.plot([2.7, 8], [at[-1]] * 2, color="grey", alpha=0.4, lw=9, solid_capstyle="butt", zorder=0)
ax.text(8, at[-1] - 0.3, "2.7 to 8: vLLM's paper, ShareGPT", ha="right", va="top")
ax.set_yticks(
    at,
    [
        f"{machine}\n{row['longest: batch']:.0f} at a time or {row['paged: batch']:.0f}, "
        f"bend at {row['cache batch']:.0f}"
        for machine, row in gains.iterrows()
    ],
)
ax.set(xlim=(0.9, 8.2), xlabel="tokens per second, paged / longest")
ax.set_title("Paging gains less where the curve is bent, and where prompts are long")
ax.legend(loc="center right")
plt.show()

# %% [markdown]
# What the paper measured is another quantity, the rate of requests at equal latency, against the
# systems of its day. Its abstract says 2 to 4 times, against FasterTransformer and Orca. Like for like
# is its section 6.2, on ShareGPT and three sizes of OPT: **2.7 to 8 times** Orca (Max), which reserves
# 2,048 tokens as our *longest* does on OPT, and 1.7 to 2.7 times Orca (Oracle), our *exact*.
#
# - **On ShareGPT's lengths** our simulation lands in that range, with prefill too: chats of 500 tokens
#   in pieces of 2,048, and outputs twice as long as prompts. It runs some 29 at a time instead of 6;
#   the paper counted 30.4 and 7.0 (figure 13, at 2 requests a second). Our queue never empties, and
#   long outputs are often put back: paging prefills nearly three times as many tokens.
# - **On this trace** it stays below. OPT's batch cannot even triple, since 2,048 are not three times
#   what its requests hold. And prompts are several times as long as outputs, so that with prefill the
#   newer models gain **1.1 to 1.8** times, not 1.4 to 3.
# - **Over *exact*** paging gains almost half on ShareGPT's lengths, near the paper's 1.7, and hardly
#   anything here, where little is reserved for short outputs. In the paper's figure 2 only 38 % of
#   Orca (Oracle)'s memory holds tokens: some of the rest is lost to pieces of fixed sizes, which this
#   notebook does not play.
#
# The rule to keep: **paging multiplies the batch by the waste it removes. Decoding follows as long as
# the batch is left of the bend, and the whole follows as far as decoding is most of the time.**
#
# One more thing decides: how much *longest* reserves is a choice. These 200 requests end at 4,436
# tokens; a model that can hold 131,072 might be allowed more. **Predict:** with a `max_len` of 8,192
# *longest* runs half as many at a time, and *paged* as many as before.

# %%
steps_of = STEP_MODELS["roofline (milestone 5)"]
moved = {}
for model, gpu, bits, asked in machines[:5]:
    paged = decoded_rate(play("paged", model, gpu, bits, asked), model, gpu, bits, steps_of)
    row = moved[f"{model}, {gpu}"] = {}
    for max_len in (4608, 8192, 16384):
        steps = play("longest", model, gpu, bits, asked, max_len)
        row[f"max_len {max_len:,}"] = paged / decoded_rate(steps, model, gpu, bits, steps_of)
print("decoding alone: tokens per second, paged / longest (roofline)")
pd.DataFrame(moved).T.round(2)

# %% [markdown]
# So a gain of paging says nothing without the `max_len` beside it: on the H100 1.7 becomes 2.4, for no
# other reason than a larger reservation.

# %% [markdown]
# ## A beginning that all share
#
# Many requests begin alike: a system prompt, tools, examples. Keys and values of a token depend on
# the tokens up to it and on nothing else (milestone 4), so a **whole block** whose tokens, and all
# tokens before it, are the same can be kept once for all requests. vLLM names each full block by the
# tokens in it and before it (docs.vllm.ai, design of prefix caching). A block that is not yet full
# is not shared: its owner still writes into it.
#
# **Predict:** with blocks of 4, the prompts `1 2 3 4 5 6` and `1 2 3 4 5 7` hold 2 blocks each, 4 in
# all. Shared: **3**. And `9 9 1 2 3 4` beside `1 2 3 4 5 6`? They hold the same tokens at
# different places: nothing is shared.


# %% tags=["exercise"]
def blocks_held(prompts: list, block_size: int, shared: bool) -> int:
    """Return how many blocks of memory the caches of some prompts take.

    Args:
        prompts: lists of token numbers, each at least one token long.
        block_size: tokens in a block.
        shared: whether a full block is kept once for all prompts that are the same up to its end.
            A last block that is not full belongs to its prompt alone, in either case.
    """
    if not shared:
        return sum(math.ceil(len(prompt) / block_size) for prompt in prompts)
    beginnings, not_full = set(), 0
    for prompt in prompts:
        for end in range(block_size, len(prompt) + 1, block_size):
            beginnings.add(tuple(prompt[:end]))
        not_full += len(prompt) % block_size > 0
    return len(beginnings) + not_full


# %%
print(blocks_held([[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 7]], 4, True), "blocks, shared beginning")
print(
    blocks_held([[9, 9, 1, 2, 3, 4], [1, 2, 3, 4, 5, 6]], 4, True), "blocks, same words elsewhere"
)

# %% [markdown]
# Put a system prompt of 2,000 tokens before every request of the trace. **Predict** for Llama-3.1-8B
# on an H100, 439,000 tokens of memory: without sharing a request takes 2,000 + 1,100 tokens, so
# **142** fit; with sharing the 125 whole blocks are there once, and (439,000 - 2,000) / 1,100, about
# **400**, fit. Prefill is saved too: 2,000 tokens for all but the first.
#
# What happens to the throughput is less obvious. Memory is shared, but *reading* is not: a plain
# attention kernel reads the prefix again for every request. Only kernels that attend to the shared
# part once for the whole batch (Hydragen, Juravsky et al. 2024, arXiv:2402.05099) save the traffic
# as well. So predict three figures with the roofline, and compare.

# %%
SYSTEM = 2000
steps_of = STEP_MODELS["roofline (milestone 5)"]
tokens = capacity_of("llama-3.1-8b", "H100-80GB")
alone, together = tokens / (SYSTEM + while_made), (tokens - SYSTEM) / while_made
read_all = SYSTEM + while_made
cases = {
    "nothing shared": (alone, read_all),
    "memory shared": (together, read_all),
    "memory and reads\nshared": (together, while_made + SYSTEM / together),
}
fig, ax = plt.subplots(figsize=(6.5, 3.6))
batch, context = np.array(list(cases.values())).T
rate = 1000 * batch / steps_of(runs_of("llama-3.1-8b", "H100-80GB", batch, context))
bars = ax.bar(list(cases), rate, color=["C3", "C1", "C0"])
ax.bar_label(bars, [f"{b:.0f} requests\n{r:,.0f}" for b, r in zip(batch, rate, strict=True)])
ax.set(ylabel="tokens per second", ylim=(0, 1.25 * rate.max()))
ax.set_title("A system prompt of 2,000 tokens, Llama-3.1-8B on an H100")
plt.show()
words = [
    [*range(2000), *(10_000 + 5000 * i + np.arange(prompt)).tolist()]
    for i, (prompt, _) in enumerate(REQUESTS)
]
apart, once = (blocks_held(words, BLOCK, shared) for shared in (False, True))
print(f"the 200 prompts: {apart:,} blocks apart, {once:,} shared: {1 - once / apart:.0%} less")

# %% [markdown]
# Sharing memory alone lifts the batch almost three-fold and the throughput by much less, since all
# of the prefix is still read for everyone. That is the ceiling of this lab once more: past the bend
# only bytes that are *not read* count.
#
# ## What a million tokens cost
#
# A GPU costs dollars an hour and makes tokens per second. Take the paged schedule, and the band of
# list prices in `data/catalog/gpus.csv` (public lists up to May 2026). A customer pays for prompts
# too, so charge prefill as above. **Predict** for Llama-3.1-8B on an H100, per request: about 1,050
# prompt tokens are 17 TFLOP, 34 ms; about 144 output tokens share steps of some 33 ms with 410
# others: 12 ms. So here prefill costs more than decoding, 46 ms for 1,200 tokens, 26,000 tokens per
# second. At 2 to 5 dollars an hour that is **2 to 5 cents** a million.

# %%
offers = [
    ("llama-3.1-8b", "L40S", 16),
    ("llama-3.1-8b", "A100-80GB", 16),
    ("llama-3.1-8b", "H100-80GB", 16),
    ("qwen3-14b", "H100-80GB", 16),
    ("llama-3.1-70b", "H200", 8),
    ("llama-3.1-70b", "B200", 8),
]
BUSY = 0.4  # assumed share of the day in which there is enough to do
priced = []
prompts, outputs = np.array(many).sum(axis=0)
for model, gpu, bits in offers:
    steps = play("paged", model, gpu, bits, many)
    rate = decoded_rate(steps, model, gpu, bits, STEP_MODELS["traffic (milestone 6)"])
    prefilling = prefill_s(model, gpu, bits, prefilled(many, steps[:, 0]))
    seconds = prefilling + outputs / rate
    both = (prompts + outputs) / seconds
    low, high = catalog.loc[gpu, ["usd_per_hour_low", "usd_per_hour_high"]]
    priced.append(
        {
            "machine": f"{model}, {gpu}",
            "decoded tokens/s": round(rate),
            "prefill, share of time": f"{prefilling / seconds:.0%}",
            "USD per million in or out, low": low / both / 3600 * 1e6,
            "high": high / both / 3600 * 1e6,
            "output alone, decoding, low": low / rate / 3600 * 1e6,
            "high ": high / rate / 3600 * 1e6,
        }
    )
prices = pd.DataFrame(priced).set_index("machine")
prices.round(3)

# %%
LISTED = {  # USD per million tokens in, and out
    "DeepInfra": {"llama-3.1-8b": (0.055, 0.055), "llama-3.1-70b": (0.13, 0.40)},
    "Fireworks": {
        "llama-3.1-8b": (0.20, 0.20),
        "qwen3-14b": (0.20, 0.20),
        "llama-3.1-70b": (0.90, 0.90),
    },
}
fig, ax = plt.subplots(figsize=(8.5, 4.2), layout="constrained")
at = np.arange(len(prices))
low, high = (prices[key].to_numpy() for key in ("USD per million in or out, low", "high"))
for shift, share, color, label in (
    (-0.18, 1.0, "C0", "always busy"),
    (0.18, BUSY, "C1", f"busy {BUSY:.0%} of the time"),
):
    ax.barh(
        at + shift, (high - low) / share, left=low / share, height=0.3, color=color, label=label
    )
for (seller, asks), marker in zip(LISTED.items(), ("D", "*"), strict=True):
    marks = [
        (np.dot(asks[model], (prompts, outputs)) / (prompts + outputs), y)
        for y, (model, _, _) in enumerate(offers)
        if model in asks
    ]
    ax.plot(*zip(*marks, strict=True), "k" + marker, mfc="white", ms=9, label=f"{seller} asks")
ax.axvspan(0.07, 0.90, color="grey", alpha=0.15, zorder=0, label="0.07 to 0.90")
ax.set_yticks(at, prices.index)
ax.invert_yaxis()
ax.set(xscale="log", xlabel="USD per million tokens, in or out (prefill and decoding)")
ax.set_xticks([0.02, 0.05, 0.1, 0.2, 0.5, 1, 2], ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"])
fig.legend(loc="outside lower center", ncols=5)
plt.show()

# %% [markdown]
# Open models of this size are sold for roughly 0.07 to 0.90 USD per million tokens, the grey band: a
# round figure that this course takes, no measurement. Two public lists are marked. DeepInfra's pages
# asked 0.055 USD for the 8B, which is *below* the band, and 0.13 in and 0.40 out for the 70B in FP8
# (marked at this trace's mix). Fireworks' list asked 0.20 USD up to 16 billion parameters and 0.90 up
# to 80, which is the band's upper end. (Stored copies of deepinfra.com and of fireworks.ai/pricing,
# without a date, from about 2024 and 2025; look up your own.)
#
# Always busy, the 8B costs less than Fireworks asks on every GPU, and less than DeepInfra asks where
# the GPU is cheap; so does the 70B. What lies between is idle time, promises of latency, people and
# profit. A price is no measurement of cost; but a cost far *above* what others ask says that nobody
# would buy. And output alone, in the last two columns, is dearer per token: a step of decoding makes
# few tokens for all the bytes that it reads, while prefill reads them once for a whole prompt.
#
# ## How many bits does a cache hold?
#
# Past the bend, fewer bytes are more tokens. Quantisation loses some of each number. Is there
# anything to win *without* loss? A 16-bit number whose bits are not all equally likely can be
# written in fewer than 16. Shannon's **entropy** says how few: a source that sends symbol $s$ with
# probability $p_s$ needs on average at least
#
# $$H = -\sum_s p_s \log_2 p_s \quad \text{bits per symbol,}$$
#
# if every symbol is coded by itself. Eight symbols, equally likely: 3 bits. One symbol: 0.


# %% tags=["exercise"]
def entropy_bits(data: list) -> float:
    """Return the entropy of some bytes, in bits per byte.

    Args:
        data: whole numbers from 0 to 255, a list or an array, at least one. A value's probability
            is its share of the data; values that do not occur add nothing.
    """
    counts = np.bincount(np.asarray(data, dtype=np.int64))
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


# %% [markdown]
# A byte of mixed bits hides what is regular, so take numbers apart first. In 16 bits, from the top:
#
# | | sign | exponent | mantissa | high byte | low byte |
# |---|---|---|---|---|---|
# | float16 | 1 | 5 | 10 | sign, exponent, 2 of the mantissa | 8 of the mantissa |
# | bfloat16 | 1 | 8 | 7 | sign, 7 of the exponent | 1 of the exponent, mantissa |
#
# bfloat16 is the upper half of a float32. (Rounding aside: here the lower half is cut off.)


# %% tags=["exercise"]
def byte_planes(numbers: np.ndarray, kind: str) -> np.ndarray:
    """Return the high and the low bytes of numbers in a 16-bit format.

    Args:
        numbers: n numbers, a list or an array.
        kind: "float16", or "bfloat16": the upper 16 bits of the number as a float32.

    Returns:
        An array of shape (2, n), whole numbers from 0 to 255: the high bytes (with the sign) in
        row 0, the low bytes in row 1.
    """
    if kind == "float16":
        words = np.asarray(numbers).astype(np.float16).view(np.uint16)
    else:
        words = np.asarray(numbers).astype(np.float32).view(np.uint32) >> 16
    return np.stack([words >> 8, words & 255])


# %%
for kind in ("float16", "bfloat16"):
    bits = ["{:08b} {:08b}".format(*pair) for pair in byte_planes([1.0, -2.5], kind).T]
    print(f"{kind:9} 1.0 is {bits[0]}   -2.5 is {bits[1]}")
print("entropy of eight bytes, all different:", entropy_bits([0, 1, 2, 3, 4, 5, 6, 7]))

# %% [markdown]
# ## A real cache
#
# `data/small_lm` holds a small language model that was trained for this course: 4 layers, 2 KV heads
# of 32, 1,024 tokens of vocabulary, trained on the documentation of Python. Its cache takes 1 KiB a
# token in 16 bits. The functions below run it; `on_keys` and `on_values` are shown what a cache
# would hold, layer by layer, keys already turned to their positions.


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


LM = load_lm(DATA / "small_lm")

# %% [markdown]
# **Predict** the planes. Numbers that are sums of many things are distributed smoothly over a few
# powers of two, and within one power of two nearly evenly. So the sign takes 1 bit, the mantissa
# bits about 1 each, and the exponent about as much as in the weights of large models, **2.6 bits**
# (Zhang et al. 2025, arXiv:2504.11651). In float16 that makes 1 + 2.6 + 10 = **13.6 of 16 bits**,
# 15 % less; in bfloat16 1 + 2.6 + 7 = **10.6 of 16**, a third less. (A blog on coding caches found
# about 11 bits for a large model in bfloat16: Speculative KV coding, fergusfinn.com, May 2026.)
# Nearly all of it comes from the exponent. The float16 low byte, all mantissa, should be full.


# %% tags=["exercise"]
def cache_entropy(tokens: list, layer: int, kind: str) -> list:
    """Return the entropies of the two byte planes of one layer's part of the cache, in float16.

    Args:
        tokens: token numbers, the first of them 0, the start token.
        layer: number of the layer, from 0.
        kind: "keys" or "values", as the cache holds them.

    Returns:
        Two numbers: bits per byte of the high plane, and of the low plane, over all tokens, heads
        and numbers of a head.
    """
    kept = {}

    def keep(i, numbers):
        kept[i] = numbers
        return numbers

    logits_of(LM, np.asarray(tokens), **{f"on_{kind}": keep})
    return [entropy_bits(plane) for plane in byte_planes(kept[layer].ravel(), "float16")]


# %%
with np.load(DATA / "small_lm/held_out.npz") as stored:
    held_out = stored["tokens"]


def cache_of(piece):
    """Return what a cache would hold of a piece of text: keys and values, layer by layer."""
    seen = {"keys": [], "values": []}

    def shown(kind):
        def hook(_, numbers):
            seen[kind].append(numbers)
            return numbers

        return hook

    logits_of(LM, piece, on_keys=shown("keys"), on_values=shown("values"))
    return {kind: np.stack(layers) for kind, layers in seen.items()}


pieces = [np.concatenate([[0], piece[:-1]]) for piece in held_out[:6]]  # 0 is the start token
caches = [cache_of(piece) for piece in pieces]
# each (layer, piece, token, head, number of a head)
cache = {kind: np.stack([c[kind] for c in caches], axis=1) for kind in ("keys", "values")}
rows = []
for kind, numbers in cache.items():
    for form in ("float16", "bfloat16"):
        high, low = (entropy_bits(plane) for plane in byte_planes(numbers.ravel(), form))
        row = {
            "part": kind,
            "format": form,
            "high byte": high,
            "low byte": low,
            "of 16 bits": high + low,
        }
        rows.append({**row, "saved": f"{1 - (high + low) / 16:.0%}"})
print("bits per byte and per number, over", cache["keys"].size, "keys and as many values")
pd.DataFrame(rows).set_index(["part", "format"]).round(2)

# %% [markdown]
# ## Against real compressors
#
# The bound is a bound for coders that know nothing but the frequency of single bytes. zlib and
# lzma also look for strings that came before, and lzma guesses a byte from its neighbours.
# **Predict:** on the bytes as they lie in memory, high and low in turn, zlib finds little; on the
# planes apart it comes near the entropy, and goes *far below* only where strings repeat. Is there
# such a place? Yes: **values of layer 0**. They are made before any attention, and no position is
# turned into them, so they depend on the token alone: text that uses few different tokens fills
# layer 0 with copies. A coder that finds every copy pays for the different tokens only. Keys of
# layer 0 are turned to their positions and are no copies; in later layers a token's neighbours are
# mixed in, so that at most the coarse part, the high byte, may repeat.


# %%
def packed(data):
    """Return the compressed size of bytes, as a share: by zlib and by lzma."""
    return [len(pack(data)) / len(data) for pack in (lambda b: zlib.compress(b, 9), lzma.compress)]


rows = []
for kind, numbers in cache.items():
    for layer in range(LM["n_layers"]):
        planes = byte_planes(numbers[layer].ravel(), "float16").astype(np.uint8)
        in_turn = planes.T.tobytes()
        apart = np.mean([packed(plane.tobytes()) for plane in planes], axis=0)
        rows.append(
            {
                "part": f"{kind}\nlayer {layer}",
                "in turn: entropy": entropy_bits(np.frombuffer(in_turn, np.uint8)) / 8,
                "in turn: zlib": packed(in_turn)[0],
                "planes: entropy": sum(entropy_bits(plane) for plane in planes) / 16,
                "planes: zlib": apart[0],
                "planes: lzma": apart[1],
            }
        )
coded = pd.DataFrame(rows).set_index("part")
text = np.concatenate(pieces)
different = len(np.unique(text)) / len(text)
copies = different * coded.loc["values\nlayer 0", "planes: entropy"]
fig, ax = plt.subplots(figsize=(10, 4), layout="constrained")
coded.plot.bar(ax=ax, color=["lightgrey", "darkgrey", "black", "C0", "C1"], width=0.8, rot=0)
at = list(coded.index).index("values\nlayer 0")
ax.hlines(copies, at - 0.5, at + 0.5, color="C2", lw=2, label="predicted: different tokens, once")
ax.set(ylabel="size, as a share of float16", xlabel="", ylim=(0, 1.25))
ax.legend(ncols=3, fontsize=8, loc="upper center")
plt.show()
print(f"{len(np.unique(text))} of {len(text):,} tokens are different: {different:.0%}")
coded.rename(index=lambda part: part.replace("\n", ", ")).round(3)

# %% [markdown]
# So an order-0 entropy bounds what a coder of *single bytes* can do, and bounds nothing else. (zlib
# falls short of lzma on copies because it looks back 32 KiB only, 512 tokens of a plane.) Copies
# are one kind of structure. Another is that each channel has its own size: give each of the 64
# channels of a layer a frequency table of its own. **Predict:** where channels differ in size,
# the exponent is better known, and the entropy falls. In large models the channels of keys differ
# far more than those of values (KIVI, Liu et al. 2024, arXiv:2402.02750), so keys should gain more.
# (A table of its own seems lower than it is: with n numbers and m values in a table by about
# $(m - 1) / (2 n \ln 2)$ bits, Miller 1955. The next cell adds that.)

# %%
fig, ax = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
for kind, marker in (("keys", "o"), ("values", "s")):
    one, each = [], []
    for layer in range(LM["n_layers"]):
        channels = cache[kind][layer].reshape(-1, LM["n_kv_heads"] * LM["head_dim"])
        high = byte_planes(channels.ravel(), "float16")[0].reshape(channels.shape)
        one.append(entropy_bits(high.ravel()))
        bias = [(len(np.unique(c)) - 1) / (2 * len(c) * math.log(2)) for c in high.T]
        each.append(np.mean([entropy_bits(c) for c in high.T]) + np.mean(bias))
    line = ax.plot(one, marker=marker, label=f"{kind}, one table for a layer")[0]
    ax.plot(
        each,
        marker=marker,
        mfc="none",
        ls="--",
        color=line.get_color(),
        label=f"{kind}, a table for each channel",
    )
ax.set(xlabel="layer", ylabel="bits in the high byte", title="float16 cache of the small model")
ax.set_xticks(range(LM["n_layers"]))
fig.legend(loc="outside lower center", ncols=2, fontsize=8)
plt.show()

# %% [markdown]
# In which layers do the keys gain more? Layer 0 may differ: there nothing but the token, and for
# keys the position, decides.
#
# ## Would it pay?
#
# Put it to the ceiling. A cache in fewer bits moves $B_\text{cache}$ and $B_\text{memory}$ both, by the
# same factor. **Predict** for the H100 at 4,096 tokens, against 16 bits: lossless bfloat16 at 10.6
# bits allows 16 / 10.6 = **1.5** times the batch; FP8, which loses, 2 times; 4-bit codes with a
# 16-bit scale for every 32 numbers, 4.5 bits, 3.6 times. The gain in tokens per second is smaller.

# %%
rows = []
for label, bits in (
    ("16 bits", 16),
    ("lossless, 10.6", 10.6),
    ("FP8", 8),
    ("4 bits and scales, 4.5", 4.5),
):
    found = ceilings(shape_of("llama-3.1-8b"), gpu_of("H100-80GB"), 16, bits, 4096)
    # the roofline's cache term is linear in bits; the runs it was fitted on have 16 and 8
    batch = found["memory_batch"]
    step = steps_of(runs_of("llama-3.1-8b", "H100-80GB", [batch], 4096, kv_bits=bits))[0]
    rows.append(
        {
            "cache": label,
            "cache batch": found["cache_batch"],
            "memory batch": batch,
            "tokens/s at the memory batch": 1000 * batch / step,
        }
    )
pays = pd.DataFrame(rows).set_index("cache")
pays["times 16 bits"] = pays.iloc[:, 2] / pays.iloc[0, 2]
pays.round(2)

# %% [markdown]
# That is, if decoding the bits were free. A coded number has no fixed place, so a kernel cannot
# jump to it, and unpacking must keep up with terabytes a second.
#
# ## What serving stacks do today
#
# Set beside what you measured (documentation as of 2026):
#
# - **Fewer bits, fixed width, with loss: everywhere.** vLLM stores keys and values in FP8 with one
#   scale a tensor or a head (docs.vllm.ai, quantized KV cache). SGLang offers FP8 and FP4, and warns
#   that it is slow where unpacking is not part of the attention kernel (docs.sglang.io). TensorRT-LLM
#   has FP8 and NVFP4 caches (nvidia.github.io/TensorRT-LLM). Transformers has a quantised cache
#   with two back ends, quanto (2 and 4 bits) and HQQ (2, 4 and 8), after KIVI (Liu et al. 2024,
#   arXiv:2402.02750), with the latest tokens left in full. Your table says why: a fixed 8 bits
#   save more than any lossless code of the single bytes of this cache.
# - **Lossless, for weights.** DFloat11 codes the exponents of bfloat16 weights by Huffman and keeps
#   the rest: about 11 bits, unpacked on the GPU (arXiv:2504.11651). You found the same exponent
#   entropy in a cache, to within a few tenths of a bit. Weights are coded once and read for ever.
#   A cache is written every step.
# - **Coders for caches that travel**, to disk or over a network. CacheGen (Liu et al. 2023,
#   arXiv:2310.07240) codes a token's difference from an anchor token nearby, quantises it and codes it
#   arithmetically with a table for each channel and layer; LMCache has a coder of that name. (Readers
#   of the authors' code miss the differences in it: github.com/UChi-JCL/CacheGen, issue 6.) KVTC (NVIDIA 2025,
#   arXiv:2511.01815) turns the features of all heads and layers by a PCA that was fitted beforehand,
#   gives each component as many bits as it deserves, and ends with DEFLATE, the method of zlib. Both
#   code *after* losing, and both use what a code of single bytes does not know: CacheGen that tokens
#   close by are alike and channels are not, KVTC that features go together.
# - **Beyond single bytes, lossless.** Speculative KV coding predicts each number with a cheaper model
#   and codes what is left (the blog above). The cache follows from the tokens, so in principle it
#   holds no more information than the text: recomputing is the best compressor, and costs a prefill.
#
# ## What you can now answer in an interview
#
# - *At which batch does decoding stop getting cheaper?* Where the caches cost as much to read as the
#   weights: weight bytes over cache bytes of a request, mostly tens to hundreds of requests.
# - *Is it the cache or the arithmetic?* The context decides, not the batch: the cache beyond some
#   hundred tokens for an 8B model with 8 KV heads on an H100; the arithmetic at any context that
#   Falcon-7B has, with its one.
# - *What does paging buy?* Here a waste of three quarters becomes one of a percent, and the batch four
#   times as large. Decoding gains 1.4 to 3 times, least where the batch is past the bend; with prefill
#   these requests gain 1.1 to 1.8 times. More where outputs are longer than prompts, and where more is
#   reserved: the paper's 2.7 to 8.
# - *What does a prefix cache buy?* Prefill and memory for sure; reads only with a kernel made for it.
# - *Can a cache be compressed without loss?* By a third in bfloat16, 15 % in float16, byte by byte;
#   more with a model of it. Quantising to 8 bits wins more, at fixed width.

# %% [markdown] tags=["questions"]
# ## Check your understanding
#
# Three questions, graded like everything else. Answer on paper first. Under a choice, copy the words
# of one option into `understanding`, between quotes. A wrong answer is told what it overlooks.


# %% tags=["exercise"]
understanding: dict = {
    "where_the_cache_wins": 415,
    "below_the_entropy": "Yes: the entropy bounds codes of single bytes, and the strings of bytes repeat here",
}


# %% tags=["exercise"]
def usd_per_million_served(
    usd_per_hour: float, batch_size: int, step_ms: float, busy_share: float
) -> float:
    """Return what a million output tokens cost, in dollars.

    Args:
        usd_per_hour: price of the GPU, paid whether it is busy or not.
        batch_size: requests decoded in each step.
        step_ms: time of a step, in ms.
        busy_share: share of the time in which it decodes; in the rest it makes nothing.
    """
    tokens_per_hour = busy_share * 3_600_000 / step_ms * batch_size
    return usd_per_hour / (tokens_per_hour / 1e6)
