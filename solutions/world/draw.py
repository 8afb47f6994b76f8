"""Drawing labelled runs: which runs are sampled, and how noisy their labels are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from milestones.runs import COLUMNS, LABELS
from solutions.world.gpus import gpus_of_runs
from solutions.world.shapes import (
    SHAPE_COLUMNS,
    attention_kind,
    octaves_from_public,
    shape_columns,
    shapes_of,
    twin_key,
)
from solutions.world.step import step_ms

FloatArray = npt.NDArray[np.float64]

QUESTION_COLUMNS = ("model", "weight_bits", "kv_bits", "gpu", "batch_size", "context_len")
SIGNIFICANT_DIGITS = 6
MEMORY_FRACTION = 0.92

N_TRAIN_RUNS = 12_000
N_TEST_RUNS = 4_000
UNSEEN_OCTAVES = 1.05
FAR_OCTAVES = 1.5
N_SPREAD = 3  # GPU, batch size and context are spread evenly
PUBLIC_SEED = 20_260_101


@dataclass(frozen=True)
class Mix:
    """Which runs are sampled. Shares are chosen before the memory bound rejects what cannot fit."""

    share_by_weight_bits: tuple[tuple[int, float], ...] = ((16, 0.90), (8, 0.08), (4, 0.02))
    share_of_8_bit_cache: float = 0.12
    share_by_gpu: tuple[tuple[str, float], ...] = (
        ("L40S", 0.15),
        ("A100-80GB", 0.10),
        ("H100-80GB", 0.31),
        ("H200", 0.27),
        ("B200", 0.17),
    )
    batch_low: int = 1
    batch_high: int = 512
    share_of_power_of_two_batches: float = 0.5
    context_low: int = 256
    context_high: int = 32_768


@dataclass(frozen=True)
class Noise:
    """Spread of the labels about the noise-free step. Repeats of real steps: CV 0.4 to 1.2 %."""

    run_sd: float = 0.01
    session_sd: float = 0.025
    outlier_share: float = 0.01
    outlier_slow_low: float = 1.10
    outlier_slow_high: float = 1.20


PUBLIC_MIX = Mix()
PUBLIC_NOISE = Noise()


def significant(values: FloatArray) -> FloatArray:
    """Round to six significant digits by way of decimal text, so that CSV and memory agree."""
    return np.array([float(f"{v:.{SIGNIFICANT_DIGITS}g}") for v in values], dtype=np.float64)


def fits(runs: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Say of each run whether weights and cache fit into 92 % of its GPU's decimal gigabytes."""
    weight_bytes = runs["params_b"].to_numpy() * 1e9 * runs["weight_bits"].to_numpy() / 8
    cached_values = 2.0 * (
        runs["n_layers"].to_numpy()
        * runs["n_kv_heads"].to_numpy()
        * runs["head_dim"].to_numpy()
        * runs["batch_size"].to_numpy()
    )
    cache_bytes = cached_values * runs["context_len"].to_numpy() * runs["kv_bits"].to_numpy() / 8
    allowed = MEMORY_FRACTION * runs["gpu_memory_gb"].to_numpy() * 1e9
    return np.asarray(weight_bytes + cache_bytes <= allowed, dtype=np.bool_)


def repeats(runs: pd.DataFrame, others: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Say of each run whether a row of `others` asks the same question."""
    return np.asarray(_questions(runs).isin(_questions(others)), dtype=np.bool_)


def _questions(runs: pd.DataFrame) -> pd.MultiIndex:
    return pd.MultiIndex.from_frame(runs[list(QUESTION_COLUMNS)])


def draw_runs(
    rng: np.random.Generator,
    shapes: pd.DataFrame,
    n_runs: int,
    *,
    mix: Mix = PUBLIC_MIX,
    noise: Noise = PUBLIC_NOISE,
    prefix: str = "r",
    avoid: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Draw n_runs labelled runs of `shapes` (a table of shapes.shape_columns), in random order.

    Every shape gets the same number of runs, give or take one. A table is one sitting: each
    (model, GPU) pair in it has one session factor, drawn afresh for the table, also for pairs
    that other tables hold. Columns are COLUMNS; run_id is `prefix` and a running number.
    No run repeats the question (QUESTION_COLUMNS) of a row of `avoid`.
    """
    runs = _draw_questions(rng, shapes, n_runs, mix, avoid)
    step = step_ms(runs) * draw_noise(rng, runs, noise)
    runs["decode_step_ms"] = significant(step)
    tokens = 1000 * runs["batch_size"].to_numpy() / runs["decode_step_ms"].to_numpy()
    runs["tokens_per_s"] = significant(tokens)
    width = max(5, len(str(n_runs)))
    runs.insert(0, "run_id", [f"{prefix}{i:0{width}d}" for i in range(n_runs)])
    return runs[list(COLUMNS)]


def draw_noise(rng: np.random.Generator, runs: pd.DataFrame, noise: Noise) -> FloatArray:
    """Draw the factor by which each run's measured step differs from the noise-free one."""
    session, sessions = pd.factorize(runs["model"] + " " + runs["gpu"], sort=True)
    of_session = np.exp(noise.session_sd * rng.standard_normal(len(sessions)))
    of_run = np.exp(noise.run_sd * rng.standard_normal(len(runs)))
    is_outlier = rng.random(len(runs)) < noise.outlier_share
    slow = rng.uniform(noise.outlier_slow_low, noise.outlier_slow_high, len(runs))
    return np.asarray(of_session[session] * of_run * np.where(is_outlier, slow, 1.0))


def _draw_questions(
    rng: np.random.Generator,
    shapes: pd.DataFrame,
    n_runs: int,
    mix: Mix,
    avoid: pd.DataFrame | None,
) -> pd.DataFrame:
    """Draw unlabelled runs: what does not fit, or is asked already, is drawn again, same shape."""

    known = None if avoid is None else _questions(avoid)
    of_shape = np.arange(n_runs) % len(shapes)
    points = spread_evenly(rng, of_shape, len(shapes))
    pending = np.arange(n_runs)
    accepted = []
    while len(pending):
        runs = _questions_at(rng, shapes, of_shape[pending], points, mix).set_index(pending)
        good = fits(runs)
        if known is not None:
            good &= ~_questions(runs).isin(known)
        accepted.append(runs[good])
        pending = pending[~good]
        points = rng.random((len(pending), N_SPREAD))
    runs = pd.concat(accepted).sort_index()
    return runs.iloc[rng.permutation(n_runs)].reset_index(drop=True)


def spread_evenly(
    rng: np.random.Generator, of_shape: npt.NDArray[np.int64], n_shapes: int
) -> FloatArray:
    """Draw points in the unit cube, (n, 3), that cover it evenly within each shape.

    An additive sequence with the generalised golden ratio, shifted at random for each shape: a
    shape's few dozen runs then cover GPUs, batch sizes and contexts alike in every table, where
    independent draws would leave the fastest corner empty in one and crowded in the next.
    """
    golden = 1.2207440846057596  # the root of x**4 = x + 1
    steps = golden ** -np.arange(1.0, N_SPREAD + 1)
    turn = np.arange(len(of_shape)) // n_shapes
    shift = rng.random((n_shapes, N_SPREAD))
    return np.asarray((shift[of_shape] + turn[:, None] * steps) % 1.0, dtype=np.float64)


def _questions_at(
    rng: np.random.Generator,
    shapes: pd.DataFrame,
    of_shape: npt.NDArray[np.int64],
    spread: FloatArray,
    mix: Mix,
) -> pd.DataFrame:
    """Make runs of the given shapes, one for each point of the cube (GPU, batch, context)."""
    n = len(of_shape)
    runs = shapes.iloc[of_shape][list(SHAPE_COLUMNS)].reset_index(drop=True)
    bits, shares = zip(*mix.share_by_weight_bits, strict=True)
    runs["weight_bits"] = rng.choice(np.array(bits, dtype=np.int64), n, p=shares)
    runs["kv_bits"] = np.where(rng.random(n) < mix.share_of_8_bit_cache, 8, 16).astype(np.int64)
    bounds = np.cumsum([share for _, share in mix.share_by_gpu])
    of_gpu = np.searchsorted(bounds[:-1] / bounds[-1], spread[:, 0], side="right")
    gpus = {gpu.gpu: gpu for gpu in gpus_of_runs()}
    chosen = [gpus[name] for name, _ in mix.share_by_gpu]
    runs["gpu"] = np.array([gpu.gpu for gpu in chosen], dtype=object)[of_gpu]
    runs["gpu_memory_gb"] = np.array([gpu.gpu_memory_gb for gpu in chosen])[of_gpu]
    runs["gpu_bandwidth_gbps"] = np.array([gpu.gpu_bandwidth_gbps for gpu in chosen])[of_gpu]
    runs["gpu_tflops"] = np.array([gpu.gpu_tflops for gpu in chosen])[of_gpu]
    low, high = np.full(n, mix.batch_low), np.full(n, mix.batch_high)
    batch = _log_uniform(spread[:, 1], low, high)
    power_of_two = 2 ** np.round(np.log2(batch)).astype(np.int64)
    is_power = rng.random(n) < mix.share_of_power_of_two_batches
    runs["batch_size"] = np.where(is_power, power_of_two, batch)
    longest = np.minimum(shapes["max_context"].to_numpy()[of_shape], mix.context_high)
    runs["context_len"] = _log_uniform(spread[:, 2], np.full(n, mix.context_low), longest)
    return runs


def _log_uniform(
    unit: FloatArray, low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Turn numbers of the unit interval into whole numbers, each octave from low to high alike.

    A whole number stands for the half to either side of it, so that 1 has an octave and a half.
    """
    bottom, top = np.log(low - 0.499), np.log(high + 0.499)
    return np.asarray(
        np.clip(np.rint(np.exp(bottom + unit * (top - bottom))), low, high), dtype=np.int64
    )


def _half_unseen(
    rng: np.random.Generator, unseen: pd.DataFrame, avoid: pd.DataFrame, prefix: str
) -> pd.DataFrame:
    """Draw 4,000 runs in one sitting, half of them on the unseen shapes, in random order."""
    half = N_TEST_RUNS // 2
    seen_runs = draw_runs(rng, shapes_of("train"), half, avoid=avoid)
    unseen_runs = draw_runs(rng, unseen, N_TEST_RUNS - half)
    runs = pd.concat([seen_runs, unseen_runs], ignore_index=True)
    runs = runs.iloc[rng.permutation(N_TEST_RUNS)].reset_index(drop=True)
    runs["run_id"] = [f"{prefix}{i:05d}" for i in range(N_TEST_RUNS)]
    return runs


def draw_public() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw the public data: 12,000 runs of 40 shapes, and 4,000 with half of 8 further shapes.

    The same bytes on every call: the seed is PUBLIC_SEED.
    """
    train, validation = _public()
    return train.copy(), validation.copy()


@cache
def _public() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(PUBLIC_SEED)
    train = draw_runs(rng, shapes_of("train"), N_TRAIN_RUNS, prefix="t")
    return train, _half_unseen(rng, shapes_of("validation"), train, "v")


def draw_hidden(rng: np.random.Generator) -> pd.DataFrame:
    """Draw a hidden set: 4,000 runs, half of them of 8 shapes nobody has benchmarked.

    The 8 shapes come from the pool and are no twins of each other or of the 48 public shapes.
    The other half is of the 40 train shapes, in sessions of its own: a (model, GPU) pair that
    the public data holds was measured again on another day, so its session factor is new. No
    question of the public data is repeated.
    """
    avoid = pd.concat(_public(), ignore_index=True)
    return _half_unseen(rng, draw_unseen_shapes(rng), avoid, "h")


def draw_unseen_shapes(rng: np.random.Generator) -> pd.DataFrame:
    """Draw 8 shapes of the pool, no twins, with every attention kind among them.

    Two come from each quarter by size (quarters of the train shapes), one from the faster half
    of that quarter and one from the slower, so that hidden sets are alike in difficulty; 1 or 2
    are MQA, 2 or more MHA, 3 or more GQA. So that a set cannot be answered by looking up public
    neighbours, their mean distance from the nearest public shape is UNSEEN_OCTAVES or more, where
    a distance beyond FAR_OCTAVES counts as that.
    """
    pool = shapes_of("pool")
    pool = pool[~twin_key(pool).duplicated()].reset_index(drop=True)
    edges = shapes_of("train")["params_b"].quantile([0.25, 0.5, 0.75]).to_numpy()
    quarter = pd.Series(np.searchsorted(edges, pool["params_b"].to_numpy()))
    speed = nominal_tokens_per_s(pool)
    fast = speed > speed.groupby(quarter).transform("median")
    groups = [rows.to_numpy() for rows in pool.groupby([quarter, fast]).groups.values()]
    kind = attention_kind(pool).to_numpy()
    octaves = octaves_from_public(pool).clip(upper=FAR_OCTAVES).to_numpy()
    while True:
        chosen = np.array([rng.choice(group) for group in groups])
        n_mqa, n_mha, n_gqa = ((kind[chosen] == name).sum() for name in ("MQA", "MHA", "GQA"))
        mixed = 1 <= n_mqa <= 2 and n_mha >= 2 and n_gqa >= 3
        if mixed and octaves[chosen].mean() >= UNSEEN_OCTAVES:
            break
    return shape_columns(pool.iloc[np.sort(chosen)])


def nominal_tokens_per_s(shapes: pd.DataFrame) -> pd.Series:
    """Noise-free throughput of each shape on the fastest GPU, 256 sequences of 1,024 tokens.

    Only ranks shapes by speed: whether the run would fit is not asked.
    """
    fastest = gpus_of_runs()[-1]
    runs = shapes.assign(
        weight_bits=16,
        kv_bits=16,
        gpu=fastest.gpu,
        gpu_bandwidth_gbps=fastest.gpu_bandwidth_gbps,
        gpu_tflops=fastest.gpu_tflops,
        batch_size=256,
        context_len=1024,
    )
    return pd.Series(1000 * 256 / step_ms(runs), index=shapes.index)


def draw_tables(
    rng: np.random.Generator, n_tables: int, n_rows: int, avoid: pd.DataFrame | None = None
) -> list[pd.DataFrame]:
    """Draw labelled tables for milestone 1, of 24 to 48 public shapes and a mix of their own.

    Sizes vary from 60 to 100 % of n_rows. Each keeps one of the smallest and one of the largest
    shapes, so that its throughput spans about the public range. No run repeats the question of a
    row of `avoid`.
    """
    public = pd.concat([shapes_of("train"), shapes_of("validation")], ignore_index=True)
    public = public.sort_values("params_b", kind="stable").reset_index(drop=True)
    tables = []
    for number in range(n_tables):
        n_shapes = int(rng.integers(24, len(public) + 1))
        chosen = np.sort(rng.choice(len(public), n_shapes, replace=False))
        ends = np.array([0, 1, 2, len(public) - 3, len(public) - 2, len(public) - 1])
        shapes = public.iloc[np.union1d(chosen, ends)].reset_index(drop=True)
        weights = rng.uniform(0.6, 1.4, len(PUBLIC_MIX.share_by_gpu))
        gpus = [name for name, _ in PUBLIC_MIX.share_by_gpu]
        shares = tuple(zip(gpus, (weights / weights.sum()).tolist(), strict=True))
        rows = int(rng.integers(int(0.6 * n_rows), n_rows + 1))
        mix = Mix(share_by_gpu=shares, context_low=int(rng.integers(192, 321)))
        tables.append(draw_runs(rng, shapes, rows, mix=mix, prefix=f"q{number}-", avoid=avoid))
    return tables


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table with the committed bytes: comma, newline ends, UTF-8, labels in six digits."""
    written = table.copy()
    for label in LABELS:
        if label in written:
            written[label] = [f"{v:.{SIGNIFICANT_DIGITS}g}" for v in written[label]]
    with path.open("w", encoding="utf-8", newline="") as file:
        written.to_csv(file, index=False, lineterminator="\n")
