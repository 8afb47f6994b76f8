# %% [markdown]
# # Milestone 1: what a table of runs holds
#
# You are about to size a fleet of GPUs that serve language models. All you have is a table: runs
# of a decode benchmark, one row each, with the speed that was reached. This milestone does what
# comes before any model: look at the table, and find out how far the simplest model gets.
#
# **You will write** `profile_runs` and `linear_baseline_r2`, with `linear_predictions` on the way.
#
# **Check your work** at any time: type `%load_ext grader` into a cell, once, and then `%check`.
# It asks what is defined in this notebook right now. `grader check 1` in a terminal grades the saved
# file from a fresh start, as your hand-in will be.

# %% tags=["given"]
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

DATA = next(
    p / "data" for p in [Path.cwd(), *Path.cwd().parents] if (p / "data/train.csv").exists()
)
RAW_COLUMNS = [  # the numbers one knows before a run; the last two columns of the table are labels
    "n_layers",
    "hidden_size",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "intermediate_size",
    "params_b",
    "weight_bits",
    "kv_bits",
    "gpu_memory_gb",
    "gpu_bandwidth_gbps",
    "gpu_tflops",
    "batch_size",
    "context_len",
]

# %% [markdown]
# ## One row
#
# A language model writes one token at a time. One **decode step** writes one token for every
# request of a batch: it reads the model's weights once, reads what each request has said so far
# (its *context*, kept as keys and values), and appends one token to each. A row of the table is
# one such measurement on one GPU:
#
# - **the model**: layers, widths, query heads, KV heads, parameters (in 1e9), bits per weight;
# - **the GPU**: memory (GB), bandwidth (GB/s), arithmetic (TFLOP/s);
# - **the work**: `batch_size` requests, each with `context_len` tokens behind it;
# - **the labels**: `decode_step_ms`, the time of one step of the whole batch, and `tokens_per_s`.
#
# The runs are simulated from measurements of real kernels and engines; `data/README.md` tells
# how. The two labels are one fact in two forms. A step gives each of the requests one token, so
#
# $$\text{tokens per s} = \frac{1000 \cdot \text{batch size}}{\text{decode step in ms}}$$
#
# **Predict:** a step of 20 ms with 64 requests makes 64 · 1000 / 20 = **3,200 tokens/s**. The next
# cell shows a row, and checks the identity on all of them: labels are written with six digits, so
# the two sides may differ by **5e-6** of their size and not more.

# %%
train = pd.read_csv(DATA / "train.csv")
validation = pd.read_csv(DATA / "validation.csv")
identity = 1000 * train.batch_size / train.decode_step_ms
largest = ((train.tokens_per_s - identity) / identity).abs().max()
print(f"{len(train):,} runs to train on, {len(validation):,} to validate")
print(f"64 requests, 20 ms: {1000 * 64 / 20:,.0f} tokens/s")
print(f"largest relative difference between the two labels: {largest:.1e}")
train.iloc[[0]].T.rename(columns={0: "first run"})

# %% [markdown]
# ## Profile it
#
# Count first: runs, models, GPUs. Then the layouts of attention. Each of `n_heads` query heads
# reads keys and values; how many *sets* of keys and values there are is `n_kv_heads`:
#
# | layout | KV heads | in words |
# |---|---|---|
# | MHA, multi-head | as many as query heads | each query head has its own |
# | GQA, grouped-query | fewer | a group of query heads shares one |
# | MQA, multi-query | one, below several query heads | all share one |
#
# Then the ranges, and above all the range of the throughput.
#
# **Predict the slow end.** Everything in memory that a step needs is read once per step, at the
# GPU's bandwidth. The smallest GPU here is an L40S: 48 GB, of which runs may fill 92 %, 44.2 GB;
# 864 GB/s. A full one needs at least 44.2 / 864 s = 51 ms for a step, and with one request that is
# at most **20 tokens/s**. Real kernels reach some 80 % of the bandwidth: about 16.
#
# **Predict the fast end.** The smallest models have 0.1 to 0.2 billion parameters, 0.3 GB in
# 16 bits: read in 0.04 ms on a B200 (8,000 GB/s). What is left is launching kernels and
# scheduling, half a ms to 3 ms a step. The largest batch, 512 requests, in 2 ms: about **250,000
# tokens/s**.
#
# So the ratio should be near 250,000 / 16: **more than ten thousand**.


# %% tags=["exercise"]
def profile_runs(runs: pd.DataFrame) -> dict:
    """Describe a labelled table of runs.

    A layout is MHA if n_kv_heads equals n_heads, else MQA if n_kv_heads is 1, else GQA.

    Args:
        runs: a runs table, one run a row, with its labels.

    Returns:
        A dict with these keys:

        - n_runs, n_models, n_gpus: rows, different models, different GPUs;
        - runs_by_attention: a dict with the keys MHA, GQA and MQA, runs of each layout (0 if none);
        - context_len_min, context_len_median, context_len_max: in tokens;
        - tokens_per_s_min, tokens_per_s_max: in tokens per second;
        - throughput_ratio: fastest over slowest tokens_per_s;
        - share_by_gpu: a dict, for each GPU of the table its fraction of the runs.
    """
    layout = np.select(
        [runs["n_kv_heads"] == runs["n_heads"], runs["n_kv_heads"] == 1],
        ["MHA", "MQA"],
        default="GQA",
    )
    slowest, fastest = runs["tokens_per_s"].min(), runs["tokens_per_s"].max()
    return {
        "n_runs": len(runs),
        "n_models": runs["model"].nunique(),
        "n_gpus": runs["gpu"].nunique(),
        "runs_by_attention": {kind: int((layout == kind).sum()) for kind in ("MHA", "GQA", "MQA")},
        "context_len_min": runs["context_len"].min(),
        "context_len_median": runs["context_len"].median(),
        "context_len_max": runs["context_len"].max(),
        "tokens_per_s_min": slowest,
        "tokens_per_s_max": fastest,
        "throughput_ratio": fastest / slowest,
        "share_by_gpu": runs["gpu"].value_counts(normalize=True).to_dict(),
    }


# %%
profile = profile_runs(train)
for key in ("n_runs", "n_models", "n_gpus", "tokens_per_s_min", "tokens_per_s_max"):
    print(f"{key:18} {profile[key]:>11,.0f}")
print(f"{'throughput_ratio':18} {profile['throughput_ratio']:>11,.0f}")
for key in ("runs_by_attention", "share_by_gpu"):
    print(f"{key:18} {pd.Series(profile[key]).round(3).to_dict()}")
print(
    "context, shortest, median, longest:",
    *(f"{profile[f'context_len_{part}']:,.0f}" for part in ("min", "median", "max")),
)

# %% [markdown]
# ## Look at it
#
# A ratio of ten thousand needs a logarithmic axis. **Predict:** on a linear one, **more than half**
# of all runs lie in the first hundredth of it. The picture is coloured by batch size, the one
# number an operator can turn.

# %%
bands = [(1, 1), (2, 8), (9, 64), (65, 512)]
shades = ["#c6dbef", "#6baed6", "#2171b5", "#08306b"]
bins = np.logspace(1, 5.5, 46)
fig, ax = plt.subplots(figsize=(9, 4))
counts, _, _ = ax.hist(
    [train.tokens_per_s[train.batch_size.between(low, high)] for low, high in bands],
    bins=bins,
    stacked=True,
    color=shades,
    label=["1 request", *(f"{low} to {high} requests" for low, high in bands[1:])],
)
top = counts[-1].max() * 1.18
for value, name, side, gap in (
    (train.tokens_per_s.median(), "median", "right", 0.92),
    (train.tokens_per_s.mean(), "mean", "left", 1.08),
):
    ax.axvline(value, color="black", lw=1, ls="--")
    ax.text(value * gap, top * 0.98, f"{name} {value:,.0f}", ha=side, va="top")
ax.set(xscale="log", xlim=(10, 10**5.5), ylim=(0, top))
ax.set(xlabel="throughput (tokens/s)", ylabel="runs per bin")
ax.set_title("Throughput of 12,000 runs spans more than four decades", loc="left")
ax.legend(title="batch size", frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
ax.spines[["top", "right"]].set_visible(False)
plt.show()
in_first = train.tokens_per_s.lt(train.tokens_per_s.max() / 100).mean()
print(f"{in_first:.0%} of the runs lie in the first hundredth of a linear axis")
print(f"half of the runs stay below {train.tokens_per_s.median():,.0f} tokens/s")
print(
    f"the mean, {train.tokens_per_s.mean():,.0f}, is more than "
    f"{train.tokens_per_s.lt(train.tokens_per_s.mean()).mean():.0%} of the runs reach"
)

# %% [markdown]
# Which work was sampled? Batch size and context are both spread over their octaves, but not
# independently: the corner of many requests with long contexts is empty. Those caches do not fit
# into a GPU's memory; milestone 3 draws that line. (The step at 2,048 tokens has another reason:
# many of the older models accept no longer context.)

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), width_ratios=[1.25, 1])
counted = left.hist2d(
    train.batch_size,
    train.context_len,
    bins=[2 ** np.arange(-0.5, 10), 2 ** np.arange(8, 15.1, 0.5)],
    cmap="Blues",
)
left.set_xscale("log", base=2)
left.set_yscale("log", base=2)
left.set_xticks(2 ** np.arange(0, 10, 3), [str(2**power) for power in range(0, 10, 3)])
left.set_yticks(2 ** np.arange(8, 16, 2), [f"{2**power:,}" for power in range(8, 16, 2)])
left.minorticks_off()
left.set(xlabel="batch size (requests)", ylabel="context (tokens)")
left.set_title("Runs by batch size and context", loc="left")
fig.colorbar(counted[3], ax=left, label="runs")
by_bandwidth = train.groupby("gpu").gpu_bandwidth_gbps.first().sort_values().index
mix = pd.DataFrame(
    {gpu: profile_runs(train[train.gpu == gpu])["runs_by_attention"] for gpu in by_bandwidth}
).T
start = np.zeros(len(mix))
for kind, color in zip(mix, ["#2171b5", "#6baed6", "#fd8d3c"], strict=True):
    right.barh(mix.index, mix[kind], left=start, color=color, label=kind)
    start = start + mix[kind].to_numpy()
right.set(xlabel="runs")
right.set_title("Runs by GPU and attention layout", loc="left")
right.legend(frameon=False, loc="lower right")
right.spines[["top", "right"]].set_visible(False)
fig.tight_layout()
plt.show()

# %% [markdown]
# ## The simplest model: a straight line
#
# A linear regression gives each of the 14 raw columns one slope, and adds:
#
# $$p = a + b_1 x_1 + \dots + b_{14} x_{14}$$
#
# The numbers are chosen so that the squared error on the training runs is as small as possible.
# The labels are not among the columns: a model that is shown `decode_step_ms` has been shown the
# answer. `run_id` is a name and says nothing.


# %% tags=["exercise"]
def linear_predictions(train: pd.DataFrame, runs: pd.DataFrame) -> np.ndarray:
    """Predict the throughput of runs by a straight line through the raw columns.

    Ordinary least squares with an intercept, of tokens_per_s on RAW_COLUMNS. This function is a
    step on the way and is not graded by itself.

    Args:
        train: labelled runs to fit on.
        runs: runs to predict; their labels, if any, are not used.

    Returns:
        An array of shape (len(runs),), the predicted tokens per second of each row.
    """
    model = LinearRegression().fit(train[RAW_COLUMNS], train["tokens_per_s"])
    return model.predict(runs[RAW_COLUMNS])


# %% [markdown]
# ## One number for how good it is
#
# R² compares a model with the laziest one, which always says the mean:
#
# $$R^2 = 1 - \frac{\sum_i (y_i - p_i)^2}{\sum_i (y_i - \bar y)^2}$$
#
# 1 is perfect, 0 is no better than the mean, and below 0 is worse than the mean. It is measured on
# runs that the model has not seen, with the mean of those runs.
#
# **Predict.** Effects of a raw column *multiply* in reality: twice the bandwidth makes any model up
# to twice as fast, which is some 15 tokens/s more for the slowest run of the profile above and
# hundreds of thousands for the fastest. A straight line can only *add* the same amount everywhere.
# It will be far too low for the few fast runs and nonsense for the many slow ones. Say it explains
# half of the variance, R² = 0.5. Then its typical error is $\sqrt{1 - 0.5}$ = 0.7 of the spread of
# the throughput. The spread (standard deviation) of the validation runs is near 13,500 tokens/s, so
# the error would be **between 9,000 and 10,000 tokens/s**, while half of the runs make less than
# 1,500. And nothing stops the line from going **below zero**.


# %% tags=["exercise"]
def linear_baseline_r2(train: pd.DataFrame, test: pd.DataFrame) -> float:
    """Return the R² of tokens_per_s on `test`, of a straight line fitted on `train`.

    Args:
        train: labelled runs to fit on.
        test: labelled runs to score on; R² is taken about the mean of their tokens_per_s.

    Returns:
        R² = 1 - SSE / SST, at most 1; negative where the mean would do better.
    """
    actual = test["tokens_per_s"].to_numpy()
    predicted = linear_predictions(train, test)
    sse = ((actual - predicted) ** 2).sum()
    sst = ((actual - actual.mean()) ** 2).sum()
    return 1 - sse / sst


# %%
line = linear_predictions(train, validation)
speed = validation.tokens_per_s.to_numpy()
print(f"R² on the validation runs:      {linear_baseline_r2(train, validation):.3f}")
print(f"R² on the training runs:        {linear_baseline_r2(train, train):.3f}")
print(f"spread of the validation speeds: {speed.std():,.0f} tokens/s")
print(f"typical (root mean square) error: {np.sqrt(((line - speed) ** 2).mean()):,.0f} tokens/s")
print(f"median speed of a validation run: {np.median(speed):,.0f} tokens/s")
print(f"predictions below zero:         {(line < 0).mean():.0%}, the lowest {line.min():,.0f}")

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
below = line < 0
left.axhspan(line.min() * 1.08 / 1000, 0, color="#fee0d2", lw=0)
for chosen, color, name in ((~below, "#2171b5", "above zero"), (below, "#cb181d", "below zero")):
    left.scatter(speed[chosen], line[chosen] / 1000, s=4, color=color, alpha=0.5, label=name)
steps = np.logspace(1.1, np.log10(speed.max()), 200)
left.plot(steps, steps / 1000, color="black", lw=1, label="a perfect prediction")
left.set(xscale="log", xlabel="measured throughput (tokens/s)")
left.set(ylabel="predicted (1,000 tokens/s)", ylim=(line.min() * 1.08 / 1000, 100))
left.set_title("The line predicts impossible speeds", loc="left")
left.legend(frameon=False, loc="upper left", markerscale=3)
right.scatter(validation.batch_size, (speed - line) / 1000, s=4, color="#2171b5", alpha=0.5)
right.axhline(0, color="black", lw=1)
right.set(xscale="log", xlabel="batch size (requests)")
right.set(ylabel="measured - predicted (1,000 tokens/s)")
right.set_title("What it leaves over opens like a fan", loc="left")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
fig.tight_layout()
plt.show()

# %% [markdown]
# The line explains about 0.48 of the variance of the validation runs, near the half that was
# guessed, and its errors are larger than most of the speeds. Later milestones compare themselves
# with this 0.48. Now look at the right picture. If the line had found what there is to find, the
# rest would be a band of noise. It is a fan instead: the larger the batch, the more the runs of one
# batch size differ from each other. So the *slope* of throughput against batch is not one number.
# The next cell measures it in two corners of the table. **Predict:** a small model on the fastest
# GPU should gain at least **five times** as much per request as a large model on the same GPU.

# %%
fast_gpu = train[train.gpu == "B200"]
for name, part in {
    "models below 1B, B200": fast_gpu[fast_gpu.params_b < 1],
    "models above 30B, B200": fast_gpu[fast_gpu.params_b > 30],
    "all runs together": train,
}.items():
    slope = np.polyfit(part.batch_size, part.tokens_per_s, 1)[0]
    print(f"{name:24} {slope:7.1f} tokens/s more per request in the batch")

# %% [markdown]
# ## What a physical quantity would do
#
# No amount of tuning a straight line helps: its columns are the wrong ones. So build one that means
# something. If a step did nothing but read the weights once, at full bandwidth, it would take
# (weight bytes / bandwidth), and the batch would make
#
# $$\text{batch size} \cdot \frac{\text{bandwidth}}{\text{weight bytes}}
# \quad\text{tokens per second}$$
#
# That is one number per run, made of four raw columns, with nothing fitted. **Predict:** it is a
# ceiling, so **no** run lies above it; and as it multiplies where reality multiplies, it should put
# the runs in nearly the right order, better than any raw column (rank correlation 1 is the
# perfect order).

# %%
speed = validation.tokens_per_s.to_numpy()
weight_gb = validation.params_b * validation.weight_bits / 8
ceiling = validation.batch_size * validation.gpu_bandwidth_gbps / weight_gb
order = validation[RAW_COLUMNS].corrwith(validation.tokens_per_s, method="spearman").abs()
print(f"runs above the ceiling: {(speed > ceiling).sum()} of {len(validation):,}")
print(f"rank correlation of the best raw column, {order.idxmax()}: {order.max():.2f}")
print(f"rank correlation of the ceiling: {ceiling.corr(validation.tokens_per_s, 'spearman'):.2f}")
fig, ax = plt.subplots(figsize=(6.5, 4.8))
dots = ax.scatter(
    ceiling, speed, s=5, c=np.log10(validation.context_len * validation.batch_size), cmap="viridis"
)
ends = np.array([speed.min() / 1.5, ceiling.max() * 1.5])
ax.plot(ends, ends, color="black", lw=1)
ax.annotate(
    "as fast as the\nweights can be read",
    xy=(3e4, 3e4),
    xytext=(100, 5e4),
    arrowprops={"arrowstyle": "-", "color": "grey"},
)
ax.set(xscale="log", yscale="log", xlim=ends, ylim=(ends[0], speed.max() * 3))
ax.set(
    xlabel="batch × bandwidth / weight bytes (tokens/s)", ylabel="measured throughput (tokens/s)"
)
ax.set_title("One physical number, nothing fitted", loc="left")
bar = fig.colorbar(dots, label="tokens in the cache of the batch", ticks=range(3, 7))
bar.ax.set_yticklabels([f"$10^{power}$" for power in range(3, 7)])
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# The points follow the diagonal from below, and fall away from it higher up. Two things are missing
# from the number. Dark points far below the line are lone requests to small models: their weights
# are read in less time than it takes to launch the work, so an overhead decides. Bright points far
# below it have much cache to read, and reading keys and values takes time as well. What a cache
# costs is the next milestone; what a step costs, from such pieces, is milestone 5.
#
# ## What you can now answer in an interview
#
# - *What would you look at first in a table of benchmark runs?* Counts, mixes, ranges, and the
#   distribution of the label on an axis that suits it.
# - *The R² of your model is 0.5. Is that good?* Compare it with the mean (0), then look at the
#   residuals: here it means errors larger than most of the values, and negative speeds.
# - *Why does linear regression on the spec sheet fail?* Its columns act by multiplication and
#   division, and it can only add.
# - *What is leakage?* A column that holds the answer, such as the step time when the throughput is
#   asked for. It scores well and predicts nothing.
# - *Why is one request slow on any GPU?* Each step reads all of the weights, whether one request
#   uses them or hundreds.

# %% [markdown] tags=["questions"]
# ## Check your understanding
#
# Four questions, graded like everything else. Answer on paper first. Under a choice, copy the words
# of one option into `understanding`, between quotes; a number goes there without its unit. A wrong
# answer is told what it overlooks.


# %% tags=["exercise"]
understanding: dict = {
    "why_a_line_fails": "It adds columns up, and a speed comes of multiplying and dividing them",
    "layout_of_32_and_8": "GQA: four query heads share each KV head, and the cache is a quarter of MHA's",
    "seconds_for_500_tokens": 10,
}


# %% tags=["exercise"]
def throughput(batch_size: int, decode_step_ms: float) -> float:
    """Return the tokens per second of a whole batch.

    Args:
        batch_size: requests that are decoded together.
        decode_step_ms: one step of the whole batch, in milliseconds.

    Returns:
        Output tokens per second, over all requests.
    """
    return 1000 * batch_size / decode_step_ms
