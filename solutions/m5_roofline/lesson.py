# %% [markdown]
# # Milestone 5: a decode step from first principles
#
# How long does one decode step take? You could fit a model to thousands of benchmarks. Or you could
# ask what the GPU has to do in that step: read the weights, read the cache, do the arithmetic, and
# pay for everything that is neither. Four terms, each one line of school physics. That is the
# **roofline**, and with four fitted numbers it beats a regression with fifteen by a wide margin.
#
# **You will write** `roofline_terms` and `fit_roofline`.
#
# **Check your work** at any time: type `%load_ext grader` into a cell, once, and then `%check`.
# It asks what is defined in this notebook right now. `grader check 5` in a terminal grades the saved
# file from a fresh start, as your hand-in will be.

# %% tags=["given"]
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

DATA = next(
    p / "data" for p in [Path.cwd(), *Path.cwd().parents] if (p / "data/train.csv").exists()
)
GPUS = ["L40S", "A100-80GB", "H100-80GB", "H200", "B200"]  # slowest memory first


def mape(predicted, actual):
    """Return the mean absolute percentage error as a fraction."""
    return float(np.mean(np.abs(predicted - actual) / actual))


def r2(predicted, actual):
    """Return 1 - SSE / SST about the mean of `actual`."""
    return float(1 - np.sum((predicted - actual) ** 2) / np.sum((actual - actual.mean()) ** 2))


# %% [markdown]
# ## Derive it
#
# One decode step makes one new token for every request of the batch. With $P$ parameters, $B$
# requests and $T$ cached tokens in each:
#
# - **Weights.** Every layer's matrices travel from memory to the chip. They travel **once per
#   step**: all requests of the batch use them while they are there. $P \cdot \text{bits}/8$ bytes.
# - **Cache.** Each request has a cache of its own and reads all of it:
#   $B \cdot T \cdot 2\, n_\text{layers}\, n_\text{kv heads}\, d_\text{head} \cdot \text{bits}/8$
#   bytes. Nothing is shared, so this one grows with the batch.
# - **Arithmetic.** A parameter is one multiplication and one addition per token:
#   $2 P B$ operations.
# - **Overhead.** Starting a few hundred small kernels, norms and activations, the scheduler and
#   the sampler. It happens in every step, whatever the bandwidth.
#
# Bytes over bandwidth and operations over peak give times. At the speed on the data sheet:
#
# $$t = t_\text{overhead} + \frac{\text{weight bytes}}{\text{bandwidth}}
#      + \frac{\text{KV bytes}}{\text{bandwidth}} + \frac{\text{operations}}{\text{peak}}$$
#
# No GPU reaches its data sheet, so each term gets one coefficient, fitted to measurements. A
# coefficient of 1.25 on a bandwidth term says: the hardware achieves 1/1.25 = 80 % of its spec.
#
# ## Memory bound or compute bound?
#
# The **arithmetic intensity** of a piece of work is its operations per byte moved. For 16-bit
# weights it is $2PB / 2P = B$: each byte of weights is used for as many operations as there are
# requests. A GPU can do peak / bandwidth operations in the time that one byte takes. Where the two
# are equal lies the **ridge**: a batch below it waits for memory, a batch above it for arithmetic.
#
# **Predict**, for 16-bit weights: H100 989e12 / 3350e9 = **295** requests, A100 312 / 2.039 =
# **153**, H200 **206**, B200 **281**, L40S **419**. The next cell measures them from the table.
#
# The cache never gets there. Its bytes are used once: for each 16-bit number of a KV head, every
# query head of its group does one multiply-add for scores or values, which makes
# $n_\text{heads} / n_\text{kv heads}$ operations per byte. That is 4 for Llama-3.1-8B and 8 for
# the 70B, **at any batch**. Batching pays for weights, not for caches.

# %%
train = pd.read_csv(DATA / "train.csv")
validation = pd.read_csv(DATA / "validation.csv")
spec = train.groupby("gpu")[["gpu_bandwidth_gbps", "gpu_tflops"]].first().loc[GPUS]
spec["ridge batch, 16-bit"] = 1000 * spec["gpu_tflops"] / spec["gpu_bandwidth_gbps"]
spec.round(0)

# %% [markdown]
# ## A step by hand
#
# Llama-3.1-8B (8.0303e9 parameters, 32 layers, 8 KV heads of 128) on one H100 (3350 GB/s, 989
# TFLOP/s), 16 requests with 4,096 tokens each, everything in 16 bits. **On paper:**
#
# | term | bytes or operations | at spec speed |
# |---|---|---|
# | weights | 8.0303e9 · 2 = 16.06 GB | 16.06 / 3350 s = **4.79 ms** |
# | cache | 16 · 4,096 · 131,072 = 8.59 GB | 8.59 / 3350 s = **2.56 ms** |
# | arithmetic | 2 · 8.0303e9 · 16 = 0.257e12 | 0.257 / 989 s = **0.26 ms** |
#
# Together 7.62 ms, and an overhead on top. Measured with real kernels (the source is at the end of
# this notebook) the same step takes **10.06 ms**. So the paper is within 25 % before anything is
# fitted, and it says where the time goes.
#
# A second one: how long must the contexts be until these 16 caches cost as much as the weights?
# 16.06e9 / (16 · 131,072) = **7,658 tokens**. You measure all of it after the next exercise.
#
# ## Your terms
#
# Terms 2 to 4 are fixed by physics. For term 1 **you choose the form**: some nominal time in ms
# that depends on `n_layers` and `batch_size` only; the fit will scale it as a whole. Start with
# anything (say, one unit per layer), go on to the picture below the exercise, and come back.


# %% tags=["exercise"]
def roofline_terms(runs: pd.DataFrame) -> np.ndarray:
    """Return the four terms of each run's decode step, in ms, at data-sheet speed.

    Args:
        runs: a runs table, n rows. Used are n_layers, n_kv_heads, head_dim, params_b (1e9
            parameters), weight_bits, kv_bits, gpu_bandwidth_gbps (GB/s, 1e9 bytes), gpu_tflops
            (1e12 operations per second, for all dtypes), batch_size and context_len.

    Returns:
        An array of shape (n, 4), each in milliseconds and in the order of the rows:
        column 0, overhead: your choice of a function of n_layers and batch_size, positive;
        column 1: the bytes of all parameters, read once per step, over the bandwidth;
        column 2: the bytes of the whole batch's cache over the bandwidth;
        column 3: 2 operations per parameter and request, over the peak.
    """
    layers = runs["n_layers"].to_numpy(dtype=float)
    batch = runs["batch_size"].to_numpy(dtype=float)
    bytes_per_ms = runs["gpu_bandwidth_gbps"].to_numpy(dtype=float) * 1e6
    flops_per_ms = runs["gpu_tflops"].to_numpy(dtype=float) * 1e9
    parameters = runs["params_b"].to_numpy(dtype=float) * 1e9

    overhead = 0.04 * layers + 0.002 * batch  # kernels of each layer, host time of each request
    weight_bytes = parameters * runs["weight_bits"].to_numpy() / 8
    heads = runs["n_kv_heads"].to_numpy(dtype=float)
    bytes_per_token = 2 * layers * heads * runs["head_dim"].to_numpy() * runs["kv_bits"] / 8
    kv_bytes = batch * runs["context_len"].to_numpy() * bytes_per_token.to_numpy()
    flops = 2 * parameters * batch
    return np.column_stack(
        [overhead, weight_bytes / bytes_per_ms, kv_bytes / bytes_per_ms, flops / flops_per_ms]
    )


# %%
by_hand = pd.DataFrame(
    {
        "n_layers": 32,
        "hidden_size": 4096,
        "n_heads": 32,
        "n_kv_heads": 8,
        "head_dim": 128,
        "intermediate_size": 14336,
        "params_b": 8.0303,
        "weight_bits": 16,
        "kv_bits": 16,
        "gpu_memory_gb": 80.0,
        "gpu_bandwidth_gbps": 3350.0,
        "gpu_tflops": 989.0,
        "batch_size": 16,
        "context_len": [4096, 7658],
    }
)
paper = pd.DataFrame(
    roofline_terms(by_hand)[:, 1:],
    columns=["weights (ms)", "cache (ms)", "arithmetic (ms)"],
    index=["4,096 tokens", "7,658 tokens"],
)
paper.assign(**{"together (ms)": paper.sum(axis=1)}).round(2)

# %% [markdown]
# ## What the overhead looks like
#
# Take the runs in which terms 2 to 4 come to little, small models with short contexts, and
# subtract those terms. What is left is mostly overhead. Ask the picture two questions. Does a
# model with more layers pay more at batch 1? Does a larger batch pay more at equal layers? Known
# causes: 10 to 70 µs per layer for launching its kernels and for its norms (fits of kernel timings,
# PyPI `aiconfigurator-core` 0.12.0), and a few µs to 40 µs of host time per request for scheduling
# and sampling (decode steps of LLM-Inference-Bench, engines of 2024, less the time of their
# kernels). The runs of this course have little host time, as engines that overlap it with the GPU.

# %%
terms = roofline_terms(train)
rest = train["decode_step_ms"] - terms[:, 1:].sum(axis=1)
light = terms[:, 1:].sum(axis=1) < 0.25 * train["decode_step_ms"]
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
few = light & (train["batch_size"] <= 8) & (train["gpu"] == "H100-80GB")
left.scatter(train.loc[few, "n_layers"], rest[few], s=10, alpha=0.4)
left.set(xlabel="n_layers", ylabel="step minus terms 2 to 4 (ms)")
left.set_title("H100-80GB, batch of 8 or fewer")
for low, high, colour in [(1, 16, "tab:blue"), (17, 24, "tab:orange"), (25, 48, "tab:green")]:
    some = train[light & train["n_layers"].between(low, high)]
    right.scatter(some["batch_size"], rest[some.index], s=6, alpha=0.25, color=colour)
    octave = 2.0 ** np.round(np.log2(some["batch_size"]))
    middle = rest[some.index].groupby(octave).agg(["median", "size"])
    middle = middle.loc[middle["size"] >= 5, "median"]
    right.plot(middle.index, middle, marker="o", color=colour, label=f"{low} to {high} layers")
right.set(
    xscale="log", xlabel="batch_size", title="any GPU and batch, with medians", ylim=(0, None)
)
right.legend()
fig.suptitle("What is left when reading and arithmetic are taken away (light runs of train)")
plt.show()

# %% [markdown]
# ## Where the runs lie under the roof
#
# The classic picture: operations per byte across, operations per second up. The slope is the
# memory's roof, the flat part the arithmetic's. A run can lie on or below the roof, never above.
# Follow the colours: a larger batch moves a run to the right, a longer context pulls it back to
# the left, because the cache adds bytes and hardly any operations. **Predict:** batches go up to
# 512, and still almost no run passes the ridge at 295.

# %%
gpu = "H100-80GB"
on = train[(train["gpu"] == gpu) & (train["weight_bits"] == 16) & (train["kv_bits"] == 16)]
at_spec = roofline_terms(on)
bandwidth, peak = spec.loc[gpu, "gpu_bandwidth_gbps"], spec.loc[gpu, "gpu_tflops"]
operations = at_spec[:, 3] * peak * 1e9
moved_bytes = (at_spec[:, 1] + at_spec[:, 2]) * bandwidth * 1e6
intensity = operations / moved_bytes
achieved = operations / on["decode_step_ms"] / 1e9

fig, ax = plt.subplots(figsize=(8, 5))
x = np.geomspace(0.3, 1000, 200)
ax.plot(x, np.minimum(x * bandwidth / 1000, peak), color="black")
ax.axvline(1000 * peak / bandwidth, color="grey", ls="--", lw=1)
ax.text(1000 * peak / bandwidth * 0.92, 0.3, "ridge: 295", color="grey", ha="right")
dots = ax.scatter(intensity, achieved, s=8, c=np.log2(on["batch_size"]), cmap="viridis")
bar = fig.colorbar(dots, ax=ax, ticks=range(0, 10, 2), label="batch size")
bar.ax.set_yticklabels([f"{2**i}" for i in range(0, 10, 2)])
ax.set(
    xscale="log",
    yscale="log",
    xlabel="operations per byte moved",
    ylabel="achieved TFLOP/s",
    title=f"{gpu}, 16-bit runs of train under the roofline",
)
plt.show()
closest = (achieved / np.minimum(intensity * bandwidth / 1000, peak)).max()
left_of_ridge = (intensity < 1000 * peak / bandwidth).mean()
print(f"the best run reaches {closest:.0%} of its roof")
print(f"{left_of_ridge:.1%} of the runs lie left of the ridge")

# %% [markdown]
# ## Four numbers from twelve thousand runs
#
# Which coefficients? Two choices decide whether they mean anything.
#
# **Relative errors.** Steps run from half a millisecond to about two hundred. Least squares on
# milliseconds would care about the slow runs only: an error of 5 % on a 100 ms step weighs as much
# as a 1 ms step that is predicted six times too long. Divide each row, terms and target alike, by
# its measured step. Then the target is 1 in every row, and the sum of squares is one of relative
# errors, close to what the MAPE counts.
#
# **Nothing negative.** A term is a time. Plain least squares may give one term a negative
# coefficient to patch another, and then the model falls apart away from its data. Non-negative
# least squares (`scipy.optimize.nnls`) solves the same problem with all coefficients >= 0.


# %% tags=["exercise"]
def fit_roofline(train: pd.DataFrame) -> tuple[float, float, float, float]:
    """Fit the coefficients that turn the terms into a predicted step.

    Args:
        train: a labelled runs table (decode_step_ms in ms), m rows.

    Returns:
        Four finite numbers >= 0, in the order of the columns of `roofline_terms`. The predicted
        step of a run in ms is the sum of its terms, each times its coefficient.
    """
    from scipy.optimize import nnls

    step_ms = train["decode_step_ms"].to_numpy(dtype=float)
    relative_terms = roofline_terms(train) / step_ms[:, None]
    coefficients, _ = nnls(relative_terms, np.ones(len(train)))
    return tuple(float(c) for c in coefficients)


# %%
steps = train["decode_step_ms"]
print(
    f"steps from {steps.min():.1f} to {steps.max():.0f} ms, half of them below {steps.median():.0f}"
)
coefficients = np.array(fit_roofline(train))
for name, c in zip(["overhead", "weights", "cache", "arithmetic"], coefficients, strict=True):
    share = (
        "" if name == "overhead" or c == 0 else f"  1/coefficient: {1 / c:.0%} of the data sheet"
    )
    print(f"{name:11}{c:7.3f}{share}")

# %% [markdown]
# ### Read them
#
# - **Weights and cache.** 1 / coefficient is the share of the data sheet's bandwidth that the
#   average run achieves: between 80 and 90 %, as good kernels do.
# - **Overhead.** It scales your own nominal form: near 1, if your guess in ms was good.
# - **Arithmetic.** If its share comes out near or above 100 %, that is no miracle and no error.
#   The sum charges reading and computing one after the other, but a GPU overlaps them: while one
#   tile is computed, the next is read. The fit makes up for that by charging less for arithmetic.
#   Some 8-bit runs compute at twice the 16-bit peak as well. A coefficient means "achieved share"
#   only where its term is most of the step.
#
# ## 0.48 beside 0.98
#
# A straight line through the 14 raw columns explains about half of the variance of throughput
# (milestone 1). **Predict before you run:** the roofline, with 4 numbers for 15, leaves about two
# percent, an R² around **0.98**, and a MAPE of the step around **7 %**. Both are scored on the
# validation runs.

# %%
from sklearn.linear_model import LinearRegression

text = ["run_id", "model", "gpu"]
raw_columns = [c for c in train.columns if c not in [*text, "decode_step_ms", "tokens_per_s"]]
linear = LinearRegression().fit(train[raw_columns], train["tokens_per_s"])
linear_tokens = linear.predict(validation[raw_columns])

predicted = roofline_terms(validation) @ coefficients
roofline_tokens = 1000 * validation["batch_size"] / predicted
unseen = ~validation["model"].isin(train["model"])


def row(name, numbers, tokens, step_error):
    """Make one row of the comparison."""
    return {
        "model": name,
        "fitted numbers": numbers,
        "R² of tokens/s": round(r2(tokens, validation["tokens_per_s"]), 3),
        "R², unseen models": round(r2(tokens[unseen], validation.loc[unseen, "tokens_per_s"]), 3),
        "MAPE of the step": step_error,
        "predictions below zero": f"{np.mean(tokens < 0):.0%}",
    }


step_error = round(mape(predicted, validation["decode_step_ms"]), 3)
pd.DataFrame(
    [
        row("straight line, 14 raw columns", 15, linear_tokens, "no meaning below zero"),
        row("roofline", 4, roofline_tokens, step_error),
    ]
).set_index("model")

# %%
fig, ax = plt.subplots(figsize=(6, 6))
for name in GPUS:
    some = validation["gpu"] == name
    ax.scatter(validation.loc[some, "decode_step_ms"], predicted[some], s=6, alpha=0.5, label=name)
ends = [validation["decode_step_ms"].min(), validation["decode_step_ms"].max()]
ax.plot(ends, ends, color="black", lw=1)
ax.set(
    xscale="log",
    yscale="log",
    xlabel="measured step (ms)",
    ylabel="predicted step (ms)",
    title="Roofline on validation, four coefficients",
)
ax.legend(markerscale=2)
plt.show()

# %% [markdown]
# ### Where it is wrong
#
# One share of bandwidth for all GPUs, dtypes and batches is a compromise. The next table shows the
# mean relative error (the bias) of slices of validation: below zero means predicted too fast. Some
# GPUs achieve more of their data sheet than others. 8-bit weights reach less of the bandwidth, and
# 4-bit weights must be unpacked before they can be used. Milestone 6 goes after what is left.

# %%
relative = predicted / validation["decode_step_ms"] - 1
batch_range = pd.cut(
    validation["batch_size"], [0, 4, 32, 128, 512], labels=["1-4", "5-32", "33-128", "129-512"]
)
slices = {"GPU": validation["gpu"], "weight bits": validation["weight_bits"], "batch": batch_range}
pd.concat(
    {
        kind: pd.DataFrame(
            {
                "runs": relative.groupby(of, observed=True).size(),
                "bias": relative.groupby(of, observed=True).mean().map("{:+.1%}".format),
                "MAPE": relative.abs().groupby(of, observed=True).mean().map("{:.1%}".format),
            }
        )
        for kind, of in slices.items()
    }
)

# %% [markdown]
# ## Against real engines
#
# The runs of this course are simulated, from measurements. So the honest test is a table your
# model has nothing to do with: decode steps of real systems, retyped from three public sources.
#
# - **kernels**: GEMM and attention kernels of vLLM, measured one by one and composed into a step.
#   PyPI package `aiconfigurator-core` 0.12.0 (NVIDIA, Apache-2.0). Without host time.
# - **bench**: whole steps, static batches, prefill subtracted: `argonne-lcf/LLM-Inference-Bench`
#   (BSD-3), vLLM of 2024. The context is the mean over the generated tokens.
# - **layers**: layer timings of vLLM 0.19 added up: `casys-kaist/LLMServingSim` (MIT).
#
# **Predict before you run.** The simulated world was calibrated on measurements of the first kind,
# so there you should see a median error within **10 %**. Engines of 2024 spent about 1.5 ms a step
# and up to 0.04 ms a request on the host (the second source, less the time of the kernels): expect
# to predict **10 to 30 % too little** there, on the GPU that train has. On GPUs that no run of
# train has seen, anything can happen.
#
# The last column is what the weights alone take at data-sheet speed, as a share of the measured
# step: the closer to 100 %, the less time is left for anything else.

# %%
measured = pd.DataFrame(
    [
        # source, model, GPU, batch, context, weight bits, cache bits, measured step in ms
        ("kernels", "llama-3.1-8b", "A100-80GB", 1, 1024, 16, 16, 11.37),
        ("kernels", "llama-3.1-8b", "A100-80GB", 16, 4096, 16, 16, 16.89),
        ("kernels", "llama-3.1-8b", "A100-80GB", 64, 4096, 16, 16, 32.89),
        ("kernels", "qwen3-4b", "A100-80GB", 64, 2048, 16, 16, 19.82),
        ("kernels", "llama-3.1-8b", "H100-80GB", 1, 1024, 16, 16, 6.44),
        ("kernels", "llama-3.1-8b", "H100-80GB", 16, 4096, 16, 16, 10.06),
        ("kernels", "llama-3.1-8b", "H100-80GB", 64, 4096, 16, 16, 18.02),
        ("kernels", "llama-3.1-8b", "H100-80GB", 256, 1024, 16, 16, 19.62),
        ("kernels", "qwen3-4b", "H100-80GB", 1, 2048, 16, 16, 4.24),
        ("kernels", "qwen3-14b", "H100-80GB", 32, 4096, 8, 8, 11.68),
        ("kernels", "llama-3.1-70b", "H100-80GB", 16, 1024, 8, 16, 31.38),
        ("kernels", "llama-3.1-8b", "H200", 1, 1024, 16, 16, 4.81),
        ("kernels", "llama-3.1-8b", "H200", 16, 4096, 16, 16, 7.37),
        ("kernels", "llama-3.1-8b", "H200", 256, 1024, 16, 16, 15.23),
        ("kernels", "qwen3-14b", "H200", 32, 4096, 8, 8, 10.38),
        ("kernels", "llama-3.1-70b", "H200", 64, 1024, 8, 16, 30.35),
        ("kernels", "llama-3.1-8b", "B200", 1, 1024, 16, 16, 3.41),
        ("kernels", "llama-3.1-8b", "B200", 64, 4096, 16, 16, 8.31),
        ("kernels", "llama-3.1-8b", "B200", 256, 1024, 16, 16, 9.15),
        ("kernels", "qwen3-4b", "B200", 64, 2048, 16, 16, 5.21),
        ("kernels", "llama-3.1-70b", "B200", 16, 4096, 16, 16, 26.95),
        ("kernels", "llama-3.1-70b", "B200", 1, 1024, 8, 16, 19.15),
        ("kernels", "llama-3.1-8b", "L40S", 16, 4096, 16, 16, 36.82),
        ("kernels", "llama-3.1-8b", "L40S", 64, 1024, 16, 16, 38.36),
        ("kernels", "qwen3-14b", "L40S", 32, 4096, 8, 16, 55.28),
        ("bench", "llama-3-8b", "H100-80GB", 1, 768, 16, 16, 7.85),
        ("bench", "llama-3-8b", "H100-80GB", 16, 1536, 16, 16, 10.35),
        ("bench", "llama-3-8b", "H100-80GB", 64, 3072, 16, 16, 21.82),
        ("bench", "llama-3-8b", "A100-40GB", 1, 768, 16, 16, 14.31),
        ("bench", "llama-3-8b", "A100-40GB", 32, 1536, 16, 16, 23.57),
        ("bench", "llama-2-7b", "MI300X", 16, 1536, 16, 16, 12.06),
        ("bench", "llama-3-8b", "MI300X", 16, 1536, 16, 16, 12.13),
        ("bench", "llama-3-8b", "MI300X", 64, 3072, 16, 16, 83.79),
        ("layers", "llama-3.1-8b", "RTX 4090", 1, 2048, 16, 16, 16.99),
        ("layers", "llama-3.1-8b", "RTX 4090", 16, 2048, 16, 16, 22.40),
        ("layers", "llama-3.1-8b", "RTX 4090", 32, 1024, 16, 16, 23.92),
    ],
    columns=[
        "source",
        "model",
        "gpu",
        "batch_size",
        "context_len",
        "weight_bits",
        "kv_bits",
        "measured_ms",
    ],
)
shapes = pd.read_csv(DATA / "catalog/models.csv")
shape_columns = ["model", "n_layers", "hidden_size", "n_heads", "n_kv_heads", "head_dim"]
shapes = shapes[[*shape_columns, "intermediate_size", "params_b"]]
gpus = pd.read_csv(DATA / "catalog/gpus.csv")
gpus = gpus[["gpu", "gpu_memory_gb", "gpu_bandwidth_gbps", "gpu_tflops"]]
rtx_4090 = ("RTX 4090", 24.0, 1008.0, 165.2)  # NVIDIA's white paper on the Ada architecture
gpus = pd.concat([gpus, pd.DataFrame([rtx_4090], columns=gpus.columns)], ignore_index=True)
real = measured.merge(shapes, on="model", how="left").merge(gpus, on="gpu", how="left")
real["predicted_ms"] = roofline_terms(real) @ coefficients
real["error"] = real["predicted_ms"] / real["measured_ms"] - 1
weights_share = roofline_terms(real)[:, 1] / real["measured_ms"]
shown = real[["source", "model", "gpu", "batch_size", "context_len"]]
shown.assign(
    bits=real["weight_bits"].astype(str) + "/" + real["kv_bits"].astype(str),
    measured_ms=real["measured_ms"],
    predicted_ms=real["predicted_ms"].round(2),
    error=real["error"].map("{:+.0%}".format),
    weights=weights_share.map("{:.0%}".format),
)

# %%
real["GPU in train"] = np.where(real["gpu"].isin(GPUS), "yes", "no")
summary = real.groupby(["source", "GPU in train"], sort=False)["error"].agg(
    rows="size",
    median_error=lambda e: f"{e.median():+.0%}",
    median_absolute=lambda e: f"{e.abs().median():.0%}",
    worst=lambda e: f"{e.loc[e.abs().idxmax()]:+.0%}",
)
colours = {"kernels": "tab:blue", "bench": "tab:orange", "layers": "tab:green"}
fig, ax = plt.subplots(figsize=(6, 6))
for source, rows in real.groupby("source", sort=False):
    ax.scatter(rows["measured_ms"], rows["predicted_ms"], s=28, color=colours[source], label=source)
worst = real.loc[real["error"].abs().idxmax()]
ax.annotate(
    f"{worst['model']} on {worst['gpu']}",
    (worst["measured_ms"], worst["predicted_ms"]),
    xytext=(10, -20),
    textcoords="offset points",
    ha="right",
)
ends = np.array([2.5, 110])
ax.plot(ends, ends, color="black", lw=1)
ax.fill_between(ends, ends * 0.85, ends * 1.15, color="grey", alpha=0.2, label="within 15 %")
ax.set(
    xscale="log",
    yscale="log",
    xlabel="measured step of a real engine (ms)",
    ylabel="predicted step (ms)",
    title="Your roofline against real engines",
)
ax.legend()
plt.show()
summary

# %% [markdown]
# ### How far off, and why
#
# - **Kernels, the same five GPUs.** Four numbers, fitted once for all models, GPUs and dtypes, are
#   off by less than a tenth in the median. They were never told what a Llama is.
# - **FP8 weights of the 70B model on B200** are predicted far too fast. At data-sheet speed these
#   weights take less than half of the measured step. In 16 bits it is two thirds, although that
#   step reads a larger cache as well. So the FP8 kernels of that release reach a smaller share of
#   the bandwidth, and your single coefficient stands for the average.
# - **Engines of 2024** take longer than predicted, and more so with a larger batch: 64 requests at
#   0.04 ms each are 2.6 ms of host time, where your overhead has a fraction of that.
# - **MI300X** takes up to several times as long as predicted, most of all with the largest cache.
#   No data sheet explains that; software can. Three rows do not say which part of it. A roofline
#   tells you what is possible. A measurement far from it tells you where to look.
# - **RTX 4090**, a GPU that no run of train has seen, comes out 15 to 20 % too slow: at batch 1 the
#   weights are 16.06 GB / 1008 GB/s = 15.9 of 17.0 ms, so it reaches at least 94 % of its data
#   sheet, more than the share that your fit found. The form carries over to new hardware; the
#   achieved share has to be measured.
#
# ## What you can now answer in an interview
#
# - *Is decoding memory bound or compute bound?* Memory bound until the batch passes peak /
#   bandwidth, about 150 to 420 requests on today's GPUs; and its cache reads stay memory bound at
#   any batch.
# - *Why does batching help, and when does it stop?* Weights are read once for all. It stops
#   helping when the caches' bytes, or the ridge, take over.
# - *How fast can an 8B model decode on an H100 at best?* 16 GB over 3.35 TB/s: about 5 ms a step;
#   with 85 % of that bandwidth and the overhead, 6 to 7 ms.
# - *Which GPU number would you look at first?* Bandwidth, then memory size. Peak TFLOP/s matter for
#   prefill and for large batches.
# - *How would you notice a broken kernel?* Its share of the roof is far below what others reach.

# %% [markdown] tags=["questions"]
# ## Check your understanding
#
# Four questions, graded like everything else. Answer on paper first. Under a choice, copy the words
# of one option into `understanding`, between quotes. A wrong answer is told what it overlooks.


# %% tags=["exercise"]
understanding: dict = {
    "decode_and_prefill": "Both read the weights once a pass: decoding for one token a request, prefill for thousands",
    "twice_the_batch": "The step grows a little, so the tokens per second nearly double",
    "weight_coefficient": "Reading the weights takes 1.2 times as long as at spec speed: 83 % of the bandwidth",
}


# %% tags=["exercise"]
def ridge_batch(weight_bits: int, gpu_bandwidth_gbps: float, gpu_tflops: float) -> float:
    """Return the batch at which computing takes as long as reading the weights, at spec speed.

    Args:
        weight_bits: bits per weight, 16, 8 or 4.
        gpu_bandwidth_gbps: memory bandwidth, in GB/s (1e9 bytes a second).
        gpu_tflops: peak, in TFLOP/s (1e12 operations a second).

    Returns:
        The batch, not rounded: two operations per parameter and request take as long as reading
        every parameter once.
    """
    read_s = weight_bits / 8 / (gpu_bandwidth_gbps * 1e9)
    compute_s = 2 / (gpu_tflops * 1e12)
    return read_s / compute_s
