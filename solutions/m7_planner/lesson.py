# %% [markdown]
# # Milestone 7: the cheapest fleet that keeps its promises
#
# A product manager asks: *how many GPUs do we need, of which kind, and what will a million tokens
# cost?* Everything the course has built so far goes into the answer. Memory says how many requests
# a GPU can hold. The step time says how fast they are served. The price list says what an hour
# costs. A planner puts the three together, and because it promises something to people, it has to
# know how wrong its own predictions are.
#
# **You will write** a planner, `plan(workload)`, from a handful of small functions, and at the end
# a capacity plan for one workload, in figures, `capacity_plan`, and in words, `written_plan`.
# The conventions are in `milestones/m7_planner/handout.md`.
#
# **Check your work** at any time: type `%load_ext grader` into a cell, once, and then `%check`.
# It asks what is defined in this notebook right now. `grader check 7` in a terminal grades the saved
# file from a fresh start, as your hand-in will be.

# %% tags=["given"]
import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import Markdown
from scipy.optimize import nnls

DATA = next(
    p / "data" for p in [Path.cwd(), *Path.cwd().parents] if (p / "data/train.csv").exists()
)

# %% [markdown]
# ## The case
#
# One workload goes through the whole notebook: a 32B model (the shape of Qwen2.5-32B) with 8-bit
# weights and a 16-bit cache, prompts of 5,500 tokens and answers of 500, 24 requests a second, and
# a promise to the reader: a new token at least every 50 ms. Five kinds of GPU are on offer. The
# prices lie in the middle of the bands of `data/catalog/gpus.csv`; look up your own before you
# spend money. Reading the prompt (prefill) is done by other machines, so this fleet only decodes.

# %% tags=["given"]
CASE = {
    "model": {
        "n_layers": 64,
        "hidden_size": 5120,
        "n_heads": 40,
        "n_kv_heads": 8,
        "head_dim": 128,
        "intermediate_size": 27648,
        "params_b": 32.7639,
    },
    "weight_bits": 8,
    "kv_bits": 16,
    "prompt_tokens": 5500,
    "output_tokens": 500,
    "requests_per_second": 24.0,
    "max_step_ms": 50.0,
    "gpus": [
        {
            "gpu": gpu,
            "gpu_memory_gb": memory_gb,
            "gpu_bandwidth_gbps": bandwidth_gbps,
            "gpu_tflops": tflops,
            "usd_per_hour": usd_per_hour,
        }
        for gpu, memory_gb, bandwidth_gbps, tflops, usd_per_hour in [
            ("L40S", 48.0, 864.0, 362.0, 1.90),
            ("A100-80GB", 80.0, 2039.0, 312.0, 1.50),
            ("H100-80GB", 80.0, 3350.0, 989.0, 2.80),
            ("H200", 141.0, 4800.0, 989.0, 3.60),
            ("B200", 180.0, 8000.0, 2250.0, 5.90),
        ]
    ],
}
OFFERS = {gpu["gpu"]: gpu for gpu in CASE["gpus"]}

# %% [markdown]
# ## From a step to a dollar
#
# One decode step gives every request in the batch one token. If a GPU holds $n$ requests and the
# step takes $t(n)$ milliseconds, it makes $1000\,n / t(n)$ tokens a second, and a million of them
# cost
#
# $$\text{USD per million} = \frac{\text{USD per hour}}{3600 \cdot 1000\,n / t(n)} \cdot 10^6$$
#
# The step has a fixed part $a$ (weights are read once, whatever the batch) and a part that grows
# with the batch ($b$ for the cache of each request):
# $t(n) \approx a + b\,n$. So a token costs something like
#
# $$\text{USD per hour} \cdot \left(\frac{a}{n} + b\right)$$
#
# The first term is shared by everyone on the GPU and melts away as the batch grows; the second
# stays. **A fuller GPU makes cheaper tokens**, until one of two walls: the memory is full, or the
# step is longer than what was promised. This is the whole art. What remains is knowing where the
# walls are.
#
# **Predict by hand, for the H200.** It holds 0.92 · 141 = 129.7 GB. Weights in 8 bits take 32.8 GB;
# 97.0 GB are left. A token leaves 2 · 64 · 8 · 128 · 2 = 262,144 bytes, a request of 6,000 tokens
# 1.573 GB. So **61 requests** fit. At spec speed, reading the weights takes 32.8 / 4.8 = 6.8 ms,
# and 61 caches of 1.573 GB take 20.0 ms. Nobody reaches the spec sheet's bandwidth: say 85 %, and
# some 4 ms for launching the kernels of 64 layers: **about 35 ms**, well below 50. That is
# 61 / 0.035 = 1,740 tokens a second. The case asks for 24 · 500 = 12,000, so 12,000 / 1,740 = 6.9:
# **7 GPUs at least**, 8 to be safe, and 7 · 3.60 / (12,000 · 3600 / 1e6) = 25.2 / 43.2 =
# **0.58 USD per million tokens** or a bit more.
#
# The next cell does this arithmetic again with the numbers as they stand; your functions will
# then do it for any workload, and the last part of the notebook for this one.

# %%
usable_gb, weights_gb = 0.92 * 141, 32.76
a_token = 2 * 64 * 8 * 128 * 2
a_request_gb = 6_000 * a_token / 1e9
print(f"usable {usable_gb:.1f} GB, left {usable_gb - weights_gb:.1f} GB")
print(f"a token {a_token:,} bytes, a request {a_request_gb:.3f} GB")
print(f"requests {(usable_gb - weights_gb) / a_request_gb:.1f}, rounded down")
print(f"reading weights {weights_gb / 4.8:.1f} ms, 61 caches {61 * a_request_gb / 4.8:.1f} ms")
print(f"step about {(weights_gb + 61 * a_request_gb) / 4.8 / 0.85 + 4:.1f} ms")
print(f"{61 / 0.035:,.0f} tokens a second, {24 * 500 / (61 / 0.035):.1f} GPUs")
print(f"{7 * 3.60 / (12_000 * 3600 / 1e6):.2f} USD per million tokens")

# %% [markdown]
# ## The first wall: memory
#
# Weights, once per GPU, plus the cache of every request at its longest: prompt **and** output.
# Sizes are decimal, and 8 % of the memory is left to the engine.
#
# $$n_\text{max} = \left\lfloor \frac{0.92 \cdot \text{memory} - \text{weights}}
# {(\text{prompt} + \text{output}) \cdot \text{bytes per token}} \right\rfloor$$


# %% tags=["exercise"]
def requests_that_fit(workload: dict, gpu: dict) -> int:
    """Return how many requests one GPU holds, by memory alone.

    Args:
        workload: the workload, as in the handout; `model`, `weight_bits`, `kv_bits`,
            `prompt_tokens` and `output_tokens` are used.
        gpu: one entry of `workload["gpus"]`; `gpu_memory_gb` is used, in decimal GB.

    Returns:
        The largest n for which weights and n full requests fit in 92 % of the memory; 0 if not
        even one does.
    """
    model = workload["model"]
    weights = model["params_b"] * 1e9 * workload["weight_bits"] / 8
    tokens = workload["prompt_tokens"] + workload["output_tokens"]
    values = 2 * model["n_layers"] * model["n_kv_heads"] * model["head_dim"]
    a_request = tokens * values * workload["kv_bits"] / 8
    left = 0.92 * gpu["gpu_memory_gb"] * 1e9 - weights
    return max(0, math.floor(left / a_request))


# %%
for name, gpu in OFFERS.items():
    print(f"{name:10} holds {requests_that_fit(CASE, gpu):3} requests")

# %% [markdown]
# Memory trades context against concurrency: their product is nearly constant. Twice the context
# is half the requests.

# %%
COLORS = dict(zip(OFFERS, ["#7f7f7f", "#8c564b", "#1f77b4", "#2ca02c", "#d62728"], strict=True))
contexts = np.unique(np.geomspace(1_000, 32_768, 60).astype(int))
fig, ax = plt.subplots(figsize=(7, 4))
for name, gpu in OFFERS.items():
    if name == "A100-80GB":
        continue  # the same memory as the H100, so the same line
    held = [requests_that_fit({**CASE, "prompt_tokens": int(t) - 500}, gpu) for t in contexts]
    label = (
        "H100 and A100, 80 GB" if name == "H100-80GB" else f"{name}, {gpu['gpu_memory_gb']:g} GB"
    )
    ax.plot(contexts, np.where(np.array(held) > 0, held, np.nan), label=label, color=COLORS[name])
ax.axvline(6_000, color="grey", ls=":", lw=1)
ax.text(6_200, 420, "the case", color="grey")
ax.set(xscale="log", yscale="log", xlabel="prompt and output (tokens)", ylabel="requests per GPU")
ax.set_xticks([1_000, 2_000, 4_000, 8_000, 16_000, 32_000])
ax.set_xticklabels(["1k", "2k", "4k", "8k", "16k", "32k"])
ax.minorticks_off()
ax.set_yticks([1, 3, 10, 30, 100, 300])
ax.set_yticklabels(["1", "3", "10", "30", "100", "300"])
ax.set_title("How many requests fit (32B, 8-bit weights, 16-bit cache)")
ax.legend()
plt.show()

# %% [markdown]
# ## The second wall: a model of the step
#
# The planner asks for the step of GPU and batch sizes that nobody has measured, so it needs a
# model. You may bring the one of milestone 6. Here is another that suits a planner well: a
# roofline that has been allowed to know more. It is a sum of physical terms, each in milliseconds
# at spec speed, with one coefficient >= 0 for each term **and each GPU class**:
#
# - a constant, `n_layers` and `batch_size`: launching a step, the kernels of each layer, the host's
#   work for each sequence; `n_layers` once more for 8-bit and for 4-bit weights, whose kernels
#   have extra work to launch;
# - `n_layers * batch_size * n_heads`: the small work items of attention;
# - weight bytes / bandwidth, a term of its own for 16, 8 and 4 bits: each width reaches another
#   share of the peak;
# - the same overlapped with computing, $\sqrt{\text{read}^2 + \text{compute}^2}$: the two hide each
#   other, but not perfectly. Computing takes 2 · parameters · batch / peak, at the 0.8 of the peak
#   that engines reach;
# - KV bytes / bandwidth; once more for an 8-bit cache, and once more again for an 8-bit cache with
#   head_dim <= 64 or head_dim >= 256, because 8-bit attention kernels are tuned for 128.
#
# Why not boosted trees? They would do. But a tree answers in stairs, and a planner walks up to a
# wall one request at a time: a smooth model that can only rise with the batch gives no surprise
# there, it is fitted in a few milliseconds, and it answers in microseconds.
#
# The errors that matter are relative: 1 ms is nothing in 100 and everything in 5. Dividing each
# row of terms by its measured step turns "least squares of the relative error" into a problem that
# `scipy.optimize.nnls` solves: find coefficients >= 0 such that the divided terms add up to 1.
#
# **Predict:** milestone 5's four coefficients err by about 0.08. The runs themselves scatter: the
# same step measured on another day is off by 2 to 3 %, so **no model can be below about 0.022**.
# A good one for a planner comes close to that: **about 0.03**, also on models it has never seen.


# %% tags=["exercise"]
def step_terms(runs) -> np.ndarray:
    """Return the terms of a decode step, in ms at spec speed; their weighted sum is the step.

    Args:
        runs: n runs: a runs table, or a dict with the same columns, each a number or an array of
            n numbers.

    Returns:
        An array of shape (n, number of terms), every entry >= 0.
    """

    def column(name):
        return np.asarray(runs[name], dtype=float)

    layers, heads, batch = column("n_layers"), column("n_heads"), column("batch_size")
    params, head_dim = column("params_b") * 1e9, column("head_dim")
    weight_bits, kv_bits = column("weight_bits"), column("kv_bits")
    bytes_per_ms = column("gpu_bandwidth_gbps") * 1e6
    read = params * weight_bits / 8 / bytes_per_ms
    compute = 2 * params * batch / (column("gpu_tflops") * 1e9)
    overlapped = np.hypot(read, compute / 0.8)
    values = 2 * layers * column("n_kv_heads") * head_dim
    cache = batch * column("context_len") * values * kv_bits / 8 / bytes_per_ms
    cache_8 = cache * (kv_bits == 8)
    terms = [
        1.0,
        layers,
        layers * (weight_bits == 8),
        layers * (weight_bits == 4),
        batch,
        layers * batch * heads,
        *(read * (weight_bits == bits) for bits in (16, 8, 4)),
        *(overlapped * (weight_bits == bits) for bits in (16, 8, 4)),
        cache,
        cache_8,
        cache_8 * (head_dim <= 64),
        cache_8 * (head_dim >= 256),
    ]
    return np.stack(np.broadcast_arrays(*terms), axis=-1)


# %% tags=["exercise"]
def fit_step_model(train: pd.DataFrame) -> dict:
    """Fit the step model: for each GPU class the coefficients of the terms.

    Args:
        train: a runs table with labels; `decode_step_ms` is in milliseconds.

    Returns:
        A dict from the name of a GPU class to its coefficients, one for each term, all >= 0, that
        make the squared relative error of the step smallest.
    """
    model = {}
    for gpu, runs in train.groupby("gpu"):
        step = runs["decode_step_ms"].to_numpy()
        model[gpu], _ = nnls(step_terms(runs) / step[:, None], np.ones(len(runs)))
    return model


# %% tags=["exercise"]
def predict_step_ms(model: dict, runs) -> np.ndarray:
    """Return the predicted decode step of each run.

    Args:
        model: what `fit_step_model` returned.
        runs: n runs, a runs table or a dict of columns; `gpu` names each run's class.

    Returns:
        An array of shape (n,), milliseconds.
    """
    terms = step_terms(runs)
    if isinstance(runs["gpu"], str):
        return terms @ model[runs["gpu"]]
    coefficients = np.array([model[gpu] for gpu in runs["gpu"]])
    return (terms * coefficients).sum(axis=1)


# %% tags=["given"]
train = pd.read_csv(DATA / "train.csv")
validation = pd.read_csv(DATA / "validation.csv")
STEP_MODEL = fit_step_model(train)

# %%
measured = validation.decode_step_ms.to_numpy()
predicted = predict_step_ms(STEP_MODEL, validation)
error = np.abs(predicted - measured) / measured
unseen = ~validation.model.isin(train.model).to_numpy()
for label, rows in {"models seen in training": ~unseen, "models never seen": unseen}.items():
    print(f"MAPE on {label:24} {error[rows].mean():.3f}")

# %%
held = requests_that_fit(CASE, OFFERS["H200"])
full = {**CASE, **CASE["model"], **OFFERS["H200"], "batch_size": held, "context_len": 6_000}
step = float(predict_step_ms(STEP_MODEL, full))
print(f"H200, {held} requests: {step:.1f} ms, {1000 * held / step:,.0f} tokens a second")
print("by hand:   61 requests: about 35 ms, 1,740 tokens a second")

# %% [markdown]
# ## Headroom: what a promise costs
#
# A prediction is right on average. A promise has to be kept nearly always. If you plan with the
# bare prediction and sit exactly at the wall, every second plan breaks: the real step is about as
# often above the prediction as below. The remedy is to promise with a factor,
#
# $$\text{promised step} = (1 + h) \cdot \text{predicted step}$$
#
# and to choose $h$ from what is known about the errors: on runs that the model was not fitted on,
# how often is measured / predicted larger than $1 + h$? Take the $h$ that is exceeded in 5 % of
# them. It is neither a feeling nor a round number; it is a quantile.
#
# **Predict:** bell-shaped errors whose average size is 0.03 have a standard deviation of
# 1.25 · 0.03 = 0.038, and one in twenty lies more than 1.645 standard deviations on the slow side.
# So **h is about 0.06**.


# %% tags=["exercise"]
def headroom(predicted: np.ndarray, measured: np.ndarray, share_kept: float) -> float:
    """Return the headroom that keeps a promise in a given share of cases.

    Args:
        predicted: predicted steps, shape (n,), ms, of runs that the model was not fitted on.
        measured: measured steps of the same runs, shape (n,), ms.
        share_kept: the share of runs, between 0 and 1, whose measured step must not exceed
            (1 + headroom) times the predicted one.

    Returns:
        The smallest such headroom, as a fraction, and never below 0.
    """
    return max(0.0, float(np.quantile(measured / predicted, share_kept)) - 1)


# %% tags=["given"]
HEADROOM = headroom(
    predict_step_ms(STEP_MODEL, validation), validation["decode_step_ms"].to_numpy(), 0.95
)

# %%
ratio = np.sort(measured / predicted)
fig, ax = plt.subplots(figsize=(7, 4))
ax.plot(ratio, np.arange(1, len(ratio) + 1) / len(ratio), color="#1f77b4")
for share, offset, side in ((0.5, (-8, 6), "right"), (0.95, (8, -14), "left")):
    h = headroom(predicted, measured, share)
    ax.plot([1 + h, 1 + h], [0, share], color="grey", ls="--", lw=1)
    ax.plot([0.9, 1 + h], [share, share], color="grey", ls="--", lw=1)
    ax.annotate(
        f"{share:.0%} kept with h = {h:.3f}",
        (1 + h, share),
        xytext=offset,
        textcoords="offset points",
        ha=side,
    )
ax.set(
    xlim=(0.9, 1.2),
    ylim=(0, 1.02),
    xlabel="measured step / predicted step",
    ylabel="share of validation runs at or below",
    title="How often is a promise kept?",
)
plt.show()
print(f"headroom for 95 %: {HEADROOM:.3f}")

# %% [markdown]
# Too little headroom breaks promises; too much buys GPUs that nobody needs. In a large fleet the
# cost is plain: about $h$ more GPUs. At the latency wall it can be more than $h$: where most of
# the step is the fixed part $a$, a step that must be 5 % shorter gives up far more than 5 % of the
# batch. And in a small fleet headroom is often free, because GPUs come in whole numbers.
#
# ## All options of one GPU
#
# For each number of requests per GPU from 1 to what fits: the step, the promise, how many GPUs
# the load needs and what they cost. The load is in output tokens per second,
# `requests_per_second * output_tokens`; every request being served gets one token a step, so a GPU
# with $n$ requests makes $n$ tokens a step. GPUs come whole: round **up**.


# %% tags=["exercise"]
def options_on(workload: dict, gpu: dict, headroom: float) -> dict:
    """Return what each number of requests per GPU means on one kind of GPU.

    Args:
        workload: the workload, as in the handout.
        gpu: one entry of `workload["gpus"]`.
        headroom: what is added to a predicted step before it is promised, as a fraction.

    Returns:
        A dict of arrays of shape (n,), n from `requests_that_fit`:
        `requests_per_gpu` 1 to n; `decode_step_ms` the predicted step at the full context (prompt
        and output); `promised_ms` the same with headroom; `n_gpus` the whole GPUs that the load
        needs with promised steps, at least 1; `fleet_usd_per_hour`.
    """
    requests = np.arange(1, requests_that_fit(workload, gpu) + 1)
    runs = {
        **workload["model"],
        **gpu,
        "weight_bits": workload["weight_bits"],
        "kv_bits": workload["kv_bits"],
        "batch_size": requests,
        "context_len": workload["prompt_tokens"] + workload["output_tokens"],
    }
    step = predict_step_ms(STEP_MODEL, runs)
    promised = (1 + headroom) * step
    demand = workload["requests_per_second"] * workload["output_tokens"]
    n_gpus = np.ceil(demand / (1000 * requests / promised)).astype(int).clip(1)
    return {
        "requests_per_gpu": requests,
        "decode_step_ms": step,
        "promised_ms": promised,
        "n_gpus": n_gpus,
        "fleet_usd_per_hour": n_gpus * gpu["usd_per_hour"],
    }


# %% [markdown]
# Look at the case before you automate it. Each line ends where memory ends (square) and is drawn
# faint beyond the point where the promise of 50 ms would break (cross). The cost is that of a full
# GPU's tokens, without rounding to whole GPUs.
#
# **Predict:** the A100 is the cheapest by the hour (1.50 USD). Will it have the cheapest tokens?

# %%
LABELS = {  # where the name stands beside the end of the line
    "L40S": ((8, -3), "left"),
    "A100-80GB": ((-8, -14), "right"),
    "H100-80GB": ((8, 4), "left"),
    "H200": ((-6, -14), "right"),
    "B200": ((-4, 14), "left"),
}
fig, ax = plt.subplots(figsize=(7.5, 4.5))
for name, gpu in OFFERS.items():
    on = options_on(CASE, gpu, HEADROOM)
    n = on["requests_per_gpu"]
    dollars = gpu["usd_per_hour"] / (n * 1000 / on["promised_ms"] * 3600 / 1e6)
    kept = on["promised_ms"] <= CASE["max_step_ms"]
    width = 4 if name == "H100-80GB" else 1.5  # it lies under the line of the H200
    ax.plot(n, dollars, color=COLORS[name], alpha=0.25, lw=width)
    ax.plot(n[kept], dollars[kept], color=COLORS[name], lw=width, alpha=0.5 if width > 2 else 1)
    ax.plot(n[-1], dollars[-1], "s", color=COLORS[name], ms=6)
    end = len(n) - 1
    if kept.any() and not kept.all():
        end = int(np.flatnonzero(kept)[-1])
        ax.plot(n[end], dollars[end], "x", color=COLORS[name], ms=9, mew=2)
    offset, side = LABELS[name]
    ax.annotate(
        f"{name}, {gpu['usd_per_hour']:.2f} USD/h" + ("" if kept.any() else ",\nslower than 50 ms"),
        (n[end], dollars[end]),
        xytext=offset,
        textcoords="offset points",
        ha=side,
        va="center",
        color=COLORS[name],
    )
ax.plot([], [], "s", color="black", label="memory is full")
ax.plot([], [], "x", color="black", mew=2, label="one more breaks 50 ms")
ax.set(
    xscale="log",
    yscale="log",
    xlim=(0.9, 400),
    ylim=(0.42, 42),
    xlabel="requests per GPU",
    ylabel="USD per million output tokens",
    title="Cost of a token against requests per GPU",
)
ax.set_xticks([1, 2, 5, 10, 20, 50, 100])
ax.set_xticklabels(["1", "2", "5", "10", "20", "50", "100"])
ax.set_yticks([0.5, 1, 2, 5, 10, 20])
ax.set_yticklabels(["0.50", "1", "2", "5", "10", "20"])
ax.minorticks_off()
ax.legend(loc="upper right")
plt.show()

# %% [markdown]
# The cheapest GPU per hour does not have the cheapest tokens. Every GPU pays for its weights
# first, in memory and in time. What is left after the weights is what works: of the A100's 74 GB
# it is 41, of the H200's 130 it is 97. Per dollar and hour the A100 is cheap; per request it holds,
# it is not.
#
# ## The planner
#
# Of all options that promise at most `max_step_ms`, on all GPUs, take the cheapest fleet. Often
# several cost the same, because GPUs come whole: a fleet that is rounded up has room to spare.
# Spend that room on safety: of equally cheap plans take the one whose tighter promise is the
# looser, with
#
# $$\text{room} = \min\left(\frac{\text{max step}}{\text{promised step}},
# \frac{\text{tokens the fleet makes}}{\text{tokens demanded}}\right)$$
#
# That is also why fewer requests per GPU than fit can be right: when a smaller batch needs no more
# GPUs, its readers get their tokens sooner for the same money.
#
# `limited_by` tells what would have to give for one more request on each GPU: `memory` if it does
# not fit, else `latency` if the promise would break, else `load`: nothing stops it, there is just
# nobody to serve. And if no option on any GPU keeps the promise, the honest answer is None.


# %% tags=["exercise"]
def plan(workload: dict) -> dict:
    """Return the cheapest fleet that serves a workload and keeps its promises.

    Args:
        workload: the workload, as in the handout. Only GPUs in `workload["gpus"]` may be used.

    Returns:
        A dict with `gpu` (a name on offer), `requests_per_gpu` and `n_gpus` (whole numbers, from
        1 on), `decode_step_ms` (the step you predict, without headroom), `fleet_usd_per_hour`,
        `usd_per_million_tokens` (fleet cost for a million output tokens demanded) and
        `limited_by` ("memory", "latency" or "load"). If nothing holds:
        `{"gpu": None, "reason": "..."}`.
    """
    demand = workload["requests_per_second"] * workload["output_tokens"]
    best = None
    for gpu in workload["gpus"]:
        if gpu["gpu"] not in STEP_MODEL:
            continue  # nothing was measured on it, so nothing can be promised
        on = options_on(workload, gpu, HEADROOM)
        kept = on["promised_ms"] <= workload["max_step_ms"]
        if not kept.any():
            continue
        made = on["n_gpus"] * on["requests_per_gpu"] * 1000 / on["promised_ms"]
        room = np.minimum(workload["max_step_ms"] / on["promised_ms"], made / demand)
        cost = np.where(kept, on["fleet_usd_per_hour"], np.inf)
        i = int(np.lexsort((-room, cost))[0])
        rank = (cost[i], -room[i])
        if best is None or rank < best[0]:
            best = rank, gpu, on, i
    if best is None:
        return {"gpu": None, "reason": "no GPU on offer holds a request and keeps max_step_ms"}
    _, gpu, on, i = best
    if i + 1 == len(on["requests_per_gpu"]):
        limit = "memory"
    elif on["promised_ms"][i + 1] > workload["max_step_ms"]:
        limit = "latency"
    else:
        limit = "load"
    return {
        "gpu": gpu["gpu"],
        "requests_per_gpu": int(on["requests_per_gpu"][i]),
        "n_gpus": int(on["n_gpus"][i]),
        "decode_step_ms": float(on["decode_step_ms"][i]),
        "fleet_usd_per_hour": float(on["fleet_usd_per_hour"][i]),
        "usd_per_million_tokens": float(on["fleet_usd_per_hour"][i] / (demand * 3600 / 1e6)),
        "limited_by": limit,
    }


# %%
plan(CASE)

# %% [markdown]
# Beside the prediction by hand (7 or 8 H200, about 35 ms, 0.58 USD per million or a bit more), here
# is the best plan on each GPU alone:

# %%
alone = {name: plan({**CASE, "gpus": [gpu]}) for name, gpu in OFFERS.items()}
table = pd.DataFrame([answer for answer in alone.values() if answer["gpu"] is not None])
table.insert(1, "usd_per_hour", table["gpu"].map(lambda name: OFFERS[name]["usd_per_hour"]))
for name, answer in alone.items():
    if answer["gpu"] is None:
        print(f"{name}: {answer['reason']}")
table.round({"decode_step_ms": 1, "usd_per_million_tokens": 3})

# %% [markdown]
# ## Small loads pay for idle GPUs
#
# A fleet has at least one GPU, and whole ones. **Predict:** at a tenth of the case's load, 2.4
# requests a second, one H200 could make 1,700 tokens a second where 1,200 are wanted. It costs 3.60
# an hour for 4.32 million tokens: **0.83 USD per million**, if no smaller GPU does it for less.
# The price of a token then falls in a saw-tooth towards that of a full GPU.

# %%
loads = np.geomspace(0.3, 300, 250)
prices, winners = [], []
for load in loads:
    answer = plan({**CASE, "requests_per_second": float(load)})
    prices.append(answer["usd_per_million_tokens"])
    winners.append(answer["gpu"])
winners = np.array(winners)
fig, ax = plt.subplots(figsize=(7, 4))
ax.plot(loads, prices, color="lightgrey", lw=1, zorder=1)
for name in OFFERS:
    chosen = winners == name
    if chosen.any():
        ax.scatter(
            loads[chosen], np.array(prices)[chosen], s=9, color=COLORS[name], label=name, zorder=2
        )
ax.set(xscale="log", yscale="log", xlabel="requests per second", ylabel="USD per million tokens")
ax.set_xticks([0.3, 1, 3, 10, 30, 100, 300])
ax.set_xticklabels(["0.3", "1", "3", "10", "30", "100", "300"])
ax.set_yticks([0.5, 1, 2, 3])
ax.set_yticklabels(["0.50", "1", "2", "3"])
ax.minorticks_off()
ax.set_title("The cheapest plan against load")
ax.legend(title="cheapest on")
plt.show()
small = plan({**CASE, "requests_per_second": 2.4})
print(
    f"2.4 requests/s: {small['n_gpus']} {small['gpu']}, {small['usd_per_million_tokens']:.2f} USD"
)

# %% [markdown]
# ## What if?
#
# A plan is a sentence with numbers, and the next question is always *what if*. Three that come up
# every time:
#
# - **The context doubles** (11,000 + 1,000 tokens, 12 requests a second, so the same tokens a
#   second). Each GPU holds half the requests; each step reads the same bytes. **Predict:** half the
#   requests in about the same step: **nearly twice the fleet**.
# - **An 8-bit cache.** Half the bytes: twice the requests fit, and each is read in half the time.
#   But the weights and launches stay. **Predict: between half and two thirds** of the cost.
# - **Twice the load.** **Predict: twice the cost**, a little less where rounding helps.

# %%
WHAT_IFS = {
    "base": CASE,
    "double_context": {
        **CASE,
        "prompt_tokens": 11_000,
        "output_tokens": 1_000,
        "requests_per_second": 12.0,
    },
    "fp8_cache": {**CASE, "kv_bits": 8},
    "double_load": {**CASE, "requests_per_second": 48.0},
}
what_if = pd.DataFrame([plan(workload) for workload in WHAT_IFS.values()], index=list(WHAT_IFS))
what_if["times_base"] = what_if["fleet_usd_per_hour"] / what_if["fleet_usd_per_hour"]["base"]
what_if.round({"decode_step_ms": 1, "usd_per_million_tokens": 3, "times_base": 2})

# %% [markdown]
# And what does headroom cost here? The same case at a hundred loads, planned with more and more
# of it, beside the share of validation runs that would keep the promise:

# %%
rows = []
for h in (0.0, 0.025, 0.05, 0.1, 0.2):
    costs = []
    for load in np.geomspace(3, 300, 100):
        at_load = {**CASE, "requests_per_second": float(load)}
        fleets = []
        for gpu in CASE["gpus"]:
            on = options_on(at_load, gpu, h)
            fleets += list(on["fleet_usd_per_hour"][on["promised_ms"] <= CASE["max_step_ms"]])
        costs.append(min(fleets))
    rows.append({"headroom": h, "promises kept": (ratio <= 1 + h).mean(), "cost": np.mean(costs)})
trade = pd.DataFrame(rows)
trade["cost"] /= trade["cost"][0]
trade.round(3)

# %% [markdown]
# ## The written plan: its figures
#
# A number that nobody can check is a rumour. A capacity plan says what was asked, what was chosen,
# why, what it costs, what would change it, and what it does not cover. Begin with its figures: put
# those of the case into `capacity_plan` as plain numbers; three digits are enough. The grader asks
# your planner the same questions and compares.


# %% tags=["exercise"]
capacity_plan: dict = {
    "gpu": "H200",
    "requests_per_gpu": 61,
    "n_gpus": 8,
    "decode_step_ms": 35.4,
    "fleet_usd_per_hour": 28.8,
    "usd_per_million_tokens": 0.667,
    "limited_by": "memory",
    "fleet_usd_per_hour_double_context": 53.1,
    "fleet_usd_per_hour_fp8_cache": 17.7,
    "fleet_usd_per_hour_double_load": 53.1,
}

# %%
answers = {**plan(CASE)}
for name in ("double_context", "fp8_cache", "double_load"):
    answers[f"fleet_usd_per_hour_{name}"] = plan(WHAT_IFS[name])["fleet_usd_per_hour"]
pd.DataFrame({"written": capacity_plan, "planner": answers}).loc[list(capacity_plan)]

# %% [markdown]
# ## The written plan: its words
#
# Now write it, for somebody who has to sign the order. Each heading below is a part, and the quoted
# lines under it say what belongs there: write under them, in plain words, a few sentences a part.
# The grader sees that no part is missing and that the words name the figures above. What the words
# are worth, a person judges. (The text stands in a cell of code, between `r"""` and `"""`, so that
# it is handed in like any other answer. The cell after it shows how it reads.)


# %% tags=["exercise"]
written_plan: str = r"""
### What is asked

> Which model in which dtypes, for how many requests of how many tokens, and what was promised to
> the reader?

Qwen2.5-32B with 8-bit weights and a 16-bit cache serves 24 requests a second, each of 5,500 tokens
of prompt and 500 of answer. A reader was promised a new token at least every 50 ms. Prefill runs on
other machines, so that this fleet only decodes.

### The sizing, step by step

> From memory to requests per GPU, from the step to tokens a second, from the load to GPUs. Show the
> arithmetic, in digits.

Of an H200's 141 GB, 0.92 may be used: 129.7 GB. The weights take 32.8 GB and leave 97.0 GB. A token
leaves 2 x 64 x 8 x 128 x 2 = 262,144 bytes, a request of 6,000 tokens 1.573 GB, so 61 requests fit.
A step of 61 requests takes about 35 ms, and 37.6 ms with headroom: 61 / 0.0376 = 1,620 tokens a
second. The load is 24 x 500 = 12,000 tokens a second, so 12,000 / 1,620 = 7.4: 8 GPUs.

### What is chosen, and what it costs

> GPU, requests per GPU, number of GPUs, step in ms, USD an hour and USD per million tokens, in
> digits: the figures of `capacity_plan`.

8 H200 at 3.60 USD an hour: 28.80 USD an hour, and 0.667 USD per million output tokens demanded.
Each of them holds up to 61 requests and takes about 35 ms for a step.

### Why this one, and what limits it

> Why is it cheaper than the others on offer, and what stops one more request on each GPU?

Memory limits it: the 62nd request does not fit, while the step is far from 50 ms. The A100 is
less than half the price by the hour, but after the weights it has room for 25 requests only, and
it is at the latency wall before that. On the L40S the step of a single request is too long.

### How sure it is

> How large are the errors of the step model, which headroom does the promise carry, and how was it
> chosen?

The step model errs by about 3 % on models it has not seen. The promise carries about 6 % of
headroom: the 95 % quantile of measured over predicted steps on the validation runs.

### What would change it

> Twice the context, an 8-bit cache, twice the load: what does the fleet cost then, in USD an hour
> and in digits?

Twice the context for the same tokens a second makes it 53.10 USD an hour, on 9 B200. An 8-bit
cache makes it 17.70 USD an hour, on 3 B200: the first thing to try, if the answers stay good
enough. Twice the load makes it 53.10 USD an hour, on 9 B200 at 5.90 each.

### What it does not cover

> Which risks are left, and what would you watch or measure before money is spent?

Prefill, a spare GPU for the day when one fails, peaks above 24 requests a second, and requests
longer than 6,000 tokens. Before money is spent, measure one H200 at 61 requests.
"""

# %%
Markdown(written_plan)

# %% [markdown]
# ## What you can now answer in an interview
#
# - *How many GPUs do we need?* Tokens demanded per second over what one GPU makes at the batch it
#   can hold, rounded up, with a step that is promised and not just predicted.
# - *Which GPU is the cheapest?* The one with the cheapest token at a batch that fits and is fast
#   enough; rarely the cheapest by the hour.
# - *What limits us: memory, latency or load?* Ask what stops one more request per GPU.
# - *How much headroom?* The quantile of your own prediction errors that goes with the share of
#   promises you want to keep; more costs GPUs, less breaks promises.
# - *What happens if the context doubles, or the cache goes to 8 bits?* About twice, and about half
#   to two thirds. Memory and the read time of the cache both scale with its bytes.
# - *When do you say no?* When no GPU on offer keeps the promise at any price. Then the promise, the
#   model or the price list has to change.

# %% [markdown] tags=["questions"]
# ## Check your understanding
#
# Four questions, graded like everything else. Answer on paper first. Under a choice, copy the words
# of one option into `understanding`, between quotes. A wrong answer is told what it overlooks.


# %% tags=["exercise"]
understanding: dict = {
    "cheap_gpu_dear_tokens": "After the weights it has room for few requests, and few share the cost of each step",
    "why_headroom": "About every second real step is longer than predicted, and at a wall each breaks a promise",
    "an_8_bit_cache": "Twice as many requests fit, each read in half the time; weights and launches stay",
}


# %% tags=["exercise"]
def usd_per_million(usd_per_hour: float, requests_per_gpu: int, decode_step_ms: float) -> float:
    """Return what a million tokens cost on a GPU that is never idle.

    Args:
        usd_per_hour: price of the GPU.
        requests_per_gpu: requests that it decodes at once.
        decode_step_ms: one step of all of them, in milliseconds.

    Returns:
        USD for a million output tokens.
    """
    tokens_per_s = 1000 * requests_per_gpu / decode_step_ms
    return usd_per_hour / (tokens_per_s * 3600) * 1e6
